"""Every error of the driver becomes one of ours, without values of a row."""

from __future__ import annotations

import psycopg
import psycopg_pool
import pytest
from psycopg import errors

from holdfast.database.database import address_from_url
from holdfast.database.errors import (
    DatabaseBusy,
    DatabaseRefused,
    DatabaseUnavailable,
    translate_errors,
    translated,
)
from holdfast.kernel.errors import HoldfastError, UsageError

UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg_pool.PoolTimeout,
    psycopg_pool.PoolClosed,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.ConnectionFailure,
    errors.TooManyConnections,
    errors.InvalidPassword,
    errors.InvalidCatalogName,
)
BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected)
REFUSED = (errors.DiskFull, errors.ReadOnlySqlTransaction, errors.UniqueViolation, errors.UndefinedTable)


@pytest.mark.parametrize(
    ("kinds", "ours"), [(UNAVAILABLE, DatabaseUnavailable), (BUSY, DatabaseBusy), (REFUSED, DatabaseRefused)]
)
def test_each_kind_has_its_error(kinds: tuple[type[Exception], ...], ours: type[HoldfastError]) -> None:
    for kind in kinds:
        assert type(translated(kind("reason"), "db")) is ours, kind


def test_no_error_of_the_driver_is_missed() -> None:
    for name in dir(errors):
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, psycopg.Error):
            with pytest.raises(HoldfastError, match="HF-DB-"), translate_errors("db"):
                raise kind("reason")


def test_only_the_first_line_is_shown() -> None:
    """The second one has values: `Key (name)=(…) already exists.`"""
    error = errors.UniqueViolation("duplicate key\nDETAIL:  Key (name)=(canary) already exists.")
    assert "canary" not in str(translated(error, "db"))


def test_an_address_hides_its_password() -> None:
    address = address_from_url("postgresql://holdfast:c%40nary@db.example:5433/state?sslcert=x")
    assert address.parameters["password"] == "c@nary"
    assert address.shown == "postgresql://holdfast@db.example:5433/state"
    assert "nary" not in repr(address)


def test_another_machine_is_reached_with_tls() -> None:
    assert address_from_url("postgresql://db.example/state").parameters["sslmode"] == "require"
    assert "sslmode" not in address_from_url("postgresql://127.0.0.1/state").parameters
    assert "sslmode" not in address_from_url("postgresql:///state?host=/run/postgresql").parameters
    written = address_from_url("postgresql://db.example/state?sslmode=disable")
    assert written.parameters["sslmode"] == "disable"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://a:canary@b/c",
        "host=x password=canary",
        "postgresql://a:canary@b/c?colour=red",
    ],
)
def test_another_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError, match="HF-DB-10") as raised:
        address_from_url(url)
    assert "canary" not in str(raised.value)
