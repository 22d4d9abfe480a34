"""Errors of the database, and the only place that translates those of the driver.

A driver's message can contain values of a row; only its first line and its SQLSTATE are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.kernel.errors import Busy, Failed, HoldfastError, UsageError

EXTRA = "Install Holdfast with its server extra: pip install 'holdfast[server]'."


class DatabaseUnavailable(Failed):
    """No usable answer. A transaction that was being committed may have succeeded or not."""


class DatabaseRefused(Failed):
    """PostgreSQL answered with an error, and nothing was written."""


class DatabaseBusy(Busy):
    """A lock or a time limit; nothing was written."""


def extra_missing(package: str) -> UsageError:
    return UsageError("HF-DB-2", f"the Python package {package} is not installed", hint=EXTRA)


@contextmanager
def translate_errors(shown: str) -> Iterator[None]:
    """Every error of psycopg and its pool becomes one of ours; others pass."""
    import psycopg  # noqa: PLC0415 - an extra

    try:
        yield
    except psycopg.Error as error:
        raise translated(error, shown) from error


def translated(error: Exception, shown: str) -> HoldfastError:
    """From an error of psycopg. `shown` names the database."""
    from psycopg import Error, InterfaceError, OperationalError, errors  # noqa: PLC0415 - an extra
    from psycopg_pool import PoolClosed, PoolTimeout  # noqa: PLC0415 - an extra

    state = error.sqlstate if isinstance(error, Error) else None
    reason = _reason(error)
    if isinstance(error, (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)):
        return DatabaseBusy(
            "HF-DB-6",
            f"the database {shown} was too slow, or another transaction held a lock: {reason}",
            hint="Nothing was written. Try again; `holdfast db status` shows whether the database answers.",
        )
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory, errors.ReadOnlySqlTransaction)):
        return DatabaseRefused(
            "HF-DB-5",
            f"the database {shown} cannot write: {reason}",
            hint="Nothing was written. Free space, or check that this is the primary server, then try again.",
        )
    if isinstance(error, (PoolTimeout, PoolClosed, InterfaceError)) or _is_lost(
        error, OperationalError, state
    ):
        _, answered, answer = reason.rpartition("FATAL: ")
        return DatabaseUnavailable(
            "HF-DB-1",
            f"cannot {'use' if answered else 'reach'} the database {shown}: {answer}",
            hint="PostgreSQL answered: correct user, password or database in HOLDFAST_DATABASE_URL."
            if answered
            else "Check that PostgreSQL runs: holdfast db status. "
            "With HOLDFAST_DATABASE_URL, check its host and port.",
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return DatabaseRefused(
            "HF-DB-5",
            f"the database {shown} refused a statement: {reason}",
            hint="The user must own the database: ALTER DATABASE name OWNER TO user",
        )
    return DatabaseRefused(
        "HF-DB-5",
        f"the database {shown} refused a statement: {reason}",
        hint="Nothing was written. `holdfast db status` shows whether the schema fits this version.",
    )


def _is_lost(error: Exception, operational: type[Exception], state: str | None) -> bool:
    """Without an answer there is no SQLSTATE. 08: lost connection, 28: login, 3D: no database, 57P: stop."""
    if state is None:
        return isinstance(error, operational)
    return state.startswith(("08", "28", "3D", "53300", "57P"))


def _reason(error: Exception) -> str:
    diagnostics = getattr(error, "diag", None)
    text = getattr(diagnostics, "message_primary", None) or str(error) or type(error).__name__
    state = getattr(error, "sqlstate", None)
    line = " ".join(str(text).splitlines()[0].split()) if str(text).strip() else type(error).__name__
    return f"{line} (SQLSTATE {state})" if state else line
