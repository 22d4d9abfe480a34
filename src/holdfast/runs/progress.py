"""Turns what Terraform says during an apply into what a person wants to see of it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.plans.events import Listener, Resource
from holdfast.runs.auto_replan import ApplyOutcome
from holdfast.terraform import events
from holdfast.terraform.apply_log import provider_crashed
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan

_LEAVES_NOTHING_NEW = frozenset({"update", "delete", "read", "forget"})


class ApplyWatch:
    """Counts what is done of what was planned, and passes each step on."""

    def __init__(self, tell: Listener, stack: str, plan: Plan) -> None:
        self._listener = tell
        self._stack = stack
        self.finished = 0
        self._unfinished: dict[str, str] = {}
        self._errored: set[str] = set()
        self._done: set[str] = set()
        self._steps_failed = False
        self.total = sum(
            2 if change.replaces else 1
            for change in plan.changes
            if change.kind not in {ChangeKind.NO_OP, ChangeKind.FORGET}
        )

    def event(self, event: events.Event) -> None:
        match event:
            case events.ApplyStart():
                self._unfinished[event.address] = event.action
                self._tell(event, event.action, done=False)
            case events.ApplyProgress():
                self._tell(event, event.action, done=False, seconds=event.elapsed)
            case events.ApplyComplete():
                self.finished += 1
                self._unfinished.pop(event.address, None)
                self._done.add(event.address)
                self._tell(event, event.action, done=True, seconds=event.elapsed)
            case events.Step(stage=events.Stage.ERRORED):
                self._steps_failed = True
            case events.ApplyErrored():
                self._unfinished[event.address] = event.action
                self._errored.add(event.address)
                self._tell(event, event.action, done=True, failed=True, seconds=event.elapsed)
            case _:
                pass

    @property
    def unfinished(self) -> tuple[str, ...]:
        """What was begun and did not end well."""
        return tuple(self._unfinished)

    def lost_plugin(self, diagnostics: Iterable[Diagnostic]) -> bool:
        """A provider died in the middle of making something: it may be there, and in no state."""
        making = any(action not in _LEAVES_NOTHING_NEW for action in self._unfinished.values())
        return making and any(provider_crashed(one) for one in diagnostics)

    def end(self, errors: Iterable[Diagnostic]) -> ApplyOutcome:
        """What is known of each change once the stream has ended."""
        return ApplyOutcome(
            errors=tuple(errors),
            failed={address: self._unfinished[address] for address in sorted(self._errored)},
            open=frozenset(self._unfinished) - self._errored,
            done=frozenset(self._done),
            steps_failed=self._steps_failed,
        )

    def _tell(
        self,
        event: events.ResourceEvent,
        action: str,
        *,
        done: bool,
        failed: bool = False,
        seconds: float = 0.0,
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
