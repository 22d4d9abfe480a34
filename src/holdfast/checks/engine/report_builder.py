"""Builds the report: severities, waivers, and findings about the waivers themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.coverage import Asked, Coverage
from holdfast.checks.engine.levels import severity_of
from holdfast.checks.engine.source_lines import SecretLines
from holdfast.checks.engine.waivers import (
    MARK,
    Broken,
    LineWaiver,
    from_config,
    is_expired,
    is_unknown,
    read_waivers,
    waiver_for,
)
from holdfast.checks.model.globs import is_path
from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.checks.model.report import Report, Reported, Waiver, finding_id, sort_findings
from holdfast.checks.model.subjects import CheckedStack, Checkout
from holdfast.config.checks import ConfigWaiver
from holdfast.kernel.errors import Place

_MARK = MARK.encode()
_FIRST = tuple(Severity)


def build_report(
    checkout: Checkout,
    asked: Sequence[Rule],
    rules: Mapping[str, Rule],
    ledger: Coverage,
    *,
    waivers: bool = True,
) -> Report:
    """`asked` are the enabled rules, `rules` all of them.

    `waivers`: findings about waivers and settings belong in this report.
    """
    return _ReportBuilder(checkout, rules, ledger).report(asked, waivers=waivers)


class _ReportBuilder:
    def __init__(self, checkout: Checkout, rules: Mapping[str, Rule], ledger: Coverage) -> None:
        self._checkout = checkout
        self._settings = checkout.config.checks
        self._rules = rules
        self._ids = frozenset((*rules, *catalogue.ids()))
        self._ledger = ledger
        self._secrets = SecretLines((asked.rule, one) for asked, one in ledger.found if not asked.past)
        self._stacks = {stack.name: stack for stack in checkout.stacks}
        self._used: set[int] = set()
        self._elsewhere: frozenset[str] | None = None

    def report(self, asked: Sequence[Rule], *, waivers: bool) -> Report:
        plain = list(self._reported())
        lines, broken = self._line_waivers(one.file for one in plain)
        # A waiver may be for one stack only, so it applies before findings of several stacks are merged.
        findings = list(merge_findings(self._waived(one, lines) for one in plain))
        if waivers:
            findings += self._about_waivers(lines, broken)
            findings += self._unknown_rules(broken)
        shown = tuple(replace(one, source=self._source(one)) for one in sort_findings(findings))
        files = {file.path for module in self._checkout.modules for file in module.files}
        files.update(file.path for file in self._checkout.variables_files)
        return Report(
            findings=shown,
            skipped=tuple(self._ledger.skipped),
            rules=tuple(asked),
            files=len(files),
            stacks=len(self._checkout.stacks),
            modules=len(self._checkout.modules),
        )

    # Findings of the rules.

    def _reported(self) -> Iterator[Reported]:
        for asked, finding in self._ledger.found:
            made = self._make(asked, finding)
            if made is not None:
                yield made
        for asked, how in self._ledger.broken:
            place = Place(file=asked.files[0]) if asked.files and not asked.whole else None
            message = f"{asked.rule.id} crashed here: {how}"
            made = self._own("HF905", Finding(message=message, place=place, stack=asked.stack))
            if made is not None:
                yield made

    def _own(self, id_: str, finding: Finding) -> Reported | None:
        rule = self._rules.get(id_)
        return self._make(Asked(rule=rule), finding) if rule is not None else None

    def _make(self, asked: Asked, finding: Finding) -> Reported | None:
        """None if its rule is off."""
        rule, place = asked.rule, finding.place
        file = place.file if place is not None else None
        severity = severity_of(
            self._settings,
            rule,
            own=finding.severity,
            file=file,
            environments=self._environments(asked, finding),
        )
        if severity is None:
            return None
        return Reported(
            rule=rule,
            severity=severity,
            message=finding.message,
            hint=finding.hint or rule.fix or None,
            file=file,
            line=place.line if place is not None else None,
            column=place.column if place is not None else None,
            end_line=finding.end_line or (place.line if place is not None else None),
            stack=finding.stack or asked.stack,
            address=finding.address,
            stacks=(finding.stack,) if finding.stack else tuple(one.name for one in asked.stacks),
            id=finding_id(rule.id, finding, finding.stack or asked.stack),
        )

    def _environments(self, asked: Asked, finding: Finding) -> tuple[str | None, ...]:
        named = self._stacks.get(finding.stack or "")
        stacks = (named,) if named is not None else asked.stacks
        return tuple(stack.stack.environment for stack in stacks)

    def _source(self, one: Reported) -> str | None:
        # A link may lead to a file outside the repository, which must not be shown.
        if one.file is None or one.line is None or self._checkout.code.tree.real(one.file) is None:
            return None
        return self._secrets.display_line(one.file, self._checkout.lines(one.file), one.line)

    # Waivers.

    def _line_waivers(self, found: Iterable[str | None]) -> tuple[list[LineWaiver], list[Broken]]:
        looked = (file.path for module in self._checkout.modules for file in module.files)
        given = (file.path for file in self._checkout.variables_files)
        lines: list[LineWaiver] = []
        broken: list[Broken] = []
        for path in dict.fromkeys((*looked, *given, *found)):
            content = self._checkout.content(path) if path is not None else None
            if path is None or content is None or _MARK not in content:
                continue
            for one in read_waivers(path, self._checkout.lines(path), self._ids):
                if isinstance(one, LineWaiver):
                    lines.append(one)
                else:
                    broken.append(one)
        return lines, broken

    def _waived(self, one: Reported, lines: Sequence[LineWaiver]) -> Reported:
        found = waiver_for(one, lines, self._settings.waivers, self._checkout.today)
        if found is None:
            return one
        self._used.add(id(found))
        waiver = found.waiver if isinstance(found, LineWaiver) else from_config(found)
        return replace(one, waiver=waiver)

    def _about_waivers(self, lines: Sequence[LineWaiver], broken: Sequence[Broken]) -> Iterator[Reported]:
        today = self._checkout.today
        found: list[tuple[str, str, Place]] = [
            ("HF903", f"invalid waiver: {one.message}", one.place) for one in broken if not one.removed
        ]
        every: tuple[LineWaiver | ConfigWaiver, ...] = (*lines, *self._settings.waivers)
        for one in every:
            waiver = one.waiver if isinstance(one, LineWaiver) else from_config(one)
            if catalogue.removal_note(waiver.rule) is not None:
                continue
            if is_expired(waiver, today):
                found.append(
                    (
                        "HF901",
                        f"the waiver for {_waiver_text(waiver)} expired on {waiver.until}",
                        waiver.place,
                    )
                )
            elif id(one) not in self._used and self._looked(one):
                found.append(("HF902", f"the waiver for {_waiver_text(waiver)} has no effect", waiver.place))
        for id_, message, place in found:
            made = self._own(id_, Finding(message=message, place=place))
            if made is not None:
                yield made

    def _looked(self, one: LineWaiver | ConfigWaiver) -> bool:
        """Whether the waiver's rule was evaluated on everything that the waiver covers."""
        if isinstance(one, LineWaiver):
            return self._saw(one.waiver.rule.upper(), one.file)
        rule = one.rule.upper()
        if not self._checkout.whole or (one.stack is not None and not self._ledger.is_fully_evaluated(rule)):
            return False
        if one.path is None:
            return self._ledger.is_fully_evaluated(rule)
        files = [file for file in self._ledger.files_of(rule) if is_path(one.path, file)]
        return (
            bool(files)
            and self._ledger.is_history_evaluated(rule)
            and all(self._saw(rule, file) for file in files)
        )

    def _saw(self, rule: str, file: str) -> bool:
        known = self._rules.get(rule)
        return (
            known is not None
            and self._ledger.is_evaluated(rule, file)
            and severity_of(self._settings, known, file=file) is not None
            and file.rpartition("/")[0] not in self._used_elsewhere()
        )

    def _used_elsewhere(self) -> frozenset[str]:
        """Folders of stacks that were not selected, which may still need a waiver."""
        if self._elsewhere is None:
            others = (stack for stack in self._checkout.all_stacks if stack.name not in self._stacks)
            self._elsewhere = frozenset(
                "" if folder == "." else folder
                for stack in others
                for folder in CheckedStack(checkout=self._checkout, stack=stack).folders
            )
        return self._elsewhere

    def _unknown_rules(self, broken: Sequence[Broken]) -> Iterator[Reported]:
        """Ids in settings and waivers that name no rule; a removed rule is only a note."""
        settings = self._settings
        levels = (
            *settings.rules,
            *(one for levels in settings.environments.values() for one in levels),
            *(one for path in settings.paths for one in path.rules),
        )
        named = [(one.rule, one.place) for one in levels]
        named += [(one.rule, one.place) for one in settings.waivers]
        found = [(one.message, one.place, Severity.NOTE) for one in broken if one.removed]
        for name, place in named:
            note = catalogue.removal_note(name)
            if note is not None:
                found.append((note, place, Severity.NOTE))
            elif is_unknown(name, self._ids):
                found.append((f"there is no rule `{name}`", place, Severity.WARNING))
        for message, place, severity in found:
            made = self._own("HF907", Finding(message=message, place=place, severity=severity))
            if made is not None:
                yield made


def _waiver_text(waiver: Waiver) -> str:
    return f"{waiver.rule} ({waiver.reason})"


def merge_findings(findings: Iterable[Reported]) -> Iterator[Reported]:
    """Merges what several stacks show of one line; the highest severity counts."""
    found: dict[tuple[object, ...], Reported] = {}
    for number, one in enumerate(findings):
        key = (one.id, one.waived, number if one.file is None else None)
        before = found.get(key)
        if before is not None:
            severity = min(before.severity, one.severity, key=_FIRST.index)
            stack = one.stack if one.stack == before.stack else None
            stacks = tuple(dict.fromkeys((*before.stacks, *one.stacks)))
            one = replace(before, severity=severity, stack=stack, stacks=stacks)  # noqa: PLW2901 - one now
        found[key] = one
    return iter(found.values())
