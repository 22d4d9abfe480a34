"""The report of a change: plain text and numbers, already redacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.kernel.values import MaskedStruct

BY_SEVERITY = (
    "unknown", "failed", "cancelled", "refused", "locked", "waiting",
    "removed", "blocked", "planned", "applied", "unchanged",
)  # fmt: skip
"""Every status, the most severe first."""
_COUNTED = (
    ("delete", "delete", "deletes"),
    ("replace", "replacement", "replacements"),
    ("forget", "forget", "forgets"),
    ("update", "change", "changes"),
    ("create", "new", "new"),
    ("import", "import", "imports"),
    ("move", "move", "moves"),
    ("read", "read", "reads"),
)


class Risk(Struct, frozen=True, kw_only=True):
    """A resource that would be deleted or forgotten, or whose change this version does not understand."""

    address: str
    what: str
    """Such as `deleted: no longer in the configuration`."""


class Rule(Struct, frozen=True, kw_only=True):
    """A reason of the guard."""

    code: str
    message: str
    address: str | None = None
    rule: str = ""
    """A short name: `protected type aws_db_instance`."""


class Trouble(Struct, frozen=True, kw_only=True):
    """An error or a finding, with its place in the source if there is one."""

    code: str
    message: str
    hint: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line is not None else str(self.file)


class StackReport(MaskedStruct, frozen=True, kw_only=True):
    name: str
    status: str
    environment: str | None = None
    production: bool = False
    decision: str = "allow"
    """`allow`, `approval` or `deny`."""
    counts: Mapping[str, int] = field(default_factory=dict)
    risks: tuple[Risk, ...] = ()
    rules: tuple[Rule, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    notes: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()
    """Of a removed stack: the resources still in its state."""
    diff: tuple[str, ...] = ()
    """The lines of the plan; each starts with a sign."""
    diff_cut: bool = False
    """Whether the plan is longer than `diff`."""
    digest: str | None = None
    run: str | None = None

    @property
    def changes(self) -> str:
        return counts_text(self.counts)

    @property
    def needs_attention(self) -> bool:
        severe = self.status not in {"planned", "applied", "unchanged"}
        return severe or bool(self.rules) or bool(self.risks and self.status == "planned")


class ChangeReport(Struct, frozen=True, kw_only=True):
    operation: str
    """`plan`, `apply` or `destroy`."""
    headline: str
    """`3 of 214 stacks are affected by 2 changed files`"""
    stacks: tuple[StackReport, ...]
    troubles: tuple[Trouble, ...] = ()
    """Errors of the whole change: then there are no stacks."""
    findings: tuple[Trouble, ...] = ()
    """Errors of the checks that the guard does not report."""
    warnings: tuple[Trouble, ...] = ()
    """Warnings about plans, which have no place in the code."""
    checks_summary: str = ""
    """A summary of the findings: `2 errors, 5 warnings`."""

    @property
    def ordered(self) -> list[StackReport]:
        """By severity; then those that delete something, then by name."""
        return sorted(self.stacks, key=lambda stack: (severity(stack.status), not stack.risks, stack.name))

    @property
    def statuses(self) -> Counter[str]:
        return Counter(stack.status for stack in self.stacks)

    @property
    def totals(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for stack in self.stacks:
            total.update(stack.counts)
        return {name: total[name] for name, _, _ in _COUNTED}


def severity(status: str) -> int:
    """An unknown status is the most severe."""
    return BY_SEVERITY.index(status) if status in BY_SEVERITY else -1


def counts_text(counts: Mapping[str, int]) -> str:
    """Such as `1 delete, 2 replacements, 4 new`."""
    return ", ".join(
        f"{counts[name]} {singular if counts[name] == 1 else plural}"
        for name, singular, plural in _COUNTED
        if counts.get(name)
    )
