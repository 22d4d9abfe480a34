from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.remote_states import remote_reads
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.stacks.backend import StateLocation


def _check_dependency(stack: CheckedStack) -> Iterator[CheckResult]:
    for read in remote_reads(stack):
        where, address = read.resource.block, read.resource.address
        if read.state is None:
            yield Skipped(reason=f"the state that {address} reads is not known", file=where.place.file)
        elif read.owner is None:
            yield finding(
                where,
                f"it reads a state that belongs to no stack of this repository{_where(read.state)}",
                address=address,
                hint="If another repository owns it, agree on its outputs. If it is unused, remove it.",
                severity=Severity.NOTE,
            )
        elif read.owner.name == stack.name:
            yield finding(
                where, f"`{stack.name}` reads its own state", address=address, hint="Use the value directly."
            )
        elif read.owner.name not in stack.stack.depends_on:
            yield finding(
                where,
                f"`{stack.name}` reads the state of `{read.owner.name}` without depending on it",
                address=address,
                hint=f'Add it to the stack\'s entry: `depends_on: ["{read.owner.name}"]`.',
            )


def _where(state: StateLocation) -> str:
    """The location, where its settings can be shown."""
    return "" if " backend of " in state.shown else f" ({state.shown})"


HF126 = Rule(
    id="HF126",
    title="State is read without a dependency",
    fix="Declare it with `depends_on`.",
    severity=Severity.ERROR,
    stack=_check_dependency,
)


def _check_production(stack: CheckedStack) -> Iterator[CheckResult]:
    for read in remote_reads(stack):
        owner = read.owner
        if read.state is None:
            reason = f"the state that {read.resource.address} reads is not known"
            yield Skipped(reason=reason, file=read.resource.place.file)
        if owner is not None and owner.production != stack.stack.production:
            here = "production" if stack.stack.production else "not production"
            yield finding(
                read.resource.block,
                f"`{stack.name}` is {here} and reads the state of `{owner.name}`, "
                f"which is {'production' if owner.production else 'not'}",
                address=read.resource.address,
            )


HF127 = Rule(
    id="HF127",
    title="State is read across the production boundary",
    fix="Give each environment its own resources, or pass single values through a parameter store (SSM, "
    "Key Vault) instead of the state.",
    severity=Severity.WARNING,
    stack=_check_production,
)
