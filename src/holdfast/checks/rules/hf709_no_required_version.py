"""HF709: a root module that does not say which versions of Terraform it is written for."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module


def _look(module: Module) -> Iterator[Finding | Skipped]:
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
        yield finding(
            first.place, f"{where} does not say which versions of Terraform or OpenTofu it is written for"
        )


RULE = Rule(
    id="HF709",
    title="No version of Terraform is asked for",
    why="Whoever runs it with another version gets other defaults, another plan, or a state that the others "
    "can no longer read.",
    fix='Write `required_version = "~> 1.9"`, or what fits, into its `terraform` block.',
    severity=Severity.WARNING,
    source=_look,
    bad='terraform {\n  backend "s3" {}\n}\n',
    good='terraform {\n  required_version = "~> 1.9"\n  backend "s3" {}\n}\n',
    more="Only root modules of stacks are looked at. A `.terraform-version` and `engine.version` choose what "
    "Holdfast runs; they do not stop anybody else.",
)
