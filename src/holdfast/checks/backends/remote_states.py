"""States that code reads with `terraform_remote_state`, and their owners. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from holdfast.checks.backends.backends import state_place_for, state_place_of_stack
from holdfast.checks.model.subjects import ABSENT, CheckedStack, Checkout, Resource, value
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import pairs
from holdfast.stacks.backend import DEFAULT_WORKSPACE, StateIdentity, StateLocation
from holdfast.stacks.stack import Stack

TYPE: Final = "terraform_remote_state"


class RemoteRead(Struct, frozen=True, kw_only=True):
    """One state that a stack reads."""

    resource: Resource
    state: StateLocation | None
    """None if it is not known."""
    owner: Stack | None
    """The stack of this repository that owns the state."""


def settings_in(resource: Resource, scope: Scope | None = None) -> tuple[str, Mapping[str, object]] | None:
    """The backend type and its settings; None if they are not literals."""
    kind, config = value(resource.body, "backend", scope), value(resource.body, "config", scope)
    if config is ABSENT:
        config = {}
    if not isinstance(kind, str) or not isinstance(config, Mapping):
        return None
    return kind, {str(name): item for name, item in config.items()}


def remote_reads(stack: CheckedStack) -> Iterator[RemoteRead]:
    """Follows every local module except those with `count = 0`."""
    for resource, module_scope in stack.resources(TYPE, mode="data"):
        for scope in _instances(resource, module_scope):
            yield _read(stack, resource, scope)


def _instances(resource: Resource, scope: Scope) -> Iterator[Scope]:
    for_each = resource.body.attribute("for_each")
    if value(resource.body, "count", scope) == 0:
        return
    elements = pairs(evaluate(for_each.expression, scope)) if for_each is not None else None
    if elements is None:
        yield scope
        return
    for key, item in elements:
        yield scope.bind({"each": {"key": key, "value": item}})


def _read(stack: CheckedStack, resource: Resource, scope: Scope) -> RemoteRead:
    settings = settings_in(resource, scope)
    workspace = value(resource.body, "workspace", scope)
    if workspace is ABSENT or workspace is None:
        workspace = DEFAULT_WORKSPACE
    state = (
        state_place_for(stack, *settings, workspace)
        if settings is not None and isinstance(workspace, str)
        else None
    )
    owner = _owners(stack.checkout).get(state.identity) if state is not None else None
    return RemoteRead(resource=resource, state=state, owner=owner)


def _owners(checkout: Checkout) -> Mapping[StateIdentity, Stack]:
    def make() -> dict[StateIdentity, Stack]:
        owners: dict[StateIdentity, Stack] = {}
        for stack in checkout.all_stacks:
            place = state_place_of_stack(CheckedStack(checkout=checkout, stack=stack))
            if place is not None:
                owners[place.identity] = stack
        return owners

    return checkout.code.once(("whose state", id(checkout)), make)
