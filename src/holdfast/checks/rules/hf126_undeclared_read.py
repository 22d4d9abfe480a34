"""HF126: a stack reads a state of a stack that it does not depend on."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.remote_states import reads_of_stack
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.stacks.backend import StatePlace


def _look(stack: CheckedStack) -> Iterator[Answer]:
    for read in reads_of_stack(stack):
        where, address = read.resource.block, read.resource.address
        if read.state is None:
            yield Skipped(reason=f"which state {address} reads cannot be told", file=where.place.file)
        elif read.owner is None:
            yield finding(
                where,
                f"it reads a state that no stack of this repository keeps{_where(read.state)}",
                address=address,
                hint="If it is another repository's, agree on its outputs; if it is old, take the read away.",
                severity=Severity.NOTE,
            )
        elif read.owner.name == stack.name:
            yield finding(
                where, f"`{stack.name}` reads its own state", address=address, hint="Use the value itself."
            )
        elif read.owner.name not in stack.stack.depends_on:
            yield finding(
                where,
                f"`{stack.name}` reads the state of `{read.owner.name}` and does not depend on it",
                address=address,
                hint=f'Say so in its entry: `depends_on: ["{read.owner.name}"]`.',
            )


def _where(state: StatePlace) -> str:
    """Where its settings can be shown."""
    return "" if " backend of " in state.shown else f" ({state.shown})"


RULE = Rule(
    id="HF126",
    title="A stack reads a state that it does not depend on",
    why="Nobody knows of the read: the two are applied in any order, the reader is not told when what it "
    "read has changed, and whoever changes an output breaks a stack they never heard of.",
    fix="Declare it with `depends_on`.",
    severity=Severity.ERROR,
    stack=_look,
    more="It follows `terraform_remote_state` through local modules, with the values of each stack. A state "
    "of another repository is a note. What `tfe_outputs` and parameters (SSM, for example) hand over is "
    "not seen.",
)
