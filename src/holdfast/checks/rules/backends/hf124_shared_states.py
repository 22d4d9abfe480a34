from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.checks.backends.backend_types import MANAGED
from holdfast.checks.backends.backends import (
    BackendView,
    backend_of_module,
    backend_of_stack,
    has_stack,
)
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import UNKNOWN, CheckedStack, Checkout
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.patterns import pattern
from holdfast.stacks.backend import StateIdentity, named_state
from holdfast.stacks.backend_types import DEFAULT_WORKSPACE
from holdfast.stacks.stack import Stack

_TO_BE_SET = pattern(r"\b(?:UPDATE|CHANGE|REPLACE|YOUR)[_-]?[A-Z_-]*\b|<[^>]+>")
"""A template of a repository: `bucket = "UPDATE_ME"`."""


def _check_locations(checkout: Checkout) -> Iterator[CheckResult]:
    chosen = {stack.name for stack in checkout.stacks} | {module.folder for module in checkout.modules}
    by_state: dict[StateIdentity, list[tuple[CheckedStack, str]]] = {}
    for stack in _stacks_and_root_modules(checkout):
        backend = backend_of_stack(stack)
        if backend.type == MANAGED:
            continue
        state = named_state(stack.stack, backend.type, backend.settings, stack.stack.workspace)
        if state is None:
            if all(backend.has(name) for name in backend.kind.needs) and stack.name in chosen:
                yield Skipped(reason="the location of its state is not known", stack=stack.name)
            continue
        by_state.setdefault(state.location.identity, []).append((stack, state.location.shown))
    for (first, location), *others in by_state.values():
        for other, _ in others:
            if chosen & {first.name, other.name} and not _TO_BE_SET.search(location):
                backend = backend_of_stack(other)
                is_stack = checkout.stacks_by_name.get(other.name) is other.stack
                yield finding(
                    backend.where,
                    f"`{other.name}` uses the state of `{first.name}` ({location})",
                    stack=other.name if is_stack else None,
                    # Without a stack, workspaces or a wrapper may keep them apart.
                    severity=None if is_stack else Severity.NOTE,
                )


def _stacks_and_root_modules(checkout: Checkout) -> Iterator[CheckedStack]:
    """Every stack, then every root module without a stack, as if it were one."""
    for stack in checkout.all_stacks:
        yield CheckedStack(checkout=checkout, stack=stack)
    for module in checkout.modules:
        backend = None if has_stack(module) else backend_of_module(module)
        if backend is not None:
            alone = Stack(
                name=module.folder,
                kind=RuleKind.FOLDER,
                place=backend.place,
                module=module.folder,
                # A prefix for workspaces says that they are used; which ones is not known.
                workspace="*" if backend.has("workspace_key_prefix") else DEFAULT_WORKSPACE,
            )
            yield CheckedStack(checkout=checkout, stack=alone)


HF124 = Rule(
    id="HF124",
    title="Two root modules share one state",
    fix="Give each its own key: a placeholder such as `{name}` in the entry's backend settings keeps "
    "them apart.",
    severity=Severity.ERROR,
    repository=_check_locations,
)


def _check_buckets(checkout: Checkout) -> Iterator[CheckResult]:
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
            yield _mixed(store[-1], stacks, names)


def _store(backend: BackendView) -> tuple[str, ...] | None:
    parts = [backend.text(name) for name in backend.kind.store]
    known = tuple(part for part in parts if part is not None)
    if not known or len(known) < len(parts):
        return None
    return (backend.type, repr(backend.value("endpoints")), backend.text("endpoint") or "", *known)


def _environment(stack: CheckedStack) -> str:
    return stack.stack.environment or "(unclear)"


def _mixed(name: str, stacks: Sequence[CheckedStack], environments: Sequence[str]) -> Finding:
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


def _has_bucket_per_environment(checkout: Checkout) -> bool:
    names = checkout.config.checks.state_names
    return names is not None and "{environment}" in names.bucket


HF125 = Rule(
    id="HF125",
    title="One bucket holds states of several environments",
    fix="Give each environment its own bucket, as `checks.backend` requires.",
    severity=Severity.WARNING,
    needs="`{environment}` in `checks.backend.bucket`",
    configured=_has_bucket_per_environment,
    repository=_check_buckets,
)
