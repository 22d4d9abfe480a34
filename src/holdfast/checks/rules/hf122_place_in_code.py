"""HF122: the place of a state, written into the code."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import Home, of_orphans, of_stacks
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import UNKNOWN


def _judge(home: Home) -> Iterator[Finding]:
    if home.type == "local" or home.block is None:
        return
    fixed = [name for name in home.kind.places if home.in_code(name) and home.value(name) is not UNKNOWN]
    if fixed:
        names = ", ".join(f"`{name}`" for name in fixed)
        yield finding(home.block, f"the code says where the state lies: {names}")


RULE = Rule(
    id="HF122",
    title="The place of a state that is written into the code",
    why="Code that holds only the backend's type runs for every target; with the place in it, a second "
    "environment is a copy of the folder, and a forgotten line in the copy is two stacks on one state.",
    fix="Copy the settings to the entry in holdfast.yaml (`backend: { settings: … }`), see a plan without "
    'changes, then empty the block: `backend "s3" {}`.',
    severity=Severity.NOTE,
    source=of_orphans(_judge, written=True),
    stack=of_stacks(_judge),
    bad='terraform {\n  backend "s3" {\n    bucket = "acme-prod-tfstate-eu-west-1"\n'
    '    key    = "network/terraform.tfstate"\n  }\n}\n',
    good='terraform {\n  backend "s3" {}\n}\n',
)
