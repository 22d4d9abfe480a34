"""Builds the report: severities, waivers, and findings about the waivers themselves."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.coverage import Coverage, Evaluation
from holdfast.checks.engine.levels import severity_of
from holdfast.checks.engine.source_lines import SecretLines
from holdfast.checks.engine.waivers import (
    MARK,
    InvalidWaiver,
    LineWaiver,
    from_config,
    is_expired,
    is_unknown,
    read_waivers,
    waiver_for,
)
from holdfast.checks.model.globs import is_path
from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.checks.model.report import Report, ReportedFinding, Waiver, finding_id, sort_findings
from holdfast.checks.model.subjects import CheckedStack, Checkout
from holdfast.config.checks import ConfigWaiver, RuleLevel
from holdfast.hcl.eval.worktree import PathKind
from holdfast.kernel.errors import Place

_MARK = MARK.encode()
AnyWaiver = LineWaiver | ConfigWaiver
LocatedFinding = tuple[str | None, ReportedFinding]
"""With the path that it was found under, which settings and waivers may name: a link, or that of its file."""


def build_report(
    checkout: Checkout,
    enabled: Sequence[Rule],
    rules: Mapping[str, Rule],
    coverage: Coverage,
    *,
    waivers: bool = True,
) -> Report:
    """`rules` are all rules, the `enabled` ones were evaluated.

    `waivers`: findings about waivers and settings belong in this report.
    """
    return _ReportBuilder(checkout, rules, coverage).report(enabled, waivers=waivers)


class _ReportBuilder:
    def __init__(self, checkout: Checkout, rules: Mapping[str, Rule], coverage: Coverage) -> None:
        self._checkout = checkout
        self._settings = checkout.config.checks
        self._rules = rules
        self._ids = frozenset((*rules, *catalogue.ids()))
        self._coverage = coverage
        self._secrets = SecretLines(
            (evaluation.rule, self._at_target(finding))
            for evaluation, finding in coverage.findings
            if not evaluation.is_history
        )
        self._stacks = {stack.name: stack for stack in checkout.stacks}
        self._used_waivers: set[int] = set()

    def report(self, enabled: Sequence[Rule], *, waivers: bool) -> Report:
        rule_findings = one_per_broken_file(list(self._rule_findings()))
        lines, invalid = self._line_waivers(finding.file for _, finding in rule_findings)
        # A waiver may be for one stack only, so it applies before findings of several stacks are merged.
        by_file: dict[str | None, list[LineWaiver]] = {}
        for waiver in lines:
            by_file.setdefault(waiver.file, []).append(waiver)
        findings = list(merge_findings(self._apply_waivers(*located, by_file) for located in rule_findings))
        if waivers:
            findings += (finding for _, finding in self._waiver_findings(lines, invalid))
            findings += (finding for _, finding in self._unknown_rules(invalid))
        files = {self._target(file.path) for module in self._checkout.modules for file in module.files}
        files.update(self._target(file.path) for file in self._checkout.variables_files)
        return Report(
            findings=tuple(
                replace(finding, source=self._source(finding)) for finding in sort_findings(findings)
            ),
            skipped=tuple(self._coverage.skipped),
            rules=tuple(enabled),
            files=len(files),
            stacks=len(self._checkout.stacks),
            modules=len(self._checkout.modules),
        )

    # A file behind links is one file: findings and waivers have the path that it really has.

    def _target(self, path: str) -> str:
        """Where links lead, unless that is outside the root or nowhere."""
        tree = self._checkout.code.tree
        real = tree.real(path)
        return path if real is None or tree.kind(real) is PathKind.MISSING else real

    def _at_target(self, finding: Finding) -> Finding:
        place = finding.place
        if place is None or (target := self._target(place.file)) == place.file:
            return finding
        return replace(finding, place=place._replace(file=target))

    # Findings of the rules.

    def _rule_findings(self) -> Iterator[LocatedFinding]:
        for evaluation, finding in self._coverage.findings:
            yield from self._reported(evaluation, finding)
        for evaluation, where in self._coverage.crashes:
            yield from self._not_evaluated(evaluation, f"crashed here: {where}")
        for evaluation, reason in self._coverage.unfinished:
            # It might have reported an error, unless the configuration rates it lower.
            file, environments = next(iter(evaluation.files), None), self._environments(evaluation)
            own, rule = Severity.ERROR, evaluation.rule
            severity = severity_of(self._settings, rule, own=own, file=file, environments=environments)
            if severity is Severity.ERROR:
                yield from self._not_evaluated(evaluation, f"was not evaluated: {reason}")

    def _not_evaluated(self, evaluation: Evaluation, why: str) -> Iterator[LocatedFinding]:
        in_file = evaluation.files and not evaluation.whole_repository
        finding = Finding(
            message=f"{evaluation.rule.id} {why}",
            place=Place(file=evaluation.files[0]) if in_file else None,
            stack=evaluation.stack,
        )
        yield from self._own_finding("HF905", finding)

    def _own_finding(self, id_: str, finding: Finding) -> Iterator[LocatedFinding]:
        rule = self._rules.get(id_)
        return self._reported(Evaluation(rule=rule), finding) if rule is not None else iter(())

    def _reported(self, evaluation: Evaluation, finding: Finding) -> Iterator[LocatedFinding]:
        """Nothing if its rule is off."""
        rule, path = evaluation.rule, finding.place.file if finding.place is not None else None
        finding = self._at_target(finding)
        place = finding.place
        line = place.line if place is not None else None
        severity = severity_of(
            self._settings,
            rule,
            own=finding.severity,
            file=path,
            environments=self._environments(evaluation, finding),
        )
        if severity is None:
            return
        stack = finding.stack or evaluation.stack
        reported = ReportedFinding(
            rule=rule,
            severity=severity,
            message=finding.message,
            hint=finding.hint or rule.fix or None,
            file=place.file if place is not None else None,
            line=line,
            column=place.column if place is not None else None,
            end_line=finding.end_line or line,
            stack=stack,
            address=finding.address,
            stacks=(finding.stack,) if finding.stack else tuple(stack_.name for stack_ in evaluation.stacks),
            id=finding_id(rule.id, finding, stack),
            paths=(path,) if path is not None else (),
            group=finding.group,
        )
        yield path, reported

    def _environments(self, evaluation: Evaluation, finding: Finding | None = None) -> tuple[str | None, ...]:
        named = self._stacks.get((finding.stack if finding is not None else None) or "")
        stacks = (named,) if named is not None else evaluation.stacks
        return tuple(stack.stack.environment for stack in stacks)

    def _source(self, finding: ReportedFinding) -> str | None:
        # A link may lead to a file outside the repository, which must not be shown.
        file, line = finding.file, finding.line
        if file is None or line is None or self._checkout.code.tree.real(file) is None:
            return None
        return self._secrets.display_line(file, self._checkout.lines(file), line)

    # Waivers.

    def _line_waivers(self, files: Iterable[str | None]) -> tuple[list[LineWaiver], list[InvalidWaiver]]:
        code = (file.path for module in self._checkout.modules for file in module.files)
        variables = (file.path for file in self._checkout.variables_files)
        lines: list[LineWaiver] = []
        invalid: list[InvalidWaiver] = []
        for path in dict.fromkeys(self._target(path) for path in (*code, *variables, *files) if path):
            content = self._checkout.content(path)
            if content is None or _MARK not in content:
                continue
            for waiver in read_waivers(path, self._checkout.lines(path), self._ids):
                if isinstance(waiver, LineWaiver):
                    lines.append(waiver)
                else:
                    invalid.append(waiver)
        return lines, invalid

    def _apply_waivers(
        self, path: str | None, finding: ReportedFinding, by_file: Mapping[str | None, Sequence[LineWaiver]]
    ) -> ReportedFinding:
        lines, today = by_file.get(finding.file, ()), self._checkout.today
        waiver = waiver_for(finding, path, lines, self._settings.waivers, today)
        if waiver is None:
            return finding
        self._used_waivers.add(id(waiver))
        return replace(finding, waiver=_waiver_of(waiver))

    def _waiver_findings(
        self, lines: Sequence[LineWaiver], invalid: Sequence[InvalidWaiver]
    ) -> Iterator[LocatedFinding]:
        for problem in invalid:
            if not problem.removed:
                message = f"invalid waiver: {problem.message}"
                yield from self._own_finding("HF903", Finding(message=message, place=problem.place))
        every: tuple[AnyWaiver, ...] = (*lines, *self._settings.waivers)
        for entry in every:
            waiver = _waiver_of(entry)
            about = f"the waiver for {waiver.rule} ({waiver.reason})"
            if catalogue.removal_note(waiver.rule) is not None:
                continue
            if is_expired(waiver, self._checkout.today):
                message = f"{about} expired on {waiver.until}"
                yield from self._own_finding("HF901", Finding(message=message, place=waiver.place))
            elif id(entry) not in self._used_waivers and self._is_covered(entry):
                message = f"{about} has no effect"
                yield from self._own_finding("HF902", Finding(message=message, place=waiver.place))

    def _is_covered(self, waiver: AnyWaiver) -> bool:
        """Whether the waiver's rule was evaluated on everything that the waiver covers."""
        if isinstance(waiver, LineWaiver):
            return self._is_file_covered(waiver.waiver.rule.upper(), waiver.file)
        rule, coverage = waiver.rule.upper(), self._coverage
        if not self._checkout.whole or (waiver.stack is not None and not coverage.is_fully_evaluated(rule)):
            return False
        if waiver.path is None:
            return coverage.is_fully_evaluated(rule)
        files = [file for file in coverage.files_of(rule) if is_path(waiver.path, file)]
        covered = all(self._is_file_covered(rule, file) for file in files)
        return bool(files) and coverage.is_history_evaluated(rule) and covered

    def _is_file_covered(self, rule: str, file: str) -> bool:
        known = self._rules.get(rule)
        return (
            known is not None
            and self._coverage.is_evaluated(rule, file)
            and severity_of(self._settings, known, file=file) is not None
            and file.rpartition("/")[0] not in self._used_elsewhere
        )

    @functools.cached_property
    def _used_elsewhere(self) -> frozenset[str]:
        """Folders of stacks that were not selected, which may still need a waiver."""
        others = (stack for stack in self._checkout.all_stacks if stack.name not in self._stacks)
        return frozenset(
            "" if folder == "." else folder
            for stack in others
            for folder in CheckedStack(checkout=self._checkout, stack=stack).folders
        )

    def _unknown_rules(self, invalid: Sequence[InvalidWaiver]) -> Iterator[LocatedFinding]:
        """Ids in settings and waivers that name no rule; a removed rule is only a note."""
        settings = self._settings
        levels_and_waivers: tuple[RuleLevel | ConfigWaiver, ...] = (
            *settings.rules,
            *(level for levels in settings.environments.values() for level in levels),
            *(level for path in settings.paths for level in path.rules),
            *settings.waivers,
        )
        unknown = [(waiver.message, waiver.place, Severity.NOTE) for waiver in invalid if waiver.removed]
        for entry in levels_and_waivers:
            note = catalogue.removal_note(entry.rule)
            if note is not None:
                unknown.append((note, entry.place, Severity.NOTE))
            elif is_unknown(entry.rule, self._ids):
                unknown.append((f"there is no rule `{entry.rule}`", entry.place, Severity.WARNING))
        for message, place, severity in unknown:
            yield from self._own_finding("HF907", Finding(message=message, place=place, severity=severity))


def _waiver_of(waiver: AnyWaiver) -> Waiver:
    return waiver.waiver if isinstance(waiver, LineWaiver) else from_config(waiver)


def one_per_broken_file(findings: Sequence[LocatedFinding]) -> list[LocatedFinding]:
    """What cannot be read is reported once; what the rules about code make of its remains is not reported.

    Secrets in it are.
    """
    undiscovered = {finding.file for _, finding in findings if finding.rule.id == "HF906"}
    broken = {finding.file for _, finding in findings if finding.rule.id == "HF904" and not finding.address}

    def counts(finding: ReportedFinding) -> bool:
        if finding.rule.id == "HF904" and not finding.address:
            return finding.file not in undiscovered
        rule = finding.rule
        about_code = rule.source is not None or rule.variables is not None or rule.stack is not None
        return finding.file not in broken or not about_code or rule.secret or rule.id.startswith("HF9")

    return [(path, finding) for path, finding in findings if counts(finding)]


def merge_findings(findings: Iterable[ReportedFinding]) -> Iterator[ReportedFinding]:
    """Merges what several stacks show of one line; the highest severity counts."""
    merged: dict[tuple[object, ...], ReportedFinding] = {}
    for number, finding in enumerate(findings):
        key = (finding.id, finding.active, finding.waived, number if finding.file is None else None)
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        else:
            merged[key] = replace(
                first,
                severity=min(first.severity, finding.severity, key=lambda severity: severity.rank),
                stack=finding.stack if finding.stack == first.stack else None,
                stacks=tuple(dict.fromkeys((*first.stacks, *finding.stacks))),
                paths=tuple(dict.fromkeys((*first.paths, *finding.paths))),
            )
    return iter(merged.values())
