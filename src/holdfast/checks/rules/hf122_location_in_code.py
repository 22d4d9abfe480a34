from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import UNKNOWN


def _judge(backend: BackendView) -> Iterator[Finding]:
    if backend.type == "local" or backend.block is None:
        return
    fixed = [
        name for name in backend.kind.places if backend.in_code(name) and backend.value(name) is not UNKNOWN
    ]
    if fixed:
        names = ", ".join(f"`{name}`" for name in fixed)
        yield finding(backend.block, f"the location of the state is hard-coded: {names}")


RULE = Rule(
    id="HF122",
    title="State location in the code",
    why="Code with only the backend's type runs for every target. With the location hard-coded, a second "
    "environment needs a copy of the folder, and one forgotten line puts two stacks on one state.",
    fix="Copy the settings to the stack's entry in holdfast.yaml (`backend: { settings: … }`), check "
    'that the plan has no changes, then empty the block: `backend "s3" {}`.',
    severity=Severity.NOTE,
    **for_backends(_judge, literals_only=True),
)
