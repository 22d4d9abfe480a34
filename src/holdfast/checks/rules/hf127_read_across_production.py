from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.remote_states import remote_reads
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack


def _check(stack: CheckedStack) -> Iterator[CheckResult]:
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


RULE = Rule(
    id="HF127",
    title="State is read across the production boundary",
    why="Read access to a state covers all of it, including its secrets. And production that reads "
    "values from another environment changes when someone experiments there.",
    fix="Give each environment its own resources, or pass single values through a parameter store (SSM, "
    "Key Vault) instead of the state.",
    severity=Severity.WARNING,
    stack=_check,
)
