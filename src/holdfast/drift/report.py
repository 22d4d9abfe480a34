"""The result of a check as a document, as Markdown and as metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from holdfast.drift.alerts import finding_text
from holdfast.drift.lifecycle import does_not_hold
from holdfast.drift.result import DriftResult, details_of
from holdfast.kernel.errors import Exit, most_severe
from holdfast.kernel.text import plural
from holdfast.plans.status import Status
from holdfast.store.drift import Finding, Period, StackDrift, StackStatus
from holdfast.system.markup import cell, prose

SIGNS: Final = {
    StackStatus.DRIFTED: "≠",
    StackStatus.UNAPPLIED: "~",
    StackStatus.IN_SYNC: "=",
    StackStatus.NOT_CHECKED: "?",
}
_MOST_LINES: Final = 20


def exit_of(results: Iterable[DriftResult]) -> Exit:
    """1 if anything could not be looked at, else 2 if anything drifted."""
    return most_severe([exit_ for result in results for exit_ in _exits(result)])


def _exits(result: DriftResult) -> Iterable[Exit]:
    if result.found.error is not None or result.status is StackStatus.NOT_CHECKED:
        yield Exit.FAILED
    if result.status is StackStatus.DRIFTED:
        yield Exit.CHANGES
    if result.healing is not None and result.healing.status in {Status.FAILED, Status.UNKNOWN}:
        yield result.healing.status.exit


def shown_findings(result: DriftResult) -> tuple[Finding, ...]:
    """Those that are open, and those that ended with this check."""
    started = result.before.tried if result.before is not None else None
    return tuple(
        finding
        for finding in result.known.findings
        if not finding.state.ended or started is None or finding.since > started
    )


def drift_document(results: Sequence[DriftResult]) -> dict[str, Any]:
    counts = Counter(result.status for result in results)
    return {
        "version": 1,
        "stacks": [stack_document(result) for result in results],
        "summary": {status.value: counts[status] for status in StackStatus},
    }


def stack_document(result: DriftResult) -> dict[str, Any]:
    healing = result.healing
    return {
        "name": result.stack.name,
        "environment": result.stack.environment,
        "production": result.stack.production,
        "status": result.status.value,
        "unapplied": result.known.unapplied,
        "checked": time_text(result.known.checked),
        "findings": [finding_document(finding) for finding in shown_findings(result)],
        **details_of(result.found),
        "healing": None
        if healing is None and not result.not_healed
        else {
            "status": healing.status.value if healing is not None else None,
            "run": healing.run if healing is not None else None,
            "reasons": list(result.not_healed),
        },
        "duration_ms": round(result.duration * 1000),
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    given, author = finding.acknowledged, finding.author
    return {
        "id": finding.id,
        "address": finding.address,
        "attribute": finding.attribute,
        "before": None if finding.sensitive else finding.before,
        "after": None if finding.sensitive else finding.after,
        "sensitive": finding.sensitive,
        "first_seen": time_text(finding.first_seen),
        "last_seen": time_text(finding.last_seen),
        "state": finding.state.value,
        "since": time_text(finding.since),
        "acknowledged": {
            "by": given.by,
            "at": time_text(given.at),
            "reason": given.reason,
            "until": time_text(given.until),
        }
        if given is not None
        else None,
        "changed_by": {
            "who": author.who,
            "at": time_text(author.at),
            "event": author.event,
            "source": author.source,
        }
        if author is not None
        else None,
        "healings": len(finding.healings),
        "opened": finding.opened,
    }


def history_document(stacks: Iterable[StackDrift]) -> dict[str, Any]:
    return {
        "version": 1,
        "stacks": [
            {
                "name": known.stack,
                "environment": known.environment or None,
                "status": known.status.value,
                "unapplied": known.unapplied,
                "checked": time_text(known.checked),
                "findings": [finding_document(finding) for finding in known.findings],
                "periods": [_period_document(period) for period in known.periods],
            }
            for known in stacks
        ],
    }


def _period_document(period: Period) -> dict[str, Any]:
    return {"status": period.status.value, "since": time_text(period.since), "until": time_text(period.until)}


def time_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


# Words


def headline(result: DriftResult) -> str:
    """What is said of a stack in one line, after its name."""
    found = result.found
    if result.status is StackStatus.DRIFTED:
        resources = {finding.address for finding in result.known.open}
        text = f"{plural(len(resources), 'resource')} changed outside Terraform"
        acknowledged = len(result.known.open) - len(result.known.active)
        if acknowledged:
            text += f" ({plural(acknowledged, 'finding')} acknowledged)"
        if result.known.unapplied:
            text += f"; {_changes(result)} in the code not applied"
        return text
    if result.status is StackStatus.NOT_CHECKED:
        return f"could not look: {found.error.message if found.error is not None else 'no reason is known'}"
    text = "in sync" if not found.not_looked_at else "in sync as far as its providers look"
    if result.status is StackStatus.UNAPPLIED:
        text += f"; {_changes(result)} in the code not applied"
    return text


def _changes(result: DriftResult) -> str:
    """Changes of outputs alone count as one."""
    return plural(max(1, sum(result.found.changes.document().values())), "change")


def summary_text(results: Sequence[DriftResult]) -> str:
    counts = Counter(result.status for result in results)
    parts = (
        (StackStatus.DRIFTED, "drifted"),
        (StackStatus.UNAPPLIED, "with unapplied code"),
        (StackStatus.NOT_CHECKED, "could not be looked at"),
        (StackStatus.IN_SYNC, "in sync"),
    )
    return ", ".join(f"{counts[status]} {text}" for status, text in parts if counts[status])


def hints(result: DriftResult) -> Iterable[str]:
    """What people read below a stack."""
    yield from result.found.expired
    yield from result.found.notes
    yield from (f"not healed: {reason}" for reason in result.not_healed)
    stuck = [finding for finding in result.known.active if does_not_hold(finding)]
    if stuck:
        yield f"healing has stopped: acknowledge it, or find out what changes {stuck[0].address}"


def markdown(results: Sequence[DriftResult]) -> str:
    """For a summary of a job or an issue."""
    lines = [f"### Drift: {prose(summary_text(results) or 'no stacks')}", ""]
    lines += ["| | stack | |", "|---|---|---|"]
    lines += [
        f"| {SIGNS[result.status]} | {cell(result.stack.name)} | {prose(headline(result))} |"
        for result in results
        if result.status is not StackStatus.IN_SYNC
    ]
    for result in results:
        if not result.known.open:
            continue
        lines += ["", f"#### {prose(result.stack.name)}", ""]
        texts = [finding_text(finding) for finding in result.known.open]
        lines += [f"- {prose(text)}" for text in texts[:_MOST_LINES]]
        if len(texts) > _MOST_LINES:
            lines.append(f"- … and {len(texts) - _MOST_LINES} more: `holdfast drift --json`")
    return "\n".join(lines) + "\n"


def metrics(results: Sequence[DriftResult]) -> str:
    """In the text format of Prometheus, for a pushgateway or the node exporter."""
    counts = Counter(result.status for result in results)
    lines = [
        "# HELP holdfast_drift_stacks Stacks by what the last check found.",
        "# TYPE holdfast_drift_stacks gauge",
        *(f'holdfast_drift_stacks{{status="{status.value}"}} {counts[status]}' for status in StackStatus),
        "# HELP holdfast_drift_findings Findings that are open, by stack.",
        "# TYPE holdfast_drift_findings gauge",
        *(
            f'holdfast_drift_findings{{stack="{_label(result.stack.name)}"}} {len(result.known.open)}'
            for result in results
        ),
    ]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
