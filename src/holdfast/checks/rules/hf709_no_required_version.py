from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module


def _check(module: Module) -> Iterator[Finding | Skipped]:
    if not module.roots or any(
        block.body.attribute("required_version") is not None for block in module.blocks("terraform")
    ):
        return
    broken = next((file for file in module.files if file.problems), None)
    if broken is not None:
        yield Skipped(reason=f"{broken.path} could not be read in full", file=broken.path)
        return
    first = next(module.blocks("terraform"), None) or next(
        (block for file in module.files for block in file.body.blocks), None
    )
    if first is not None:
        where = "the root module" if module.folder == "." else f"`{module.folder}`"
        yield finding(first.place, f"{where} has no `required_version`")


RULE = Rule(
    id="HF709",
    title="No Terraform version constraint",
    why="With a different version Terraform may use other defaults, create a different plan, or write a "
    "state that others cannot read.",
    fix='Set `required_version = "~> 1.9"`, or what fits, in the `terraform` block.',
    severity=Severity.WARNING,
    source=_check,
)
