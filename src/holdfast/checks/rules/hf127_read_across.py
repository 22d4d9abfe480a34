"""HF127: production reads a state of what is not production, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.remote_states import reads_of_stack
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack


def _look(stack: CheckedStack) -> Iterator[Answer]:
    for read in reads_of_stack(stack):
        owner = read.owner
        if read.state is None:
            reason = f"which state {read.resource.address} reads cannot be told"
            yield Skipped(reason=reason, file=read.resource.place.file)
        if owner is not None and owner.production != stack.stack.production:
            here = "production" if stack.stack.production else "not production"
            yield finding(
                read.resource.block,
                f"`{stack.name}` is {here} and reads the state of `{owner.name}`, "
                f"which is {'production' if owner.production else 'not'}",
                address=read.resource.address,
            )


RULE = Rule(
    id="HF127",
    title="A state is read across the border of production",
    why="Who may read a state may read all of it, secrets included; and production that takes values from "
    "elsewhere changes when somebody tries something out.",
    fix="Let each environment have its own, or hand over single values by a path (SSM, Key Vault) instead of "
    "the state.",
    severity=Severity.WARNING,
    stack=_look,
    more="An environment that cannot be told counts as production.",
)
