"""Stacks that a change removed, and the resources that are still in their states."""

from __future__ import annotations

from msgspec import Struct

from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import HoldfastError, Place
from holdfast.kernel.text import plural
from holdfast.plans.backend_config import managed_place
from holdfast.plans.context import ChangeContext
from holdfast.plans.result import ResultError, StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import RemovedStack, Stack
from holdfast.states.operations import pull, resources_of


class Gone(Struct, frozen=True, kw_only=True):
    """`resources` is None if the state could not be read; `note` has the reason."""

    removed: RemovedStack
    resources: tuple[str, ...] | None
    note: str | None = None

    def document(self) -> dict[str, object]:
        return {
            "name": self.removed.name,
            "variables": self.removed.variables,
            "resources": list(self.resources) if self.resources is not None else None,
            "reason": self.reason,
        }

    @property
    def reason(self) -> str:
        if self.resources is None:
            return f"{self.removed.reason}; its state was not read: {self.note}"
        if not self.resources:
            return f"{self.removed.reason}; its state has no resources"
        return f"{self.removed.reason}; its state still has {plural(len(self.resources), 'resource')}"

    def result(self) -> StackResult:
        name = self.removed.name
        return StackResult(
            stack=self.removed.stack or _stranger(name),
            status=Status.REMOVED,
            error=ResultError(
                code="HF-STACK-20",
                message=self.reason,
                hint=f"To delete them: restore the code, run `holdfast destroy {name}`, remove the code."
                if self.resources != ()
                else None,
            ),
            removed_resources=self.resources,
        )


def _stranger(name: str) -> Stack:

    return Stack(name=name, kind=RuleKind.NAMED, place=Place(file="holdfast.yaml"), module=".")


async def look_into(context: ChangeContext, removed: tuple[RemovedStack, ...]) -> tuple[Gone, ...]:
    return tuple([await _look(context, one) for one in removed])


async def _look(context: ChangeContext, removed: RemovedStack) -> Gone:
    kept = context.store.states.current(removed.name)
    seen = context.store.last_seen(removed.name)
    if kept is not None and (seen is None or seen.place == managed_place(removed.name)):
        return _gone(removed, kept.state)
    if removed.stack is None:
        return Gone(removed=removed, resources=None, note="its old configuration is unknown")
    if not (context.project.root / removed.stack.module).is_dir():
        return Gone(removed=removed, resources=None, note=f"its code in {removed.stack.module} is gone too")
    try:
        return _gone(removed, await pull(context, removed.stack))
    except HoldfastError as error:
        return Gone(removed=removed, resources=None, note=error.problem.message)


def _gone(removed: RemovedStack, state: bytes) -> Gone:
    resources = resources_of(state)
    note = None if resources is not None else "the state cannot be read"
    return Gone(removed=removed, resources=resources, note=note)
