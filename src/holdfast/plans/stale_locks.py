"""Markers of running plans, by which a state lock that a killed plan left can be recognised and released."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from holdfast.kernel.errors import EngineError, HoldfastError
from holdfast.plans.workdir import StackWorkdir
from holdfast.store.blobs import encode_name, to_json
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table
from holdfast.system.process_table import Liveness, ProcessId
from holdfast.terraform.diagnostics import LockInfo

_SKEW = timedelta(seconds=5)
_OLD_SECONDS = 7 * 86400.0


@contextlib.contextmanager
def plan_marker(store: RunStore, workdir: StackWorkdir) -> Iterator[None]:
    """A marker that is removed after the plan, unless Terraform was killed: then its lock may remain.

    A managed state is not locked, and a local lock ends with its process.
    """
    if workdir.home.managed or workdir.home.file is not None:
        yield
        return
    encrypted = store.encrypted
    name = f"{_folder(workdir.stack.name)}/{clock.new_id()}"
    marker: dict[str, object] = {
        "process": process_table.this_process().document(),
        "began": clock.now().isoformat(),
    }
    encrypted.write(name, to_json(marker), durable=False)
    killed = False
    try:
        yield
    except EngineError:
        killed = True
        raise
    finally:
        if not killed:
            with contextlib.suppress(HoldfastError, OSError):
                encrypted.remove(name)


def held_by_dead_process(store: RunStore, stack: str, lock: LockInfo) -> bool:
    """Whether this lock was taken by a plan on this machine whose process is proved dead."""
    encrypted = store.encrypted
    dead = False
    for name in encrypted.names(_folder(stack)):
        blob = encrypted.read(name)
        if blob is None or (store.can_apply and not blob.signed):
            continue  # A plan job may release the locks of plan jobs, but not have others release any.
        marker = blob.document()
        document, began = marker.get("process"), str(marker.get("began"))
        if not isinstance(document, Mapping):
            continue
        process = ProcessId.of(document)
        if store.machines.liveness(process) is Liveness.DEAD:
            dead = dead or is_lock_taken_on(lock, host=process.host, began=began)
            if clock.seconds_since(began) > _OLD_SECONDS:
                encrypted.remove(name)
    return dead


def is_lock_taken_on(lock: LockInfo, *, host: str, began: str) -> bool:
    """Whether the lock was taken on that machine, after that moment."""
    try:
        since = datetime.fromisoformat(began)
        created = datetime.fromisoformat(f"{lock.created}+00:00")
        later = created >= since - _SKEW
    except (ValueError, TypeError):
        # Invalid, or without a time zone.
        return False
    return later and bool(host) and lock.who.rpartition("@")[2] == host


def _folder(stack: str) -> str:
    return f"planning/{encode_name(stack)}"
