"""Which findings are shown one by one: a few all, of many one for each rule and folder. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import ReportedFinding
from holdfast.kernel.text import plural

FEW = 20
_MOST_FOLDERS = {Severity.ERROR: 6, Severity.WARNING: 3, Severity.NOTE: 1}
"""Of each rule, if there are more than a few findings."""


class RuleGroup(Struct, frozen=True, kw_only=True):
    """The findings of one rule and severity."""

    findings: tuple[ReportedFinding, ...]
    shown: tuple[tuple[ReportedFinding, int], ...]
    """The first finding of each folder, and how many more that has."""
    left: str | None = None
    """`3 more findings in 2 more folders`."""

    @property
    def first(self) -> ReportedFinding:
        return self.findings[0]


def group_findings(findings: Iterable[ReportedFinding], *, few: bool) -> list[RuleGroup]:
    """The most severe first; those that do not count last. `few`: every finding is shown."""
    by_rule: dict[tuple[bool, int, str], list[ReportedFinding]] = {}
    for finding in findings:
        by_rule.setdefault((not finding.active, finding.severity.rank, finding.rule.id), []).append(finding)
    return [_group(by_rule[key], few=few) for key in sorted(by_rule)]


def _group(findings: Sequence[ReportedFinding], *, few: bool) -> RuleGroup:
    if few:
        return RuleGroup(findings=tuple(findings), shown=tuple((finding, 0) for finding in findings))
    folders: dict[str | None, list[ReportedFinding]] = {}
    for finding in findings:
        folder = finding.file.rpartition("/")[0] if finding.file is not None else None
        folders.setdefault(folder, []).append(finding)
    lines = [(inside[0], len(inside) - 1) for inside in folders.values()]
    most = _MOST_FOLDERS[findings[0].severity]
    hidden = sum(1 + more for _, more in lines[most:])
    left = (
        f"{plural(hidden, 'more finding')} in {plural(len(lines) - most, 'more folder')}" if hidden else None
    )
    return RuleGroup(findings=tuple(findings), shown=tuple(lines[:most]), left=left)
