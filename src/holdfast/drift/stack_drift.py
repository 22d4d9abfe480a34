"""What is known of a stack after a check that worked, or one that did not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from msgspec import structs

from holdfast.drift.authors import with_authors
from holdfast.drift.lifecycle import next_findings
from holdfast.drift.observation import Observation
from holdfast.store.drift import Author, Finding, Period, StackDrift, StackStatus

_MOST_PERIODS: Final = 200


def checked(
    known: StackDrift | None,
    stack: str,
    environment: str,
    salt: str,
    now: datetime,
    *,
    observed: Iterable[Observation],
    unapplied: bool | None,
    new_id: Callable[[], str],
    authors: Mapping[str, Author] | None = None,
) -> StackDrift:
    """`unapplied` is None if the code could not be compared."""
    before = known or StackDrift(stack=stack, salt=salt)
    if before.checked is not None and before.checked > now:
        return before  # Another check, which began later, was faster.
    findings = with_authors(next_findings(before.findings, observed, now, new_id=new_id), authors or {})
    status = status_of(findings, unapplied=unapplied)
    return structs.replace(
        before,
        environment=environment,
        status=status,
        unapplied=bool(unapplied),
        checked=now,
        tried=now,
        findings=findings,
        periods=_periods(before.periods, status, now),
    )


def failed(known: StackDrift | None, stack: str, environment: str, salt: str, now: datetime) -> StackDrift:
    """It could not be looked at: it keeps its findings, and is not reported as fine."""
    before = known or StackDrift(stack=stack, salt=salt)
    status = StackStatus.NOT_CHECKED
    return structs.replace(
        before,
        environment=environment,
        status=status,
        tried=now,
        periods=_periods(before.periods, status, now),
    )


def status_of(findings: Iterable[Finding], *, unapplied: bool | None) -> StackStatus:
    """Drift takes precedence; also drift that a person knows of is drift."""
    if any(not finding.state.ended for finding in findings):
        return StackStatus.DRIFTED
    if unapplied is None:
        return StackStatus.NOT_CHECKED
    return StackStatus.UNAPPLIED if unapplied else StackStatus.IN_SYNC


def _periods(periods: tuple[Period, ...], status: StackStatus, now: datetime) -> tuple[Period, ...]:
    if periods and periods[-1].status is status:
        return periods
    ended = tuple(
        structs.replace(period, until=now) if period.until is None else period for period in periods
    )
    return (*ended, Period(status=status, since=now))[-_MOST_PERIODS:]
