"""The documentation pages of the rules, generated from the rules and from `rules/details/`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.checks import rules
from holdfast.checks.engine.catalogue import RULES
from holdfast.checks.model.interface import CheckTarget, Rule

GROUPS = {
    "HF1": "Boundary and backend",
    "HF2": "Secrets, and files that do not belong in Git",
    "HF3": "Reproducible plans",
    "HF4": "Output contract",
    "HF5": "Policy documents",
    "HF6": "Format and validity",
    "HF7": "Variables, protection, versions",
    "HF9": "Waivers and the checks themselves",
}
_TARGETS = {
    CheckTarget.SOURCE: "the code",
    CheckTarget.VARIABLES: "variables files",
    CheckTarget.STACK: "stacks and their values",
    CheckTarget.REPOSITORY: "the whole repository",
    CheckTarget.HISTORY: "the Git history (`--history`)",
    CheckTarget.ENGINE: "Terraform's `fmt` and `validate` (`--engine`, and in a plan)",
    CheckTarget.PLAN: "plans",
    CheckTarget.STATE: "states",
}

_NOT_WAIVED = {**dict.fromkeys(("HF901", "HF902", "HF903"), "waivers"), "HF907": "settings"}
_WAIVED_BY_CONFIG = frozenset(
    ("HF201", "HF202", "HF203", "HF204", "HF205", "HF206", "HF307", "HF308", "HF309", "HF905", "HF908")
)
"""Their findings have no line, or are in a file that cannot keep a comment."""
_LINK = ": [docs/checks.md](../checks.md#waivers)."
_DETAILS = Path(rules.__file__).parent / "details"
_EXAMPLES = re.compile(r"Reported:\n\n```hcl\n(.*?)```\n\nNot reported:\n\n```hcl\n(.*?)```\n+", re.DOTALL)


class RuleDetails(NamedTuple):
    """The part of a rule's page that `rules/details/` has: Markdown."""

    why: str
    """The consequences: one to three sentences, the first paragraph."""
    bad: str = ""
    """Code (of a `main.tf`) that the rule reports: tested."""
    good: str = ""
    """The same code, fixed."""
    more: str = ""
    """Settings, exceptions, limits."""


def rule_details(rule: Rule) -> RuleDetails:
    if rule.why:
        return RuleDetails(why=rule.why)
    why, _, rest = _details(rule).partition("\n\n")
    examples = _EXAMPLES.match(rest)
    if examples is None:
        return RuleDetails(why=why.strip(), more=rest)
    return RuleDetails(why=why, bad=examples[1], good=examples[2], more=rest[examples.end() :])


def _details(rule: Rule) -> str:
    """Empty for a rule of an external tool."""
    return (_DETAILS / f"{rule.id}.md").read_text(encoding="utf-8") if rule.id in RULES else ""


def target_names(rule: Rule) -> str:
    """`the code, plans`."""
    return ", ".join(_TARGETS[target] for target in rule.targets) or "the checks themselves"


def rule_page(rule: Rule) -> str:
    why, _, rest = _details(rule).strip().partition("\n\n")
    parts = [
        f"# {rule.id}: {rule.title}",
        f"Default severity: **{rule.severity}**. Checks: {target_names(rule)}."
        + (f" Off until configured: it needs {rule.needs}." if rule.needs else ""),
        f"## Why it matters\n\n{why}",
        f"## How to fix it\n\n{rule.fix}",
    ]
    if rest:
        parts.append(rest)
    parts.append(f"## Exceptions\n\n{waiver_help(rule, _LINK)}")
    return "\n\n".join(parts) + "\n"


def waiver_help(rule: Rule, where: str = " (docs/checks.md).") -> str:
    """How to waive a finding; `where` says where that is explained."""
    about = _NOT_WAIVED.get(rule.id)
    if about is not None:
        return f"Findings about {about} cannot be waived. You can change the severity or turn the rule off."
    if rule.id in _WAIVED_BY_CONFIG:
        return f"Add a waiver to `holdfast.yaml`{where}"
    return (
        f"Add `# holdfast:ignore {rule.id} until=2027-01-31 reason=why` to the line, or a waiver to "
        f"`holdfast.yaml`{where}"
    )


def rule_index(all_rules: Sequence[Rule]) -> str:
    """All rules with their severity, by group."""
    parts = ["# All rules\n\nGenerated from the rules (`make docs`). [How checks work](../checks.md)."]
    for beginning, title in GROUPS.items():
        rows = [
            f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |"
            for rule in all_rules
            if rule.id.startswith(beginning)
        ]
        if rows:
            parts.append("\n".join([f"## {title}\n", "| rule | severity | title |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
