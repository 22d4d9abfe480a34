"""Who plans, where a plan locks a state elsewhere: so that a lock that a killed plan left can be released."""

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


@contextlib.contextmanager
def plan_marker(store: RunStore, workdir: StackWorkdir) -> Iterator[None]:
    """A note that goes with the plan, unless Terraform was killed: then its lock may be there still.

    A kept state is not locked, and a local lock dies with its process.
    """
    if workdir.home.managed or workdir.home.file is not None:
        yield
        return
    encrypted = store.encrypted
    name = f"{_folder(workdir.stack.name)}/{clock.new_id()}"
    note: dict[str, object] = {
        "process": process_table.this_process().document(),
        "began": clock.now().isoformat(),
    }
    encrypted.write(name, to_json(note), durable=False)
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
    """Whether a plan of this machine, whose process is proved dead, can have taken this lock; nobody else."""
    encrypted = store.encrypted
    dead = False
    for name in encrypted.names(_folder(stack)):
        found = encrypted.read(name)
        if found is None:
            continue
        note = found.document()
        process = note["process"]
        if not isinstance(process, Mapping):
            continue
        of = ProcessId.of(process)
        life = process_table.liveness(of)
        if life is Liveness.DEAD:
            dead = dead or is_lock_taken_on(lock, host=of.host, began=str(note["began"]))
            if clock.seconds_since(str(note["began"])) > _LONG_AGO:
                encrypted.remove(name)
    return dead


_LONG_AGO = 7 * 86400.0


def is_lock_taken_on(lock: LockInfo, *, host: str, began: str) -> bool:
    """Taken on that machine, after that moment."""
    try:
        since = datetime.fromisoformat(began)
        created = datetime.fromisoformat(f"{lock.created}+00:00")
        later = created >= since - _SKEW
    except (ValueError, TypeError):
        # Nonsense, or a time without its zone.
        return False
    return later and bool(host) and lock.who.rpartition("@")[2] == host


def _folder(stack: str) -> str:
    return f"planning/{encode_name(stack)}"
