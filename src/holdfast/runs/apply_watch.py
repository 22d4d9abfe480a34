"""Follows a running apply: what each change has come to, for the listener and for the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.kernel.text import plural
from holdfast.plans.events import Listener, ProgramOutput, Resource
from holdfast.runs.auto_replan import ApplyOutcome
from holdfast.terraform import stream
from holdfast.terraform.apply_log import is_provider_crash
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan

_LEAVES_NOTHING_NEW = frozenset({"update", "delete", "read", "forget"})


def known_outcomes(outcomes: Mapping[str, str], *, unknown: bool) -> dict[str, str]:
    """If the outcome of the apply is unknown, so are those that Terraform reported as failed."""
    return {at: "unknown" if unknown and how == "failed" else how for at, how in outcomes.items()}


class ApplyWatch:
    """Counts the completed changes, and passes each event on to the listener."""

    def __init__(
        self, tell: Listener, stack: str, plan: Plan | None, outcomes: dict[str, str] | None = None
    ) -> None:
        """Without a plan, replacements and the total are not known."""
        changes = plan.changes if plan is not None else ()
        self._listener = tell
        self._outcomes = outcomes if outcomes is not None else {}
        """By address, as in `StackResult.outcomes`; kept up to date."""
        self._stack = stack
        self.finished = 0
        self._unfinished: dict[str, str] = {}
        self._errored: set[str] = set()
        self._done: Counter[str] = Counter()
        self._replaced = {change.address for change in changes if change.replaces}
        self._steps_failed = False
        self._provisioned: set[str] = set()
        self.total = sum(
            2 if change.replaces else 1
            for change in changes
            if change.kind not in {ChangeKind.NO_OP, ChangeKind.FORGET}
        )

    def event(self, event: stream.Event) -> None:
        match event:
            case stream.ApplyStart():
                self._unfinished[event.address] = event.action
                self._outcomes[event.address] = "unknown"
                self._notify(event, event.action, done=False)
            case stream.ApplyProgress():
                self._notify(event, event.action, done=False, seconds=event.elapsed)
            case stream.ApplyComplete():
                self.finished += 1
                self._unfinished.pop(event.address, None)
                self._done[event.address] += 1
                half = event.address in self._replaced and self._done[event.address] == 1
                self._outcomes[event.address] = "incomplete" if half else "applied"
                self._notify(event, event.action, done=True, seconds=event.elapsed)
            case stream.Step():
                self._step(event)
            case stream.ApplyErrored():
                self._unfinished[event.address] = event.action
                self._errored.add(event.address)
                self._outcomes[event.address] = "failed"
                self._notify(event, event.action, done=True, failed=True, seconds=event.elapsed)
            case _:
                pass

    def _step(self, step: stream.Step) -> None:
        self._steps_failed = self._steps_failed or step.failed
        if step.what == "provision" and self._unfinished.get(step.address) == "create":
            self._provisioned.add(step.address)
        lines = [*step.output.splitlines(), *["failed"] * step.failed]
        for line in lines if step.what == "provision" else ():
            program = f"{step.address} ({step.provisioner})"
            self._listener(ProgramOutput(stack=self._stack, program=program, text=line))

    @property
    def applied(self) -> str:
        """Of the planned changes, as in the list of outcomes: a replacement is one."""
        applied = sum(how == "applied" for how in self._outcomes.values())
        return f"{applied} of {plural(self.total - len(self._replaced), 'change')}"

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Addresses of changes that were started and did not complete."""
        return tuple(self._unfinished)

    def has_provider_crash(self, diagnostics: Iterable[Diagnostic]) -> bool:
        """A provider crashed during a create: the resource may exist without being in the state."""
        making = any(action not in _LEAVES_NOTHING_NEW for action in self._unfinished.values())
        return making and any(map(is_provider_crash, diagnostics))

    def outcome(self, errors: Iterable[Diagnostic]) -> ApplyOutcome:
        """What is known of each change once the stream has ended."""
        return ApplyOutcome(
            errors=tuple(errors),
            failed={address: self._unfinished[address] for address in sorted(self._errored)},
            open=frozenset(self._unfinished) - self._errored,
            done=frozenset(self._done),
            steps_failed=self._steps_failed,
            provisioned=frozenset(self._provisioned),
        )

    def _notify(
        self, event: stream.ApplyEvent, action: str, *, done: bool, failed: bool = False, seconds: float = 0.0
    ) -> None:
        self._listener(
            Resource(
                stack=self._stack,
                address=event.address,
                action=action,
                done=done,
                failed=failed,
                seconds=seconds,
                finished=self.finished,
                total=self.total,
            )
        )
