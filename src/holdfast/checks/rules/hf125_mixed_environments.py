from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.checks.backends.backends import BackendView, backend_of_stack
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import UNKNOWN, CheckedStack, Checkout


def _check(checkout: Checkout) -> Iterator[CheckResult]:
    chosen = {stack.name for stack in checkout.stacks}
    stores: dict[tuple[str, ...], list[CheckedStack]] = {}
    for stack_ in checkout.all_stacks:
        stack = CheckedStack(checkout=checkout, stack=stack_)
        backend = backend_of_stack(stack)
        store = _store(backend)
        if stack_.name in chosen and any(backend.value(name) is UNKNOWN for name in backend.kind.store):
            yield Skipped(reason="the bucket of its state is not known", stack=stack_.name)
        if store is not None:
            stores.setdefault(store, []).append(stack)
    for store, stacks in stores.items():
        names = sorted({_environment(stack) for stack in stacks})
        if len(names) > 1 and any(stack.name in chosen for stack in stacks):
            yield _finding(store[-1], stacks, names)


def _store(backend: BackendView) -> tuple[str, ...] | None:
    parts = [backend.text(name) for name in backend.kind.store]
    known = tuple(part for part in parts if part is not None)
    if not known or len(known) < len(parts):
        return None
    return (backend.type, repr(backend.value("endpoints")), backend.text("endpoint") or "", *known)


def _environment(stack: CheckedStack) -> str:
    return stack.stack.environment or "(unclear)"


def _finding(name: str, stacks: Sequence[CheckedStack], environments: Sequence[str]) -> Finding:
    production = [stack for stack in stacks if stack.stack.production and not stack.stack.environment_unclear]
    guest = next((stack for stack in stacks if not stack.stack.production), stacks[-1])
    host = next((stack for stack in stacks if _environment(stack) != _environment(guest)), stacks[0])
    severe = bool(production) and not guest.stack.production
    backend = backend_of_stack(guest)
    return finding(
        backend.place_of(backend.kind.store[-1]),
        f"`{name}` holds states of several environments: {', '.join(environments)} "
        f"({host.name} and {guest.name}, for example)",
        stack=guest.name,
        severity=Severity.ERROR if severe else None,
    )


RULE = Rule(
    id="HF125",
    title="One bucket holds states of several environments",
    why="Permissions, lifecycle rules and mistakes affect a bucket as a whole: whatever can read the "
    "states of `dev` can then read the secrets of production.",
    fix="Give each environment its own bucket: `{company}-{environment}-tfstate-{region}`.",
    severity=Severity.WARNING,
    repository=_check,
)
