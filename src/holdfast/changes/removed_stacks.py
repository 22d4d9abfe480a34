"""Stacks that a change removed, and the resources that are still in their states."""

from __future__ import annotations

from msgspec import Struct

from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import HoldfastError, Place, Problem
from holdfast.kernel.text import plural
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.backend_config import managed_place
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.runs.record import register_run_secrets
from holdfast.stacks.stack import RemovedStack, Stack
from holdfast.states.operations import pull, resources_of


class RemovedStackReport(Struct, frozen=True, kw_only=True):
    removed: RemovedStack
    resources: tuple[str, ...] | None
    """None: the state could not be read; `note` has the reason."""
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
            state = f"its state was not read: {self.note}"
        else:
            state = f"its state still has {plural(len(self.resources), 'resource')}"
        return f"{self.removed.reason}; {state if self.resources != () else 'its state has no resources'}"

    def result(self) -> StackResult:
        name = self.removed.name
        hint = (
            f"To delete them: restore the code, run `holdfast destroy {name}`, remove the code. "
            f"If the stack was renamed: holdfast state rename {name} NEW"
        )
        unknown = Stack(name=name, kind=RuleKind.NAMED, place=Place(file="holdfast.yaml"), module=".")
        return StackResult(
            stack=self.removed.stack or unknown,
            status=Status.REMOVED,
            error=Problem(
                code="HF-STACK-20", message=self.reason, hint=hint if self.resources != () else None
            ),
            removed_resources=self.resources,
        )


async def inspect_removed(
    context: ChangeContext, removed: tuple[RemovedStack, ...]
) -> tuple[RemovedStackReport, ...]:
    return tuple([await _inspect(context, stack) for stack in removed])


async def _inspect(context: ChangeContext, removed: RemovedStack) -> RemovedStackReport:
    managed = context.store.states.current(removed.name)
    seen = context.store.last_seen(removed.name)
    note, resources = "the state cannot be read", None
    if managed is not None and (seen is None or seen.place == managed_place(removed.name)):
        register_run_secrets(context, managed.run, removed.name)
        resources = resources_of(managed.state)
    elif removed.stack is None:
        note = "its old configuration is unknown"
    elif not (context.project.root / removed.stack.module).is_dir():
        note = f"its code in {removed.stack.module} was removed too"
    else:
        try:
            resources = resources_of(await pull(context, removed.stack))
        except HoldfastError as error:
            note = error.problem.message
    return RemovedStackReport(removed=removed, resources=resources, note=note if resources is None else None)
