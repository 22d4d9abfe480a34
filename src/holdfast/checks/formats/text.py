"""For a terminal: the most severe rules first, each with its findings by folder and what to do.

A few findings are shown one per line. Of many, each folder has one line, and only the first folders of a rule
are shown: the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.checks.formats.interface import (
    FormatInput,
    counts_text,
    partly_evaluated_text,
    place_suffix,
    uncounted_texts,
    waiver_text,
)
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Novelty, Report, ReportedFinding
from holdfast.kernel.text import plural
from holdfast.system.markup import one_line

MARKS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.NOTE: "·"}
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "cyan"}
_NOVELTY = {Novelty.KNOWN: "known (baseline)", Novelty.EXISTING: "existing (not from this change)"}
_WIDEST = 72
_WIDEST_PLACE = 44
_FEW = 20
_MOST_FOLDERS = {Severity.ERROR: 6, Severity.WARNING: 3, Severity.NOTE: 1}
"""Of each rule, if there are more than a few findings."""


Piece = tuple[str, str]
"""Text and its style."""
Line = tuple[Piece, ...]
_FolderLine = tuple[ReportedFinding, int]
"""A finding, and how many more of its rule the folder has."""


def render(inputs: FormatInput) -> str:
    return "".join("".join(text for text, _ in line) + "\n" for line in lines(inputs))


def lines(inputs: FormatInput) -> Iterator[Line]:
    yield from finding_lines(inputs)
    yield ((f" {_summary_line(inputs)}", ""),)


def finding_lines(inputs: FormatInput) -> Iterator[Line]:
    """Without the summary line."""
    report, full = inputs.report, inputs.full or inputs.verbose
    few = full or len(report.active) <= _FEW
    for group in _by_rule(report.findings if inputs.verbose else report.active):
        if full:
            yield from _full_group(group)
        elif few:
            yield from _group(group, [(finding, 0) for finding in group], 0)
        else:
            folders = _by_folder(group)
            shown = folders[: _MOST_FOLDERS[group[0].severity]]
            yield from _group(group, shown, len(folders) - len(shown))
    if not few:
        yield (("", ""), (" Findings are grouped by folder. To see all of them, add --full.", "bold"))
        yield ()
    if inputs.verbose:
        yield from _skipped(report)


def _by_rule(findings: Iterable[ReportedFinding]) -> list[list[ReportedFinding]]:
    """The most severe first; those that do not count last."""
    groups: dict[tuple[bool, int, str], list[ReportedFinding]] = {}
    for finding in findings:
        groups.setdefault((not finding.active, finding.severity.rank, finding.rule.id), []).append(finding)
    return [groups[key] for key in sorted(groups)]


def _by_folder(findings: Sequence[ReportedFinding]) -> list[_FolderLine]:
    folders: dict[str | None, list[ReportedFinding]] = {}
    for finding in findings:
        folder = finding.file.rpartition("/")[0] if finding.file is not None else None
        folders.setdefault(folder, []).append(finding)
    return [(inside[0], len(inside) - 1) for inside in folders.values()]


def _group(group: Sequence[ReportedFinding], shown: Sequence[_FolderLine], left: int) -> Iterator[Line]:
    """One rule: its title, a line for each shown finding, and below several with the same hint, the hint."""
    yield _title(group)
    width = max((len(_place(finding)) for finding, _ in shown), default=0)
    width = width if width <= _WIDEST_PLACE else 0
    hints: set[str | None] = set()
    for number, (finding, more) in enumerate(shown):
        yield _line(finding, width, f"  (+{more} in this folder)" if more else "")
        hint = finding.hint
        following = shown[number + 1][0].hint if number + 1 < len(shown) else None
        if hint and hint != following and hint not in hints and not left:
            yield ((f"       {one_line(hint)}", "dim"),)
            hints.add(hint)
    if left:
        hidden = len(group) - sum(1 + more for _, more in shown)
        yield ((f"     … {plural(hidden, 'more finding')} in {plural(left, 'more folder')}", "dim"),)
        yield ((f"       {one_line(group[0].hint or group[0].rule.fix)}", "dim"),)
    yield ()


def _full_group(group: Sequence[ReportedFinding]) -> Iterator[Line]:
    """Every finding with its line of code; the hint where it differs from the one above."""
    yield _title(group)
    hint: str | None = None
    for finding in group:
        yield _line(finding, 0, "")
        if finding.source:
            yield ((f"         {one_line(finding.source, _WIDEST)}", "dim"),)
        if finding.waiver is not None:
            yield ((f"         {one_line(waiver_text(finding.waiver))}", ""),)
        elif finding.novelty in _NOVELTY:
            yield ((f"         {_NOVELTY[finding.novelty]}", ""),)
        elif finding.hint and finding.hint != hint:
            yield ((f"         {one_line(finding.hint)}", ""),)
            hint = finding.hint
    yield ()


def _title(group: Sequence[ReportedFinding]) -> Line:
    first = group[0]
    mark, style = (MARKS[first.severity], _STYLES[first.severity]) if first.active else ("~", "dim")
    count = f"  ({len(group)})" if len(group) > 1 else ""
    rule = first.rule
    title = "" if rule.title == rule.id else f"  {one_line(rule.title)}"
    return ((" ", ""), (mark, style), (f" {one_line(rule.id)}{title}", "bold"), (count, "dim"))


def _line(finding: ReportedFinding, width: int, more: str) -> Line:
    about = place_suffix(finding.address if (finding.address or "") not in finding.message else None)
    message = _sentence(one_line(finding.message))
    return ((f"     {_place(finding):<{width}}  ", ""), (f"{message}{about}", ""), (more, "dim"))


def _place(finding: ReportedFinding) -> str:
    if finding.file is None:
        return one_line(finding.stack or "the repository")
    return one_line(finding.file if finding.line is None else f"{finding.file}:{finding.line}")


def _sentence(text: str) -> str:
    """Capitalized, unless it starts with a name, such as that of a file."""
    first = text.partition(" ")[0].rstrip(",:;")
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


def _skipped(report: Report) -> Iterator[Line]:
    if not report.skipped:
        return
    yield ((" not fully evaluated", "bold"),)
    for skip in report.skipped:
        text = f"{one_line(skip.rule)}  {one_line(skip.reason)}{place_suffix(skip.where)}"
        yield ((f"        - {text}", ""),)
    yield ()


def _summary_line(inputs: FormatInput) -> str:
    report = inputs.report
    parts = [plural(report.files, "file"), counts_text(report), *uncounted_texts(report)]
    if words := partly_evaluated_text(report):
        parts.append(words if inputs.verbose else f"{words} (details: --verbose)")
    if inputs.seconds is not None:
        parts.append(f"{inputs.seconds:.1f} s")
    return " · ".join(parts)
