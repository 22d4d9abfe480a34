from __future__ import annotations

from holdfast.checks.model.interface import Rule, Severity

HF901 = Rule(
    id="HF901",
    title="Waiver that has expired",
    fix="Fix what it waives, or agree on a new end date and write down why.",
    severity=Severity.WARNING,
)


HF902 = Rule(
    id="HF902",
    title="Waiver without effect",
    fix="Remove the waiver.",
    severity=Severity.WARNING,
)


HF903 = Rule(
    id="HF903",
    title="Invalid waiver",
    fix="Write `# holdfast:ignore HF101 until=2027-01-01 reason=why this is acceptable`.",
    severity=Severity.WARNING,
)


HF905 = Rule(
    id="HF905",
    title="Rule that crashed or was not finished",
    fix="Report it with the code that caused it; until then you can turn off that rule for this path.",
    severity=Severity.ERROR,
)


HF906 = Rule(
    id="HF906",
    title="Stacks cannot be discovered",
    fix="Fix the problem; `holdfast stacks` shows whether it worked.",
    severity=Severity.ERROR,
)


HF907 = Rule(
    id="HF907",
    title="Unknown or removed rule",
    fix="`holdfast check --list` shows all rules.",
    severity=Severity.WARNING,
)


HF908 = Rule(
    id="HF908",
    title="External tool without a result",
    fix="Fix the problem in the message, or set `checks: {tools: {NAME: off}}`.",
    severity=Severity.ERROR,
)
