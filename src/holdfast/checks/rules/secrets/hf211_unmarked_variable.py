from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.required import may_run
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module
from holdfast.checks.secrets.secret_variables import secret_variables, shown_variables, uses_of_variables
from holdfast.hcl.reader import UNKNOWN, constant
from holdfast.terraform.versions import Version

_SENSITIVE = Version.parse("0.14")
"""The first version that knows the argument."""


def _check(module: Module) -> Iterator[CheckResult]:
    if not may_run(module, _SENSITIVE):
        return
    for block in secret_variables(module):
        name = block.labels[0]
        default = block.body.attribute("default")
        unused = name not in uses_of_variables(module)
        if unused and default is not None and constant(default.expression) == "":
            continue  # Nothing can be in it.
        mark = block.body.attribute("sensitive")
        if mark is not None and constant(mark.expression) is UNKNOWN:
            yield Skipped(reason=f"`sensitive` of `{name}` is computed", file=block.place.file)
            continue
        shown = (module.roots or not module.stacks) and any(
            name == shown for shown, _ in shown_variables(module)
        )
        yield finding(
            block,
            f"`{name}` sounds like a secret and is not marked `sensitive`",
            address=f"var.{name}",
            severity=None if shown else Severity.NOTE,
        )


RULE = Rule(
    id="HF211",
    title="Secret-looking variable that is not sensitive",
    fix="Add `sensitive = true`, and `ephemeral = true` if it is only passed to providers and "
    "write-only arguments.",
    severity=Severity.WARNING,
    source=_check,
)
