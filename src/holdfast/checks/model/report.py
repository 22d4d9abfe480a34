"""The report of the checks: findings with severity, waivers, and what was not evaluated."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from datetime import date
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.model.baseline import BaselineEntry
from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.kernel.errors import Exit, Place

_FEW = 3


class Waiver(Struct, frozen=True, kw_only=True):
    """Accepts findings of `rule` until a date."""

    rule: str
    reason: str
    until: date
    place: Place
    """Where it is written: a line of code or of the configuration."""
    owner: str | None = None


class Novelty(StrEnum):
    """A finding compared with the baseline, or with the base of a change."""

    NEW = "new"
    KNOWN = "known"
    """In the baseline."""
    EXISTING = "existing"
    """The base of the change has it, too."""


class ReportedFinding(Struct, frozen=True, kw_only=True):
    """One finding of the report."""

    rule: Rule
    severity: Severity
    message: str
    hint: str | None
    file: str | None
    line: int | None
    column: int | None
    end_line: int | None
    stack: str | None
    address: str | None
    source: str | None = None
    """The line of the file, masked if needed (`source_lines`); None if it must not be shown."""
    waiver: Waiver | None = None
    stacks: tuple[str, ...] = ()
    """All stacks that it concerns: several may share the code. Empty: no stack in particular."""
    id: str = ""
    """Identifies the finding in every report of one change, also after redaction."""
    paths: tuple[str, ...] = ()
    """Its file, and links to it, as far as it was found under them."""
    novelty: Novelty | None = None
    """None: it was compared with nothing."""
    group: str | None = None
    """Those of a rule with the same one are shown as one finding."""
    also: tuple[Place, ...] = ()
    """The places of the others."""

    @property
    def waived(self) -> bool:
        return self.waiver is not None

    @property
    def active(self) -> bool:
        """Whether it counts: not waived, and neither known nor existing."""
        return self.waiver is None and self.novelty in (None, Novelty.NEW)

    @property
    def links(self) -> frozenset[str]:
        return frozenset(self.paths) - {self.file or ""}


class NotEvaluated(Struct, frozen=True, kw_only=True):
    """A rule that was not fully evaluated, and why."""

    rule: str
    reason: str
    file: str | None = None
    stack: str | None = None
    expected: bool = False
    """It follows from what was asked for or configured."""

    @property
    def where(self) -> str | None:
        return self.file or self.stack


class BaselineUse(Struct, frozen=True, kw_only=True):
    """What became of the entries of the baseline."""

    fixed: tuple[BaselineEntry, ...] = ()
    """Findings that no longer exist."""
    unchecked: tuple[BaselineEntry, ...] = ()
    """Their rules were not evaluated there, so that they may still exist."""

    @property
    def fixed_count(self) -> int:
        return sum(entry.count for entry in self.fixed)


class Report(Struct, frozen=True, kw_only=True):
    findings: tuple[ReportedFinding, ...]
    """By file and line; those without a file last."""
    skipped: tuple[NotEvaluated, ...]
    rules: tuple[Rule, ...]
    """All enabled rules, including those without findings."""
    files: int
    """The number of code files that were checked."""
    stacks: int
    modules: int
    baseline: BaselineUse | None = None
    """None: there is no baseline."""

    def count(self, severity: Severity) -> int:
        """Of active findings."""
        return sum(finding.severity is severity for finding in self.active)

    @property
    def active(self) -> tuple[ReportedFinding, ...]:
        """The findings that count."""
        return tuple(finding for finding in self.findings if finding.active)

    @property
    def most_severe_first(self) -> list[ReportedFinding]:
        """The active ones."""
        return sorted(self.active, key=lambda finding: finding.severity.rank)

    @property
    def waived(self) -> int:
        return sum(finding.waived for finding in self.findings)

    def count_novelty(self, novelty: Novelty) -> int:
        return sum(finding.novelty is novelty and not finding.waived for finding in self.findings)

    @property
    def compared(self) -> bool:
        """Whether active findings are new ones."""
        return self.baseline is not None or any(finding.novelty is not None for finding in self.findings)

    @property
    def partly_evaluated(self) -> tuple[str, ...]:
        """The rules that were not fully evaluated, each once."""
        return tuple(dict.fromkeys(finding.rule for finding in self.skipped))

    @property
    def unexpected_gaps(self) -> tuple[str, ...]:
        """The rules that were not fully evaluated although all that they need was there, each once."""
        return tuple(dict.fromkeys(skip.rule for skip in self.skipped if not skip.expected))

    def exit(self, fail_on: Severity) -> Exit:
        refused = any(finding.severity.is_at_least(fail_on) for finding in self.active)
        return Exit.REFUSED if refused else Exit.DONE


def finding_id(rule: str, finding: Finding, stack: str | None) -> str:
    """Stable while rule, place, address and message stay the same.

    What several stacks show of one line of code has one id. It is a digest of unredacted texts, and is
    therefore for matching only: no report shows it.
    """
    place = finding.place
    where = (place.file, str(place.line)) if place is not None else ("", stack or "")
    parts = (rule, *where, finding.address or "", finding.message)
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


def redact_report(report: Report, clean: Callable[[str], str]) -> Report:
    """The report without secrets, ready for any output; findings of one group are one."""
    # The same files and hints occur in thousands of findings.
    once = functools.cache(clean)

    def maybe(text: str | None) -> str | None:
        return once(text) if text else text

    def without(waiver: Waiver) -> Waiver:
        return replace(waiver, reason=once(waiver.reason), owner=maybe(waiver.owner))

    findings = tuple(
        replace(
            finding,
            message=once(finding.message),
            hint=maybe(finding.hint),
            # Addresses contain keys of `for_each`, and file names can contain anything.
            file=maybe(finding.file),
            address=maybe(finding.address),
            source=maybe(finding.source),
            waiver=without(finding.waiver) if finding.waiver else None,
            also=tuple(place._replace(file=once(place.file)) for place in finding.also),
        )
        for finding in join_groups(report.findings)
    )
    skipped = tuple(
        replace(finding, reason=once(finding.reason), file=maybe(finding.file)) for finding in report.skipped
    )
    return replace(report, findings=findings, skipped=skipped)


def join_groups(findings: Iterable[ReportedFinding]) -> tuple[ReportedFinding, ...]:
    """One finding for each group, as far as all in it count alike; it names the places of the others."""
    groups: dict[object, list[ReportedFinding]] = {}
    for number, finding in enumerate(findings):
        alike = (finding.rule.id, finding.group, finding.severity, finding.novelty, finding.waiver)
        groups.setdefault(number if finding.group is None else alike, []).append(finding)
    return tuple(_join(*group) for group in groups.values())


def _join(first: ReportedFinding, *others: ReportedFinding) -> ReportedFinding:
    if not others:
        return first
    also = tuple(dict.fromkeys(Place(file=other.file or "", line=other.line) for other in others))
    texts = [f"line {place.line}" if place.file == first.file else str(place) for place in also[:_FEW]]
    listed = ", ".join(texts) + (f" and {len(also) - _FEW} more" if len(also) > _FEW else "")
    stacks = tuple(dict.fromkeys(name for finding in (first, *others) for name in finding.stacks))
    return replace(first, message=f"{first.message}; also {listed}", stacks=stacks, also=also)


def sort_findings(findings: Iterable[ReportedFinding]) -> tuple[ReportedFinding, ...]:
    return tuple(sorted(findings, key=_order))


def _order(finding: ReportedFinding) -> tuple[bool, str, int, str, str, str, str]:
    return (
        finding.file is None,
        finding.file or "",
        finding.line or 0,
        finding.rule.id,
        finding.stack or "",
        finding.address or "",
        finding.message,
    )
