"""What is left of a change: recorded while it is applied, and continued with `apply --continue`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import structs

from holdfast.guard.decision import Deny
from holdfast.guard.evaluate import REJECTED as REJECTION
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Listener, Note
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.store.approvals import ApprovalKind
from holdfast.store.changes import REJECTED, ChangedStack, ChangeRecord
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions


class RecordedChange:
    """The record of a change that is being applied. If it exists already, the new results are added."""

    def __init__(
        self, new: ChangeRecord, *, not_applied: frozenset[str] = frozenset(), has_own_id: bool = False
    ) -> None:
        """`not_applied` are its stacks that are not applied now: their earlier results stay.

        `has_own_id`: nothing else has its id.
        """
        self.record = new
        self._has_own_id = has_own_id
        self._not_applied = not_applied

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def left(self) -> tuple[str, ...]:
        return self.record.left

    @property
    def options(self) -> Mapping[str, PlanOptions]:
        return {name: stack.options for name, stack in self.record.stacks.items()}

    def begin(self, store: RunStore) -> None:
        """Before anything is applied: a kill leaves what was to be done. It need not be durable.

        A bundle says itself which change it is from, so it cannot replace the base of one that is known.
        """
        before = store.changes.read(self.id) if not self._has_own_id else None
        known = dict(before.stacks) if before is not None else {}
        new = {
            name: stack
            for name, stack in self.record.stacks.items()
            if name not in known or name not in self._not_applied
        }
        base = (before.base if before is not None else None) or self.record.base
        self.record = structs.replace(self.record, stacks={**known, **new}, base=base)
        store.changes.write(self.record, durable=False)

    def finish(self, store: RunStore, tell: Listener, results: Iterable[StackResult]) -> None:
        """An error here changes no result: the stacks can be planned and applied by name.

        A rejected plan is not left to be made again: a person decided against it.
        """
        self.add(
            {result.stack.name: REJECTED if _is_rejected(result) else result.status for result in results}
        )
        try:
            self.record = without_rejected(store, self.record)
            store.changes.write(self.record)
        except (HoldfastError, OSError) as error:
            tell(Note(stack="", text=f"could not record what is left of change {self.id}: {error}"))

    def add(self, statuses: Mapping[str, str]) -> None:
        known = self.record.stacks
        more = {
            name: structs.replace(known.get(name, ChangedStack()), status=str(status))
            for name, status in statuses.items()
        }
        self.record = structs.replace(self.record, stacks={**known, **more})


def _is_rejected(result: StackResult) -> bool:
    return isinstance(result.decision, Deny) and any(
        reason.code == REJECTION for reason in result.decision.reasons
    )


def without_rejected(store: RunStore, record: ChangeRecord) -> ChangeRecord:
    """The record without what a person rejected, also where a plan was not reached: it was blocked."""
    rejected = {
        name
        for name in record.left
        if (digest := record.stacks[name].digest) is not None
        and any(given.kind is ApprovalKind.REJECTION for given in store.approvals.of(digest))
    }
    stacks = {
        name: structs.replace(stack, status=REJECTED) if name in rejected else stack
        for name, stack in record.stacks.items()
    }
    return structs.replace(record, stacks=stacks)


def record_change(
    context: ChangeContext,
    options: Mapping[str, PlanOptions],
    *,
    digests: Mapping[str, str] = MappingProxyType({}),
    change: str | None = None,
    bundle: str | None = None,
    without_plan: Mapping[str, Status] = MappingProxyType({}),
) -> RecordedChange:
    """A change of these stacks that is about to be applied; a bundle has the id of the change it is from.

    `digests` are those of the saved plans. Stacks `without_plan` in a bundle are part of the change, too.
    """
    base = context.project.base
    missing = {name: ChangedStack(status=status.value) for name, status in without_plan.items()}
    return RecordedChange(
        ChangeRecord(
            id=change or context.identity.change,
            who=context.identity.who,
            at=clock.now().isoformat(),
            stacks={
                **missing,
                **{
                    name: ChangedStack(options=given, digest=digests.get(name))
                    for name, given in options.items()
                },
            },
            bundle=bundle,
            base=base.sealed.to_bytes() if base is not None else None,
        ),
        not_applied=frozenset(missing),
        has_own_id=change is None,
    )


def choose_change(store: RunStore, text: str | None) -> ChangeRecord:
    """The change with this id or the start of it; without one, the latest that is not complete."""
    ids = store.changes.ids()
    matching = [change for change in ids if change.startswith(text.upper())] if text else list(ids)
    if text and len(matching) > 1 and text.upper() not in matching:
        raise UsageError(
            "HF-USE-40",
            f"{len(matching)} changes start with {text}",
            hint=f"Give more of its id: {', '.join(matching[:3])}",
        )
    records = (
        without_rejected(store, record)
        for change in matching
        if (record := store.changes.read(change)) is not None
    )
    chosen = next((record for record in records if text or record.left), None)
    if chosen is None and not text and ids:
        chosen = store.changes.read(ids[0])
    if chosen is None:
        what = f"there is no change {text}" if text else "no change was applied yet"
        raise UsageError("HF-USE-40", what, hint="Plan and apply stacks by name: holdfast apply STACK")
    return chosen
