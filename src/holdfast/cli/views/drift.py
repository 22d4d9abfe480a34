"""What drift checks print: what drifted first, and what could not be looked at is never left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from holdfast.cli.console import Console
from holdfast.drift.alerts import finding_text
from holdfast.drift.report import SIGNS, headline, hints, summary_text
from holdfast.drift.result import DriftResult
from holdfast.kernel.text import plural
from holdfast.store.drift import Finding, FindingState, StackDrift, StackStatus
from holdfast.system import clock

_STYLES = {
    StackStatus.DRIFTED: "yellow",
    StackStatus.UNAPPLIED: "cyan",
    StackStatus.IN_SYNC: "green",
    StackStatus.NOT_CHECKED: "bold red",
}
_ORDER = tuple(_STYLES)
_MOST_FINDINGS = 12
_MOST_PERIODS = 5
_MOST_IN_SYNC = 20


def show_results(console: Console, results: Sequence[DriftResult], *, verbose: bool) -> None:
    width = min(max((len(result.stack.name) for result in results), default=0), 40)
    ordered = sorted(results, key=lambda result: _ORDER.index(result.status))
    in_sync = 0
    for result in ordered:
        plain = result.status is StackStatus.IN_SYNC and not list(hints(result))
        in_sync += plain
        if plain and in_sync > _MOST_IN_SYNC and not verbose:
            continue
        _show_stack(console, result, width, verbose=verbose)
    if in_sync > _MOST_IN_SYNC and not verbose:
        console.line((f"   … {in_sync - _MOST_IN_SYNC} more in sync: --verbose", "dim"))
    console.line(f" {summary_text(results) or 'no stacks'}")
    if any(finding.active for result in results for finding in result.known.findings):
        console.say(" Known and accepted: holdfast drift --acknowledge ID --reason TEXT")


def _show_stack(console: Console, result: DriftResult, width: int, *, verbose: bool) -> None:
    style = _STYLES[result.status]
    since = _since(result.known.open)
    console.line(
        (f" {SIGNS[result.status]} ", style),
        f"{result.stack.name:<{width}}  {headline(result)}",
        (since, "dim"),
    )
    for finding in result.known.open if verbose else result.known.open[:_MOST_FINDINGS]:
        console.line(f"      {finding_text(finding)}", (f"   {_label(finding)}", "dim"))
    more = 0 if verbose else len(result.known.open) - _MOST_FINDINGS
    if more > 0:
        console.line((f"      … {more} more: holdfast drift {result.stack.name} --verbose", "dim"))
    error = result.found.error
    if error is not None and result.status is not StackStatus.NOT_CHECKED:
        console.line(("      ! ", "yellow"), error.message)
    if error is not None and error.hint:
        console.line((f"      {error.hint}", "dim"))
    for hint in hints(result):
        console.line(("      ! ", "yellow"), hint)
    if result.healing is not None and not result.not_healed:
        console.line(("      ✓ ", "green"), f"healed by run {result.healing.run}")
    _show_not_looked_at(console, result, verbose=verbose)
    if result.found.ignored:
        count = plural(len(result.found.ignored), "difference")
        console.line((f"      {count} ignored by rules", "dim"))


def _show_not_looked_at(console: Console, result: DriftResult, *, verbose: bool) -> None:
    rows = result.found.not_looked_at
    if not rows:
        return
    if not verbose:
        text = f"      not looked at: {plural(len(rows), 'resource')} in part or whole (--verbose lists them)"
        console.line((text, "dim"))
        return
    for row in rows:
        what = f" {', '.join(row.attributes)}" if row.attributes else ""
        console.line((f"      not looked at: {row.address}{what}: {row.reason}", "dim"))


def _label(finding: Finding) -> str:
    if finding.state is FindingState.ACKNOWLEDGED and finding.acknowledged is not None:
        return f"{finding.id}  acknowledged by {finding.acknowledged.by}: {finding.acknowledged.reason}"
    return f"{finding.id}  {finding.state.value.replace('_', ' ')}"


def _since(findings: Iterable[Finding]) -> str:
    first = min((finding.first_seen for finding in findings), default=None)
    return f"   since {_moment(first)}" if first is not None else ""


def show_history(console: Console, known: Sequence[StackDrift]) -> None:
    for stack in known:
        console.line(
            f" {stack.stack}: {stack.status.value.replace('_', ' ')}, last looked at {_moment(stack.checked)}"
        )
        for period in reversed(stack.periods[-_MOST_PERIODS:]):
            until = _moment(period.until) if period.until is not None else "now"
            length = _length((period.until or clock.now()) - period.since)
            status = period.status.value.replace("_", " ")
            console.line(f"   {status:<12} {_moment(period.since)} to {until} ({length})")
        for finding in stack.findings:
            length = _length((finding.since if finding.state.ended else clock.now()) - finding.first_seen)
            console.line(f"     {finding_text(finding)}", (f"   {_label(finding)}, {length}", "dim"))
    if not known:
        console.line(" Nothing was looked at yet: holdfast drift")


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment.astimezone():%a %Y-%m-%d %H:%M}"


def _length(length: timedelta) -> str:
    minutes = int(length.total_seconds()) // 60
    if minutes < 60:  # noqa: PLR2004 - minutes of an hour
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"  # noqa: PLR2004
