"""Plans that are out of date when a person decides about them: no one approves what would not be applied."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from holdfast.database.database import Database
from holdfast.kernel.errors import HoldfastError, Refused
from holdfast.plans.saved_plan import StateIdentity, read_packed
from holdfast.plans.state_continuity import is_stale
from holdfast.server.audit_log import TenantStores
from holdfast.store.server_runs.contents import RunLog, plan_name
from holdfast.store.server_runs.phases import Operation
from holdfast.store.server_runs.rows import ChangeRows, Run, RunRows
from holdfast.store.server_runs.stale import StaleRows
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.rows import StateRows


def other_plan(run: Run) -> Refused:
    return Refused(
        "HF-RUN-25",
        f"{run.stack}: the plan of run {run.id} is another one now",
        hint="It was made again because the state or a dependency changed. Look at it before you "
        f"decide: holdfast runs show {run.id} --plan",
    )


class StalePlans:
    def __init__(self, database: Database, stores: TenantStores, states: StateRows) -> None:
        self._runs = RunRows(database)
        self._changes = ChangeRows(database)
        self._rows = StaleRows(database)
        self._stores = stores
        self._states = states

    def require_current(self, run: Run, plan: str, who: str) -> None:
        """`plan`: the run that saved it. If that is the run itself, a plan that is out of date is made again.

        A worker finds out the rest: what only the code or the backend tells.
        """
        change = self._changes.of(run.change)
        if change is None:
            return
        if (number := self._rows.newer_commits(change.id)) is not None:
            raise Refused(
                "HF-RUN-25",
                f"{run.stack}: pull request {number} has newer commits than the plan of run {run.id}",
                hint=f"End it: holdfast runs cancel {run.id}. Then comment `holdfast apply` again.",
            )
        later = self._runs.later_applies(change).get(run.stack)
        why = (
            f"run {later}, which was submitted later, has begun to apply"
            if later is not None
            else self._changed_state(run, plan)
        )
        if why is None:
            return
        message = f"{run.stack}: the plan of run {run.id} is out of date: {why}"
        log = RunLog(self._stores.of(run.tenant).encrypted, run.id)
        log.add(f"{message}; {who} decided about it")  # Before: who follows the log may stop at the end.
        begun = self._rows.plan_again(run.id, str(run.digest))
        again = later is None and plan == run.id
        raise Refused("HF-RUN-25", message, hint=_hint(run, again=again, begun=begun))

    def _changed_state(self, run: Run, plan: str) -> str | None:
        store, planned = self._stores.of(run.tenant), self._planned_from(run.tenant, plan)
        record = store.last_seen(run.stack)
        if planned is None:
            return None
        if is_stale(record, planned):
            by = f" (run {record.run} was applied)" if record is not None and record.run else ""
            return f"the state changed after the plan was made{by}"
        row, _ = self._states.look(StateKey(run.tenant, run.stack))
        current = row.current if row is not None else None
        if current is not None and current.lineage == planned.lineage and current.serial > planned.serial:
            return "the state changed after the plan was made"
        return None

    def _planned_from(self, tenant: str, run: str) -> StateIdentity | None:
        """None: the plan is gone, or cannot be read. A worker says so."""
        blob = self._stores.of(tenant).encrypted.read(plan_name(run))
        if blob is None:
            return None
        with tempfile.TemporaryDirectory() as name, contextlib.suppress(HoldfastError):
            parts = read_packed(blob.data, Path(name), self._stores.key(tenant)).parts
            return StateIdentity(lineage=parts.lineage, serial=parts.serial)
        return None


def _hint(run: Run, *, again: bool, begun: bool) -> str:
    if not again:
        command = "destroy" if run.operation is Operation.DESTROY else "apply"
        return (
            f"Nothing of it is applied. Make a new one, and read it: holdfast {command} {run.stack} --server"
        )
    if not begun:
        return f"Decide when the other stacks of its change are done: holdfast runs watch {run.change}"
    return (
        "It is made again now, and waits again. Look at the new one before you decide: "
        f"holdfast runs show {run.id} --plan"
    )
