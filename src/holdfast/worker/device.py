"""A change of a device: the stack of a blueprint with the name, the payload and the rules of an event."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.audit.actor import Actor
from holdfast.changes.repository import Repository
from holdfast.config.blueprint import DEVICE
from holdfast.config.secret_refs import frozen
from holdfast.kernel.errors import Failed
from holdfast.plans.events import Event, PhaseStarted
from holdfast.plans.result import Output, StackResult
from holdfast.plans.status import Status
from holdfast.store.approval_rules import ApprovalRule
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.fleet.contents import EventContent
from holdfast.store.server_runs.rows import Change
from holdfast.system import clock
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.plan.value_text import read_json
from holdfast.terraform.plan.values import any_true

_MEASURED: Final = {"init": "init", "plan": "plan", "show": "plan", "apply": "apply"}


class DeviceChange:
    """What an event adds to the change that runs it."""

    def __init__(self, change: Change, content: EventContent) -> None:
        self._change = change
        self._content = content

    def repository(self, blueprint: Repository) -> Repository:
        """With one stack, the device. Its values are data: no part of them is evaluated."""
        stack = blueprint.by_name[DEVICE]
        device = replace(
            stack,
            name=self._change.runs[0].stack,
            device=True,
            recreates=self._content.recreates,
            variables=frozen({**self._content.payload, **stack.variables}),
        )
        return replace(blueprint, stacks=(device,))

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        if not self._content.requires_approval:
            return ()
        pattern = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in self._change.runs[0].stack)
        return (ApprovalRule(stacks=(pattern,)),)

    def override(self, who: Actor, stack: str, run: str, digest: str) -> tuple[Approval, ...]:
        """A deletion that the blueprint allows is its own override. The guard still says what it found."""
        if not self._content.deletes:
            return ()
        reason = f"event {self._change.event} deletes the device, which its blueprint allows"
        return (
            Approval(
                kind=ApprovalKind.OVERRIDE,
                digest=digest,
                stack=stack,
                run=run,
                who=who.document(),
                reason=reason,
                at=clock.now().isoformat(),
            ),
        )

    def review(self, result: StackResult) -> StackResult:
        """Refuses the plan of a device that vanished, if its blueprint does not create it again.

        One without changes is not applied: its outputs are those of the plan.
        """
        plan = result.plan
        if plan is not None and result.status is Status.UNCHANGED:
            return replace(result, outputs=_outputs(plan))
        if self._content.recreates or plan is None:
            return result
        gone = {change.address for change in plan.missing}
        again = sorted(gone & {change.address for change in plan.changes if "create" in change.actions})
        if not again:
            return result
        error = Failed(
            "HF-EVENT-12",
            f"{result.stack.name}: {again[0]} no longer exists, though no event deleted it",
            hint="The blueprint says `vanished: report`. Delete the device and create it again, or set "
            "`vanished: recreate`.",
        )
        return replace(result, status=Status.FAILED, error=error.problem, problems=error.problems)


def _outputs(plan: Plan) -> dict[str, Output]:
    return {
        output.name: Output(
            value=read_json(output.change.after), sensitive=any_true(read_json(output.change.after_sensitive))
        )
        for output in plan.outputs
    }


class Timings:
    """How long the phases of a run took, in milliseconds."""

    def __init__(self, change: Change) -> None:
        began = change.started or change.created
        self._spent = {
            "queued": (began - change.created).total_seconds(),
            "init": 0.0,
            "plan": 0.0,
            "apply": 0.0,
        }
        self._phase: str | None = None
        self._since = clock.monotonic()

    def handle(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):
            self._close()
            self._phase = _MEASURED.get(event.phase)

    def document(self) -> dict[str, int]:
        self._close()
        return {name: round(seconds * 1000) for name, seconds in self._spent.items()}

    def _close(self) -> None:
        now = clock.monotonic()
        if self._phase is not None:
            self._spent[self._phase] += now - self._since
        self._since = now
