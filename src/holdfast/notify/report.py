"""The report of a change, in plain text and numbers, already redacted; and its verdict: may it be merged?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.kernel.text import plural
from holdfast.kernel.values import MaskedStruct

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


class Verdict(StrEnum):
    """The most severe first. The output `verdict` has these values."""

    UNKNOWN = "unknown"
    FAILED = "failed"
    REFUSED = "refused"
    LOCKED = "locked"
    APPROVAL = "approval"
    CAREFUL = "careful"
    READY = "ready"
    APPLIED = "applied"
    NOTHING = "nothing"


_OF_STATUS = {
    "unknown": Verdict.UNKNOWN,
    "failed": Verdict.FAILED,
    "cancelled": Verdict.FAILED,
    "refused": Verdict.REFUSED,
    "locked": Verdict.LOCKED,
    "waiting": Verdict.APPROVAL,
    "removed": Verdict.CAREFUL,
    "blocked": Verdict.CAREFUL,
    "planned": Verdict.READY,
    "applied": Verdict.APPLIED,
    "unchanged": Verdict.NOTHING,
}
BY_SEVERITY = tuple(_OF_STATUS)
"""Every status, the most severe first."""


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
    mocks: tuple[str, ...] = ()
    """Variables with a mock value: the plan shows what is not real."""
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


class OtherRequest(Struct, frozen=True, kw_only=True):
    """Another pull request whose plan changes a stack of this report."""

    stack: str
    reference: str
    """As the host writes it, trusted: `#12`, `!12`."""
    who: str
    when: str
    """`2 hours ago`"""
    open: bool
    """False: unknown whether it is open."""


class ChangeReport(Struct, frozen=True, kw_only=True):
    operation: str
    """`plan`, `apply` or `destroy`."""
    headline: str
    """`3 of 214 stacks are affected by 2 changed files`"""
    stacks: tuple[StackReport, ...]
    weakened: tuple[str, ...] = ()
    """Rules that are weaker in the change than in its base: `guard.approvals 2 → 1`."""
    troubles: tuple[Trouble, ...] = ()
    """Errors of the whole change: then there are no stacks."""
    findings: tuple[Trouble, ...] = ()
    """Errors of the checks that the guard does not report."""
    warnings: tuple[Trouble, ...] = ()
    """Warnings and notes of the checks; those about plans first."""
    checks_summary: str = ""
    """A summary of the findings: `2 errors, 5 warnings`."""
    planned_later: int = 0
    """How many stacks can be planned only after others are applied."""
    elsewhere: tuple[OtherRequest, ...] = ()
    saved_in: str | None = None
    """The folder of the bundle, as the user named it."""
    on_server: bool = False
    """A server has the plans, and people apply them with comments."""

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


def with_earlier_stacks(report: ChangeReport, before: ChangeReport | None) -> ChangeReport:
    """What an earlier pass over the same change said of other stacks and their code stays."""
    if before is None:
        return report
    named = {stack.name for stack in report.stacks}
    return replace(
        report,
        headline=report.headline or before.headline,
        stacks=(*(stack for stack in before.stacks if stack.name not in named), *report.stacks),
        findings=tuple(dict.fromkeys((*report.findings, *before.findings))),
        warnings=tuple(dict.fromkeys((*report.warnings, *before.warnings))),
        checks_summary=report.checks_summary or before.checks_summary,
    )


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


_DELETING = ("delete", "replace", "forget")


SIGNS = {
    Verdict.UNKNOWN: "⛔",
    Verdict.FAILED: "⛔",
    Verdict.REFUSED: "⛔",
    Verdict.LOCKED: "⏳",
    Verdict.APPROVAL: "✋",
    Verdict.CAREFUL: "⚠️",
    Verdict.READY: "✅",
    Verdict.APPLIED: "✅",
    Verdict.NOTHING: "✅",
}
_OF_PLAN = {
    Verdict.UNKNOWN: "Do not merge: the outcome of the last apply of {stacks} is unknown",
    Verdict.FAILED: "Do not merge: {stacks} could not be planned",
    Verdict.REFUSED: "Do not merge: {stacks} {are} refused",
    Verdict.LOCKED: "Not yet: {stacks} {are} locked; plan again later",
    Verdict.APPROVAL: "Approval needed: {stacks} {need} one before apply",
    Verdict.CAREFUL: "May be merged, with care: {careful}",
    Verdict.READY: "May be merged: {all} in {stacks}",
    Verdict.APPLIED: "May be merged: everything is applied",
    Verdict.NOTHING: "May be merged: no changes",
}
_OF_APPLY = {
    Verdict.UNKNOWN: "The outcome of the apply of {stacks} is unknown",
    Verdict.FAILED: "Failed: {stacks}",
    Verdict.REFUSED: "Not applied: {stacks} {are} refused",
    Verdict.LOCKED: "Not applied: {stacks} {are} locked",
    Verdict.APPROVAL: "Not applied yet: {stacks} {need} an approval",
    Verdict.CAREFUL: "Partly applied: check {stacks}",
    Verdict.READY: "Planned, not applied: {stacks}",
    Verdict.APPLIED: "Applied: {all} in {stacks}",
    Verdict.NOTHING: "Nothing to do",
}


def verdict_of_stack(stack: StackReport) -> Verdict:
    """An unknown status is not fine; a plan that deletes something or has a rule's reason needs care."""
    verdict = _OF_STATUS.get(stack.status, Verdict.UNKNOWN)
    if verdict in (Verdict.READY, Verdict.NOTHING) and stack.decision != "allow":
        return Verdict.APPROVAL if stack.decision == "approval" else Verdict.REFUSED
    return Verdict.CAREFUL if verdict is Verdict.READY and (stack.risks or stack.rules) else verdict


def verdict_of(report: ChangeReport) -> Verdict:
    if report.troubles:
        return Verdict.FAILED
    verdicts = {verdict_of_stack(stack) for stack in report.stacks}
    if (report.findings or report.weakened) and report.operation == "plan":
        verdicts.add(Verdict.CAREFUL)
    return next((verdict for verdict in Verdict if verdict in verdicts), Verdict.NOTHING)


def verdict_line(report: ChangeReport) -> str:
    """The first line of the report: fixed text and numbers only."""
    verdict = verdict_of(report)
    if report.troubles:
        nothing = "Do not merge: nothing could be planned"
        return f"{SIGNS[verdict]} {nothing if report.operation == 'plan' else 'Failed: nothing was applied'}"
    same = sum(1 for stack in report.stacks if verdict_of_stack(stack) is verdict)
    words = (_OF_PLAN if report.operation == "plan" else _OF_APPLY)[verdict].format(
        stacks=_stacks(same, len(report.stacks)),
        are="is" if same == 1 else "are",
        need="needs" if same == 1 else "need",
        all=counts_text(report.totals) or "no resource changes",
        careful=_careful(report) or f"check {_stacks(same, len(report.stacks))}",
    )
    later = plural(report.planned_later, "stack")
    rest = f"; {later} can be planned only after others are applied" if report.planned_later else ""
    return f"{SIGNS[verdict]} {words}{rest}"


def _careful(report: ChangeReport) -> str:
    deleting = counts_text({name: number for name, number in report.totals.items() if name in _DELETING})
    number = len(report.findings)
    errors = f"{plural(number, 'error')} found by the checks" if number else ""
    weaker = "the guard becomes weaker" if report.weakened else ""
    return ", ".join(part for part in (weaker, deleting, errors) if part)


def _stacks(number: int, of: int) -> str:
    if number == of:
        return plural(of, "stack")
    return f"{number} of {of} stacks"
