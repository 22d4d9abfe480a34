"""Which findings are new: compared with the baseline, and with the findings of the base of a change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.coverage import Coverage
from holdfast.checks.model.baseline import BaselineEntry, RemainingEntries, line_independent
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import BaselineUse, Novelty, Report, ReportedFinding
from holdfast.checks.model.subjects import Checkout
from holdfast.hcl.eval.code import is_code
from holdfast.hcl.nodes import File

ABOUT_SETTINGS = frozenset({"HF901", "HF902", "HF903", "HF907"})
"""Findings about waivers and settings."""
NOT_CHECKED = frozenset({"HF905", "HF906", "HF908"})
"""They report that something was not checked, which is never known as fine."""
_OWN = frozenset(catalogue.ids()) - NOT_CHECKED
_UNREADABLE = "HF904"
_WHOLE_BLOCK = ("HF5", "HF301", "HF302", "HF303", _UNREADABLE)
"""Rules whose finding is about more than its line: what a policy allows, which program is run."""
_POLICY = "rego"
_CHECKOV = "checkov"


# The baseline


def entry_of(finding: ReportedFinding) -> BaselineEntry:
    return BaselineEntry(
        rule=finding.rule.id,
        severity=finding.severity,
        file=finding.file,
        stack=finding.stack if finding.file is None else None,
        address=finding.address,
        message=line_independent(finding.message),
        count=max(1, len(finding.paths)),
    )


def can_be_known(finding: ReportedFinding) -> bool:
    """A denial of a policy always counts, as in a plan."""
    return finding.rule.id not in ABOUT_SETTINGS | NOT_CHECKED and finding.rule.tool != _POLICY


def mark_known(
    findings: Iterable[ReportedFinding], entries: Iterable[BaselineEntry]
) -> tuple[list[ReportedFinding], tuple[BaselineEntry, ...]]:
    """The findings compared with the baseline, and the entries that no unwaived finding has."""
    remaining = RemainingEntries(entries)

    def marked(finding: ReportedFinding) -> ReportedFinding:
        if finding.waived:
            return finding
        known = can_be_known(finding) and remaining.take_whole(entry_of(finding))
        return replace(finding, novelty=Novelty.KNOWN if known else Novelty.NEW)

    return [marked(finding) for finding in findings], remaining.left()


def compare_with_baseline(
    report: Report, entries: Iterable[BaselineEntry], checkout: Checkout, coverage: Coverage
) -> Report:
    findings, left = mark_known(report.findings, entries)
    new = {entry_of(finding).identity for finding in findings if finding.novelty is Novelty.NEW}
    known = {entry_of(finding).identity for finding in findings if finding.novelty is Novelty.KNOWN}
    unreadable = {finding.file for finding in findings if finding.rule.id == _UNREADABLE}
    # What occurs more often than known is reported as new; what occurs less often is fixed.
    left = tuple(entry for entry in left if entry.identity not in new)
    fixed = tuple(
        entry
        for entry in left
        if entry.identity in known
        or (checkout.whole and entry.file not in unreadable and _is_checked(entry, checkout, coverage))
    )
    unchecked = tuple(entry for entry in left if entry not in fixed)
    return replace(report, findings=tuple(findings), baseline=BaselineUse(fixed=fixed, unchecked=unchecked))


def _is_checked(entry: BaselineEntry, checkout: Checkout, coverage: Coverage) -> bool:
    """Whether its rule was evaluated where the finding was."""
    rule, file = entry.rule, entry.file
    if rule not in catalogue.ids():
        unfinished = any(evaluation.rule.id in NOT_CHECKED for evaluation, _ in coverage.findings)
        return not unfinished and all(skip.rule != _CHECKOV for skip in coverage.skipped)
    if file is None:
        return coverage.is_fully_evaluated(rule)
    if checkout.content(file) is None and coverage.files_of(rule):
        return coverage.is_history_evaluated(rule)
    return coverage.is_evaluated(rule, file)


def next_baseline(report: Report, clean: Callable[[str], str]) -> tuple[list[BaselineEntry], int]:
    """The entries for all findings of the report, and how many findings cannot have one.

    An entry is written as it is or not at all: one that contains a secret is left out. What was not evaluated
    stays.
    """
    unwaived = [finding for finding in report.findings if not finding.waived]
    entries = [
        entry_of(finding)
        for finding in unwaived
        if can_be_known(finding)
        and all(clean(text) == text for text in (finding.message, finding.file, finding.address) if text)
    ]
    unchecked = report.baseline.unchecked if report.baseline is not None else ()
    return [*entries, *unchecked], len(unwaived) - len(entries)


# The base of a change

_Key = tuple[str | bytes | None, ...]
_Base = dict[_Key, list[tuple[Severity, frozenset[str]]]]
"""By what identifies a finding: how severe it is, and under which links to its file it was found."""


def mark_existing(
    report: Report,
    checkout: Checkout,
    bases: Sequence[tuple[Report, Checkout]],
    entries: Iterable[BaselineEntry],
) -> Report:
    """The report of a change, compared with the findings of its base. Of those, `entries` are known.

    `bases` are its findings with the settings of the change and with its own: a finding exists if either has
    it, at least as severe, on an unchanged line and under the same links. It may have moved to another file
    of the folder, which is one module. An external tool reads only the current files: of its findings, the
    baseline decides.
    """
    remaining = _united([_by_key(base, old) for base, old in bases])
    keys = {
        number: _key(finding, checkout)
        for number, finding in enumerate(report.findings)
        if not finding.waived and finding.rule.id in _OWN
    }
    existing = _take(keys, report, remaining)
    moved: _Base = {}
    for key, found in remaining.items():
        moved.setdefault(_in_folder(key), []).extend(found)
    missing = {number: _in_folder(key) for number, key in keys.items() if number not in existing}
    existing |= _take(missing, report, moved)

    accepted = RemainingEntries(entries)

    def marked(number: int, finding: ReportedFinding) -> ReportedFinding:
        if number not in keys:
            return finding
        if number not in existing:
            return replace(finding, novelty=Novelty.NEW)
        known = can_be_known(finding) and accepted.take_whole(entry_of(finding))
        return replace(finding, novelty=Novelty.KNOWN if known else Novelty.EXISTING)

    findings = tuple(marked(number, finding) for number, finding in enumerate(report.findings))
    return replace(report, findings=findings)


def _by_key(report: Report, checkout: Checkout) -> _Base:
    found: _Base = {}
    for finding in report.findings:
        found.setdefault(_key(finding, checkout), []).append((finding.severity, finding.links))
    return found


def _united(bases: Iterable[_Base]) -> _Base:
    """What both show is one finding: of each key, those of the base that has more or more severe ones."""
    united: _Base = {}
    for base in bases:
        for key, found in base.items():
            united[key] = min(united.get(key, found), found, key=_weight)
    return united


def _weight(found: list[tuple[Severity, frozenset[str]]]) -> tuple[int, list[int]]:
    return -len(found), sorted(severity.rank for severity, _ in found)


def _take(keys: Mapping[int, _Key], report: Report, remaining: _Base) -> set[int]:
    """The numbers of the findings that remain in the base; each there is used once."""
    taken = set()
    for number, key in keys.items():
        finding, known = report.findings[number], remaining.get(key, [])
        for match in known:
            if match[0].is_at_least(finding.severity) and finding.links <= match[1]:
                known.remove(match)
                taken.add(number)
                break
    return taken


def _key(finding: ReportedFinding, checkout: Checkout) -> _Key:
    """The folder and the name of the file first."""
    folder, _, name = (finding.file or "").rpartition("/")
    stack = finding.stack if finding.file is None else None
    message = line_independent(finding.message)
    return folder, name, finding.rule.id, stack, finding.address, message, _content(finding, checkout)


def _in_folder(key: _Key) -> _Key:
    """Without the name of the file, if it is code of a module: variables files do not belong together."""
    return (key[0], *key[2:]) if is_code(str(key[1])) else key


def _content(finding: ReportedFinding, checkout: Checkout) -> str | bytes | None:
    """The code that the finding is about, however it is indented: its line, all lines of a secret, the block
    of a policy or a program, or the file.
    """
    file, line = finding.file, finding.line
    if file is None:
        return None
    first = last = line
    if finding.rule.secret and line is not None:
        last = max(finding.end_line or line, line)
    elif finding.rule.id.startswith(_WHOLE_BLOCK):
        first, last = _block(checkout.code.file(file), finding)
    if first is None or last is None:
        return checkout.content(file)
    return "\n".join(" ".join(text.split()) for text in checkout.lines(file)[first - 1 : last])


def _block(file: File | None, finding: ReportedFinding) -> tuple[int | None, int | None]:
    """The lines of the block that contains it; none in a file that cannot be read or has no blocks."""
    line = finding.line or 0
    blocks = file.body.blocks if file is not None and not file.problems else ()
    return next(
        ((block.line, block.end_line) for block in blocks if block.line <= line <= block.end_line),
        (None, None),
    )
