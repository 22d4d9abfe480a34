"""The plan of a bundle in the run that applies it: as it was saved, planned again, or applied before."""

from __future__ import annotations

from msgspec import structs

from holdfast.config.guard import Effect
from holdfast.guard.decision import Reason
from holdfast.kernel.errors import Refused
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext
from holdfast.plans.inputs import mock_of
from holdfast.plans.plan_file import PlanFile, replan
from holdfast.plans.restore import restore_plan
from holdfast.plans.result import StackResult
from holdfast.plans.retry import Retrying
from holdfast.plans.saved_plan import SavedPlan, canonical
from holdfast.plans.state_continuity import stale_plan
from holdfast.plans.status import Status
from holdfast.plans.workdir import StackWorkdir
from holdfast.review.decide import approvals_for
from holdfast.runs.apply import already_applied
from holdfast.runs.run import applied_run
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.run_store import RunStore
from holdfast.terraform.plan.same_plan import Mocks, plan_differences
from holdfast.terraform.plan.unshown import unshown_differences

ALREADY_APPLIED = "already applied"
_MOCK_REPLACED = Reason(
    code="HF-BUND-24",
    message="it was planned with mock values, which are real now",
    rule="replaced mocks in production",
    effect=Effect.APPROVE,
)


class RestoredPlan:
    def __init__(self, stack: Stack, bundle: SavedPlan) -> None:
        self.bundle = bundle
        self._stack = stack
        self.remark: str | None = None
        """Why it was planned again."""

    async def open(
        self, context: ChangeContext, workdir: StackWorkdir, retrying: Retrying, changed: tuple[str, ...]
    ) -> PlanFile:
        """The saved plan. If outputs that it read are `changed`, or it has mocks, it is planned again.

        The new plan must do exactly what the saved one shows.
        """
        self._require_own_mocks(context)
        saved = await restore_plan(context, self._stack, workdir, self.bundle, retrying)
        if not changed and not self.bundle.mocks:
            return saved
        new = await replan(context, self._stack, saved, saved.options)
        self._require_same(saved, new)
        self.remark = f"planned again: {'; '.join(changed) or 'it had mock values'}; same changes"
        return structs.replace(new, notes=(self.remark, *saved.notes))

    def _require_own_mocks(self, context: ChangeContext) -> None:
        """A mock matches any value, so only those of the configuration count, whatever a bundle says."""
        for variable, mock in self.bundle.mocks.items():
            reference = self._stack.inputs.get(variable)
            own = mock_of(context, reference) if reference is not None else None
            if own is None or canonical(own) != canonical(mock):
                raise Refused(
                    "HF-BUND-6",
                    f"{self._stack.name}: the mock of its input {variable} changed since the plan was made",
                    hint=f"Make a new plan: holdfast plan {self._stack.name} --out DIR",
                )

    def _require_same(self, saved: PlanFile, new: PlanFile) -> None:
        name = self._stack.name
        if new.prior != saved.prior:
            raise stale_plan(name)
        plans, mocks = (saved.plan, new.plan), Mocks(self.bundle.mocks.values())
        different = plan_differences(*plans, mocks) or unshown_differences(*plans, mocks, self._stack.inputs)
        if different:
            how = "which was not in" if different[0].startswith("it would also") else "unlike"
            more = f" (and {plural(len(different) - 1, 'more difference')})" if len(different) > 1 else ""
            raise Refused(
                "HF-BUND-23",
                f"{name}: planned again: {different[0]}, {how} the plan you approved{more}",
                hint=f"Review and approve a new plan: holdfast plan {name} --out DIR",
            )

    @property
    def replaced(self) -> str | None:
        """The digest of the saved plan, if it was planned again."""
        return self.bundle.digest if self.remark is not None else None

    def approvals(self, store: RunStore, digest: str) -> tuple[Approval, ...]:
        """A plan that was planned again takes over approvals and rejections, but no override."""
        given = approvals_for(store, digest, self.bundle.stack)
        if self.replaced is None:
            return given
        kinds = {ApprovalKind.REJECTION, *(() if self.reasons else (ApprovalKind.APPROVAL,))}
        return (
            *given,
            *(old for old in approvals_for(store, self.replaced, self.bundle.stack) if old.kind in kinds),
        )

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """In production, the value that replaced a mock needs a new approval: no one has reviewed it."""
        production = self._stack.production or self.bundle.production
        return (_MOCK_REPLACED,) if self.bundle.mocks and production else ()

    def was_approved(self, store: RunStore) -> bool:
        """Whether a person decided on exactly this plan; then no other plan follows it automatically."""
        return bool(store.approvals.of(self.bundle.digest))


def result_of_used_plan(
    store: RunStore, stack: Stack, bundle: SavedPlan, mark: dict[str, object]
) -> StackResult:
    """Of a plan that is marked as used: applied, as the record of its run proves. Raises if it is not."""
    run = applied_run(store, str(mark.get("run")))
    if run is None or run.stack != stack.name or run.status is not Status.APPLIED:
        raise already_applied(stack.name, mark, run.status if run is not None else None)
    return StackResult(
        stack=stack,
        status=Status.UNCHANGED,
        run=run.id,
        digest=bundle.digest,
        notes=(ALREADY_APPLIED,),
        remark=ALREADY_APPLIED,
    )
