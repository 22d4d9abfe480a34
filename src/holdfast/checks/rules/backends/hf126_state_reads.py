from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.stacks.backend import StateLocation
from holdfast.stacks.reads.remote_states import RemoteState, remote_states, state_owners
from holdfast.stacks.stack import Stack


class _Read(NamedTuple):
    remote: RemoteState
    owners: tuple[Stack, ...]
    """The stacks of this repository that have this state: none or one, unless only an endpoint differs."""


def _reads(stack: CheckedStack) -> Iterator[_Read]:
    checkout = stack.checkout
    owners = checkout.code.once(
        ("state owners", id(checkout)), lambda: state_owners(lambda _: checkout.code, checkout.all_stacks)
    )
    for remote in remote_states(checkout.code, stack.stack):
        yield _Read(remote, owners.get(remote.state.key, ()) if remote.state is not None else ())


def _check_owner(stack: CheckedStack) -> Iterator[CheckResult]:
    for remote, owners in _reads(stack):
        if remote.state is None:
            reason = f"the state that {remote.address} reads is not known"
            yield Skipped(reason=reason, file=remote.place.file)
        elif not owners:
            yield finding(
                remote.block,
                "it reads a state that belongs to no stack of this repository"
                f"{_where(remote.state.location)}",
                address=remote.address,
                hint="If another repository owns it, agree on its outputs. If it is unused, remove it.",
                severity=Severity.NOTE,
            )
        elif any(owner.name == stack.name for owner in owners):
            yield finding(
                remote.block,
                f"`{stack.name}` reads its own state",
                address=remote.address,
                hint="Use the value directly.",
            )
        elif mutual := [owner.name for owner in owners if owner.name not in stack.stack.depends_on]:
            yield finding(
                remote.block,
                f"`{stack.name}` and `{mutual[0]}` read each other's state, directly or through others, so "
                "Holdfast cannot apply them in order",
                address=remote.address,
                hint="Move what both need to a third stack.",
            )


def _where(state: StateLocation) -> str:
    """The location, where its settings can be shown."""
    return "" if " backend of " in state.shown else f" ({state.shown})"


HF126 = Rule(
    id="HF126",
    title="State of no other stack is read",
    fix="Read the state of another stack of this repository, whose outputs are reviewed with their readers.",
    severity=Severity.WARNING,
    stack=_check_owner,
)


def _check_production(stack: CheckedStack) -> Iterator[CheckResult]:
    here = "production" if stack.stack.production else "not production"
    for remote, owners in _reads(stack):
        if remote.state is None:  # HF126 counts it.
            reason = f"the state that {remote.address} reads is not known"
            yield Skipped(reason=reason, file=remote.place.file, expected=True)
        for owner in owners:
            if _crosses(stack.stack, owner):
                yield finding(
                    remote.block,
                    f"`{stack.name}` is {here} and reads the state of `{owner.name}`, "
                    f"which is {'production' if owner.production else 'not'}",
                    address=remote.address,
                )

    by_name = stack.checkout.stacks_by_name
    for read in stack.stack.derived:
        owner = by_name.get(read.stack, stack.stack)
        if read.output is not None and _crosses(stack.stack, owner):
            yield finding(
                read.place,
                f"`{stack.name}` is {here} and its {read.source} is an output of `{owner.name}`, "
                f"which is {'production' if owner.production else 'not'}",
                stack=stack.name,
            )


def _crosses(reader: Stack, owner: Stack) -> bool:
    """A stack whose environment is unclear counts as production elsewhere; here that would be a guess."""
    unclear = reader.environment_unclear or owner.environment_unclear
    return owner.production != reader.production and not unclear


HF127 = Rule(
    id="HF127",
    title="State is read across the production boundary",
    fix="Give each environment its own resources, or pass single values through a parameter store (SSM, "
    "Key Vault) instead of the state.",
    severity=Severity.WARNING,
    stack=_check_production,
)
