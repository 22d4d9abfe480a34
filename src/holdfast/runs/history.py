"""Runs as they are remembered: what they did, how they ended, what Terraform said. Reading only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import Session
from holdfast.plans.status import Status
from holdfast.runs.claims import alive, operation_of, signs
from holdfast.runs.proven_outcome import proof
from holdfast.runs.run_secrets import know_secrets
from holdfast.store.claims import Claim
from holdfast.store.journal import EMPTY, Journal


class RunShown(Struct, frozen=True, kw_only=True):
    """What is known of one run; None where nothing is."""

    id: str
    stack: str | None
    operation: str | None
    status: Status | None
    """None: it is at work."""
    started: str | None
    ended: str | None
    who: str | None

    def document(self) -> dict[str, object]:
        return {
            "id": self.id,
            "stack": self.stack,
            "operation": self.operation,
            "status": self.status.value if self.status is not None else None,
            "started": self.started,
            "ended": self.ended,
            "who": self.who,
        }


class RunDetails(MaskedStruct, frozen=True, kw_only=True):
    run: RunShown
    outcome: Mapping[str, object]
    """As it was written down; empty where nothing was."""
    intent: Mapping[str, object] | None
    """What it meant to do, as long as its end is not settled."""
    journal: Journal

    def document(self) -> dict[str, object]:
        named = ("change", "digest", "engine", "changes", "error", "notes")
        return {
            **self.run.document(),
            **{name: self.outcome.get(name) for name in named},
            "intent": _intent(self.intent),
            "journal": journal_document(self.journal),
        }


def list_runs(session: Session, *, limit: int, stack: str | None = None) -> tuple[RunShown, ...]:
    """Newest first, no more than `limit`, and no more of them read than that needs."""
    claims = {claim.run: claim for claim in session.store.claims.all()}
    ids = sorted({*session.store.runs.ids(), *claims}, reverse=True)
    found: list[RunShown] = []
    for run in ids:
        if len(found) >= limit:
            break
        shown = _shown(session, run, claims.get(run))[0]
        if stack is None or shown.stack == stack:
            found.append(shown)
    return tuple(found)


def details(session: Session, wanted: str) -> RunDetails:
    """Everything that is known of a run, named by its id or an unambiguous beginning of it."""
    claims = {claim.run: claim for claim in session.store.claims.all()}
    run = chosen({*session.store.runs.ids(), *claims}, wanted)
    claim = claims.get(run)
    shown, outcome = _shown(session, run, claim)
    inner = claim.intent.get("intent") if claim is not None else None
    journal = session.store.runs.journal(run, session.store.key)
    know_secrets(session, run, shown.stack)
    return RunDetails(
        run=shown, outcome=outcome, intent=inner if isinstance(inner, dict) else None, journal=journal
    )


def chosen(ids: Iterable[str], wanted: str) -> str:
    """The one run that is meant."""
    matching = sorted((one for one in ids if wanted and one.startswith(wanted.upper())), reverse=True)
    if len(matching) > 1:
        raise UsageError(
            "HF-RUN-21",
            f"{wanted} may mean several runs: {', '.join(matching[:5])}",
            hint="Give more of the id.",
        )
    if not matching:
        raise UsageError(
            "HF-RUN-20", f"there is no run {wanted}", hint="See what there is: holdfast runs list"
        )
    return matching[0]


class Holder(Struct, frozen=True, kw_only=True):
    """Of a run that has its stack still claimed: what is seen of it."""

    at_work: bool
    dead: bool
    """Proved."""


def status_of(outcome: Mapping[str, object] | None, holder: Holder | None, journal: Journal) -> Status | None:
    """What the record says of a run's end; None while somebody is at work. Pure.

    Without an outcome the journal may still prove one. Where it proves none, nobody knows.
    """
    if outcome is not None:
        said = outcome.get("status")
        return Status(said) if said in {one.value for one in Status} else Status.UNKNOWN
    if holder is not None and holder.at_work:
        return None
    found = proof(journal, dead=holder is None or holder.dead)
    return found.status if found is not None else Status.UNKNOWN


def _shown(session: Session, run: str, claim: Claim | None) -> tuple[RunShown, Mapping[str, object]]:
    outcome = session.store.runs.outcome(run)
    journal = session.store.runs.journal(run, session.store.key) if outcome is None else EMPTY
    holder = _holder(session, claim, journal) if outcome is None and claim is not None else None
    known = outcome or {}
    meant = claim.intent if claim is not None else {}
    heard = journal.started or {}
    shown = RunShown(
        id=run,
        stack=_text(known.get("stack")) or (claim.stack if claim is not None else None),
        operation=_text(known.get("operation")) or (operation_of(claim) if claim is not None else None),
        status=status_of(outcome, holder, journal),
        started=_text(known.get("started")) or _text(meant.get("started")) or _text(heard.get("at")),
        ended=_text(known.get("ended")),
        who=_text(known.get("who")) or _text(meant.get("who")),
    )
    return shown, known


def _holder(session: Session, claim: Claim, journal: Journal) -> Holder:
    return Holder(at_work=alive(session, claim), dead=signs(session, claim, journal).proved_dead)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _intent(intent: Mapping[str, object] | None) -> dict[str, object] | None:
    """Without the values that objects were to have."""
    if intent is None:
        return None
    inner = intent.get("intent")
    meant = inner if isinstance(inner, dict) else intent
    changes = meant.get("changes")
    return {
        **{
            name: meant.get(name)
            for name in ("lineage", "serial", "place", "engine", "host", "pid", "backup")
        },
        "changes": [
            {"address": one.get("address"), "actions": one.get("actions")}
            for one in (changes if isinstance(changes, list) else ())
            if isinstance(one, dict)
        ],
    }


def journal_document(journal: Journal) -> dict[str, object]:
    """When it began, when it was last heard of, and how Terraform ended."""
    ended = journal.ended
    return {
        "started": journal.started.get("at") if journal.started is not None else None,
        "lines": len(journal.lines),
        "last": next((at for line in reversed(journal.lines) if (at := _heard_at(line))), None),
        "ended": {name: ended.get(name) for name in ("code", "at", "unsaved")} if ended is not None else None,
        "whole": journal.whole,
    }


def log_lines(journal: Journal) -> Iterator[dict[str, object] | str]:
    """Each line as the object that it is, or as text where it is none. In clear: the redactor comes after."""
    for line in journal.lines:
        found = _object(line)
        yield found if found is not None else line.decode(errors="replace")


def log_text(line: dict[str, object] | str) -> str:
    """For a person: when, and what."""
    if isinstance(line, str):
        return line
    at, said = line.get("@timestamp"), line.get("@message")
    return " ".join(str(part) for part in (at, said) if part) or json.dumps(line, ensure_ascii=False)


def _heard_at(line: bytes) -> str | None:
    found = _object(line)
    return _text(found.get("@timestamp")) if found is not None else None


def _object(line: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
