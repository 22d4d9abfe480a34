"""A person knows of a finding: it raises no alert and is not healed, until it changes or a day ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from holdfast.audit.entry import Entry
from holdfast.drift.lifecycle import acknowledge as acknowledged
from holdfast.kernel.errors import UsageError
from holdfast.plans.context import Identity
from holdfast.secrets.redact import Redactor
from holdfast.store.drift import Acknowledgement, Finding, StackDrift
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.system.environment import Environment


def acknowledge(
    store: RunStore,
    environment: Environment,
    redactor: Redactor,
    *,
    stacks: Sequence[str],
    ids: Sequence[str],
    until: datetime | None,
    reason: str,
) -> list[tuple[str, Finding]]:
    """All of them or, if one is unknown or over, none. Recorded in the audit log before it counts."""
    now = clock.now()
    if until is not None and until <= now:
        raise UsageError(
            "HF-DRIFT-5", "the acknowledgement would have ended already", hint="Give a later --until."
        )
    places = find(store, stacks, ids)
    identity = Identity(store, environment, redactor)
    given = Acknowledgement(by=identity.who, at=now, reason=redactor.clean(reason), until=until)
    details = {"until": until.isoformat()} if until is not None else {}
    for id_, stack in places.items():
        entry = Entry(
            what="drift-acknowledge", stack=stack, reason=reason, details={"finding": id_, **details}
        )
        identity.audit.record(entry)
    return [(stack, acknowledge_one(store, stack, id_, given)) for id_, stack in places.items()]


def acknowledge_one(store: RunStore, stack: str, id_: str, given: Acknowledgement) -> Finding:
    """Raises UsageError if it is over since."""

    def change(known: StackDrift | None) -> StackDrift:
        if known is None:
            raise unknown_finding(id_)
        return with_acknowledgement(known, id_, given)

    after = store.drift.update(stack, change)
    return next(finding for finding in after.findings if finding.id == id_)


def with_acknowledgement(known: StackDrift, id_: str, given: Acknowledgement) -> StackDrift:
    try:
        findings = tuple(
            acknowledged(finding, given) if finding.id == id_ else finding for finding in known.findings
        )
    except ValueError:
        raise over(id_) from None
    return structs.replace(known, findings=findings)


def find(store: RunStore, stacks: Sequence[str], ids: Sequence[str]) -> dict[str, str]:
    """The stack of each finding, by its whole id."""
    places: dict[str, str] = {}
    known = {stack: store.drift.of(stack) for stack in stacks}
    for id_ in ids:
        found = [
            (finding, stack)
            for stack, drift in known.items()
            for finding in (drift.findings if drift is not None else ())
            if finding.id == id_
        ]
        if not found:
            raise unknown_finding(id_)
        finding, stack = found[0]
        if finding.state.ended:
            raise over(id_)
        places[finding.id] = stack
    return places


def unknown_finding(id_: str) -> UsageError:
    return UsageError("HF-DRIFT-6", f"there is no finding {id_}", hint="holdfast drift --history lists them.")


def over(id_: str) -> UsageError:
    return UsageError(
        "HF-DRIFT-7",
        f"finding {id_} is over: there is nothing to acknowledge",
        hint="holdfast drift --history",
    )
