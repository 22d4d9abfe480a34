from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backend_types import MANAGED
from holdfast.checks.backends.backends import backend_of_module, backend_of_stack, has_stack, state_place_for
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack, Checkout
from holdfast.config.stack_rules import RuleKind
from holdfast.stacks.backend import StateIdentity
from holdfast.stacks.stack import Stack


def _check(checkout: Checkout) -> Iterator[CheckResult]:
    chosen = {stack.name for stack in checkout.stacks} | {module.folder for module in checkout.modules}
    by_state: dict[StateIdentity, list[tuple[CheckedStack, str]]] = {}
    for stack in _everything(checkout):
        backend = backend_of_stack(stack)
        place = state_place_for(stack, backend.type, backend.settings, stack.stack.workspace)
        if backend.type == MANAGED:
            continue
        if place is None:
            if all(backend.has(name) for name in backend.kind.needs) and stack.name in chosen:
                yield Skipped(reason="the location of its state is not known", stack=stack.name)
            continue
        by_state.setdefault(place.identity, []).append((stack, place.shown))
    for (first, shown), *others in by_state.values():
        for other, _ in others:
            if chosen & {first.name, other.name}:
                backend = backend_of_stack(other)
                yield finding(
                    backend.where,
                    f"`{other.name}` uses the state of `{first.name}` ({shown})",
                    stack=other.name if other.stack in checkout.all_stacks else None,
                )


def _everything(checkout: Checkout) -> Iterator[CheckedStack]:
    """Every stack, then every root module without a stack, as if it were one."""
    for stack in checkout.all_stacks:
        yield CheckedStack(checkout=checkout, stack=stack)
    for module in checkout.modules:
        backend = None if has_stack(module) else backend_of_module(module)
        if backend is not None:
            alone = Stack(name=module.folder, kind=RuleKind.FOLDER, place=backend.place, module=module.folder)
            yield CheckedStack(checkout=checkout, stack=alone)


RULE = Rule(
    id="HF124",
    title="Two root modules share one state",
    why="Each run of one plans to delete the resources of the other. This happens when a folder is "
    "copied and its backend block is not changed.",
    fix="Give each its own key: a placeholder such as `{name}` in the entry's backend settings keeps "
    "them apart.",
    severity=Severity.ERROR,
    repository=_check,
)
