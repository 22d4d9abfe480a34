"""The alert of a stack that drifted: raised once, again when it changes, and closed when it is over. Pure."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any, Final

from msgspec import structs

from holdfast.drift.lifecycle import does_not_hold
from holdfast.kernel.text import cut, plural
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.store.drift import Finding, StackDrift, StackStatus
from holdfast.system.markup import one_line
from holdfast.terraform.plan.value_text import value_text

_MOST_DETAILS: Final = 10
_WIDEST: Final = 60


def due_alert(known: StackDrift, now: datetime, **about: Any) -> Alert | None:
    """What people have not been told yet. A stack that could not be looked at has no news.

    `about`: what else is known of the stack, as fields of the alert.
    """
    if known.status is StackStatus.NOT_CHECKED and known.checked != known.tried:
        return None
    digest = alert_digest(known)
    if digest == known.alerted:
        return None
    key = f"drift:{known.stack}"
    since = known.alert_since or min((finding.first_seen for finding in known.active), default=now)
    common: dict[str, Any] = {"kind": AlertKind.DRIFT, "key": key, "since": since, "stack": known.stack}
    common |= {"environment": known.environment or None} | about
    if digest is None:
        waits = known.open
        title = (
            f"{known.stack}: the drift was acknowledged by {_by(waits)}"
            if waits
            else f"{known.stack}: the drift is gone"
        )
        return Alert(resolved=True, severity=Severity.INFO, title=title, **common)
    stuck = [finding for finding in known.active if does_not_hold(finding)]
    resources = {finding.address for finding in known.active}
    title = f"{known.stack}: {plural(len(resources), 'resource')} changed outside Terraform"
    if stuck:
        title += "; healing did not hold and has stopped"
    lines = [finding_text(finding) for finding in known.active]
    more = len(lines) - _MOST_DETAILS
    details = (*lines[:_MOST_DETAILS], *((f"… and {more} more",) if more > 0 else ()))
    return Alert(
        severity=Severity.ERROR if stuck else Severity.WARNING,
        title=title,
        details=details,
        next_step=f"holdfast drift {known.stack}",
        **common,
    )


def alert_digest(known: StackDrift) -> str | None:
    """Of what the alert says, except how long it lasts; None: there is nothing to say."""
    if not known.active:
        return None
    parts = sorted(f"{f.id} {f.fingerprint} {does_not_hold(f)}" for f in known.active)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def with_alert(known: StackDrift, digest: str | None, now: datetime) -> StackDrift:
    """People have been told."""
    since = None if digest is None else known.alert_since or now
    return structs.replace(known, alerted=digest, alert_since=since)


def finding_text(finding: Finding) -> str:
    if finding.attribute is None:
        text = f"{finding.address} was deleted"
    elif finding.sensitive:
        text = f"{finding.address} {finding.attribute} (sensitive, changed)"
    else:
        text = f"{finding.address} {finding.attribute} {_value(finding.before)} → {_value(finding.after)}"
    by = f", by {finding.author.who} ({finding.author.source})" if finding.author is not None else ""
    return one_line(text + by)


def _value(value: Any) -> str:
    return cut(value_text(value), _WIDEST)


def _by(findings: tuple[Finding, ...]) -> str:
    given = (finding.acknowledged for finding in findings)
    return ", ".join(dict.fromkeys(one.by for one in given if one is not None))
