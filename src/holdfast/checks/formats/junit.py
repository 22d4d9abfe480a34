"""JUnit XML, for CI systems: one test case per rule, which fails when the command does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from holdfast.checks.formats.interface import FormatInput, place_text
from holdfast.checks.model.report import ReportedFinding
from holdfast.system.markup import one_line

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)


def render(inputs: FormatInput) -> str:
    cases = list(_cases(inputs))
    failed = sum(bool(case.failures) for case in cases)
    skipped = sum(not case.failures and bool(case.reasons) for case in cases)
    head = f'name="holdfast check" tests="{len(cases)}" failures="{failed}" errors="0" skipped="{skipped}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {head}>"]
    lines.append(f'  <testsuite {head} time="{inputs.seconds or 0:.3f}">')
    for case in cases:
        lines += _case(case)
    lines += ["  </testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


class _Case(Struct, frozen=True, kw_only=True):
    rule: str
    title: str
    failures: list[ReportedFinding]
    others: list[ReportedFinding]
    """Findings that do not fail the command."""
    reasons: list[str]
    """Why the rule was not fully evaluated."""


def _cases(inputs: FormatInput) -> Iterator[_Case]:
    """Every rule that was evaluated, and rules of external tools with findings or skips."""
    report = inputs.report
    titles = dict.fromkeys((finding.rule for finding in report.skipped), "")
    titles.update((finding.rule.id, finding.rule.title) for finding in report.findings)
    titles.update((rule.id, rule.title) for rule in report.rules)
    for id_ in sorted(titles):
        findings = [finding for finding in report.active if finding.rule.id == id_]
        yield _Case(
            rule=id_,
            title=titles[id_],
            failures=[finding for finding in findings if finding.severity.is_at_least(inputs.fail_on)],
            others=[finding for finding in findings if not finding.severity.is_at_least(inputs.fail_on)],
            reasons=[finding.reason for finding in report.skipped if finding.rule == id_],
        )


def _case(case: _Case) -> Iterator[str]:
    failures = case.failures
    name = f"name={_quote(f'{case.rule} {case.title}')} classname={_quote(f'holdfast.{case.rule}')}"
    yield f"    <testcase {name}>"
    if failures:
        first = (
            f"{len(failures)} findings: {failures[0].message}" if len(failures) > 1 else failures[0].message
        )
        body = "\n".join(map(_line, failures))
        kind = _quote(failures[0].severity)
        yield f"      <failure message={_quote(first)} type={kind}>{_text(body)}</failure>"
    elif case.reasons:
        yield f"      <skipped message={_quote('; '.join(dict.fromkeys(case.reasons)))}/>"
    output = [*map(_line, case.others), *(f"not fully evaluated: {reason}" for reason in case.reasons)]
    if output:
        yield f"      <system-out>{_text(chr(10).join(map(one_line, output)))}</system-out>"
    yield "    </testcase>"


def _line(finding: ReportedFinding) -> str:
    about = f" ({finding.address})" if finding.address else ""
    hint = f"  {finding.hint}" if finding.hint else ""
    return one_line(f"{place_text(finding)}: {finding.severity}: {finding.message}{about}{hint}")


def _quote(text: str) -> str:
    return quoteattr(_replace_forbidden(one_line(text, 500))).replace("##[", "##&#91;")


def _text(text: str) -> str:
    """Without lines that GitHub Actions would take for commands."""
    return _COMMAND.sub(r"\1&#58;", escape(_replace_forbidden(text)).replace("##[", "##&#91;"))


def _replace_forbidden(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
