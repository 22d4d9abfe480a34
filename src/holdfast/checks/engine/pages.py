"""The page of each rule, and the list of them all: written from the rules themselves."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.checks.model.interface import Rule, Sight

GROUPS = {
    "HF1": "Boundary and backend",
    "HF2": "Secrets, and files that must not be in Git",
    "HF3": "Hermetic",
    "HF4": "Output contract",
    "HF5": "Policy documents",
    "HF6": "Format and validity",
    "HF7": "Hygiene",
    "HF9": "Waivers, and the checks themselves",
}
_SIGHTS = {
    Sight.SOURCE: "the code",
    Sight.VARIABLES: "variables files",
    Sight.STACK: "stacks with their values",
    Sight.REPOSITORY: "the repository as a whole",
    Sight.HISTORY: "the history (`--history`)",
    Sight.ENGINE: "what Terraform says (`--engine`, and in a plan)",
    Sight.PLAN: "plans",
    Sight.STATE: "states at hand",
}

_NOT_WAIVED = {**dict.fromkeys(("HF901", "HF902", "HF903"), "a waiver"), "HF907": "these settings"}
_LINK = ": [docs/checks.md](../checks.md#waivers)."


def looks_at(rule: Rule) -> str:
    """In words: `the code, plans`."""
    return ", ".join(_SIGHTS[sight] for sight in rule.sights) or "what the checks themselves met"


def page(rule: Rule) -> str:
    """Markdown."""
    parts = [
        f"# {rule.id}: {rule.title}",
        f"Severity: **{rule.severity}**, unless `checks:` says otherwise. Looks at: {looks_at(rule)}.",
        f"## Why\n\n{rule.why}",
        f"## What to do\n\n{rule.fix}",
    ]
    if rule.bad:
        parts.append(f"Found:\n\n```hcl\n{rule.bad.rstrip()}\n```")
        parts.append(f"Not found:\n\n```hcl\n{rule.good.rstrip()}\n```")
    if rule.more:
        parts.append(rule.more.strip())
    parts.append(f"## Where it is right all the same\n\n{waiving(rule, _LINK)}")
    return "\n\n".join(parts) + "\n"


def waiving(rule: Rule, where: str = " (docs/checks.md).") -> str:
    """How a finding of it is waived; `where` says where that is explained."""
    about = _NOT_WAIVED.get(rule.id)
    if about is not None:
        return f"What is said of {about} cannot be waived. Its severity can be set, and it can be turned off."
    return (
        f"Write `# holdfast:ignore {rule.id} until=2027-01-31 reason=why` on the line, or a waiver into "
        f"`holdfast.yaml`{where}"
    )


def index(rules: Sequence[Rule]) -> str:
    """Markdown: every rule with its severity, by group."""
    parts = [
        "# Every rule\n\nThis page is written from the rules (`make docs`). [How checks work](../checks.md)."
    ]
    for beginning, title in GROUPS.items():
        rows = [
            f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |"
            for rule in rules
            if rule.id.startswith(beginning)
        ]
        if rows:
            parts.append(
                "\n".join([f"## {title}\n", "| rule | severity | what it finds |", "|---|---|---|", *rows])
            )
    return "\n\n".join(parts) + "\n"
