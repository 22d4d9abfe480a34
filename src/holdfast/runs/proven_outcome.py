"""How the end of a run is told from its journal, and written down for a run that cannot do it any more."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from holdfast.plans.context import Session
from holdfast.plans.status import Status
from holdfast.runs.claims import operation_of
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal
from holdfast.system import clock
from holdfast.terraform.apply_log import OperationStatus, parse_apply_log
from holdfast.terraform.engine.worker import NOT_STARTED

_FAILED = 1


def finish_claim(session: Session, claim: Claim, status: Status, note: str) -> None:
    """The end of a run that could not write its own."""
    intent = claim.intent
    meant = _meant(intent)
    session.store.runs.finish(
        claim.run,
        {
            "version": 1,
            "id": claim.run,
            "stack": claim.stack,
            "operation": operation_of(claim),
            "status": status.value,
            "started": intent.get("started"),
            "ended": clock.now().isoformat(),
            "who": intent.get("who"),
            "change": meant.get("change"),
            "digest": meant.get("digest"),
            "notes": [note],
        },
    )
    session.store.claims.release(claim.stack, claim.run)


def _meant(intent: Mapping[str, object]) -> Mapping[str, object]:
    """What the run wrote down of itself: a versioned document inside the claim's own."""
    written = intent.get("intent")
    inner = written.get("intent") if isinstance(written, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


class Proof(Enum):
    """What a journal can prove of a run whose Holdfast is gone."""

    APPLIED = Status.APPLIED, "went on after its Holdfast ended, and was applied"
    NEVER_BEGUN = Status.FAILED, "ended before Terraform was started"
    FAILED = Status.FAILED, "went on after its Holdfast ended, and failed"
    NOT_STARTED = Status.FAILED, "could not start Terraform"

    def __init__(self, status: Status, words: str) -> None:
        self.status = status
        self.words = words


def proof(journal: Journal, *, dead: bool) -> Proof | None:
    """`dead`: nobody can begin it any more. None: the journal proves nothing, and nobody knows."""
    ended = journal.ended
    if ended is None:
        return Proof.NEVER_BEGUN if dead and journal.started is None and journal.whole else None
    if ended.get("code") == NOT_STARTED:
        return Proof.NOT_STARTED
    if ended.get("code") == 0 and not ended.get("unsaved"):
        return Proof.APPLIED
    return Proof.FAILED if failed_cleanly(journal) else None


def failed_cleanly(journal: Journal) -> bool:
    """Terraform ended by itself with an error and saved its state; no provider died, nothing is open."""
    ended = journal.ended
    if ended is None or ended.get("code") != _FAILED or ended.get("unsaved"):
        return False
    return ended_by_itself(journal)


def ended_by_itself(journal: Journal) -> bool:
    """Terraform came to its own end and said what became of everything that it had begun."""
    code = journal.ended.get("code") if journal.ended is not None else None
    if code not in {0, _FAILED}:
        return False
    heard = parse_apply_log(journal.lines)
    open_ = (
        one for several in heard.operations.values() for one in several if one.end is OperationStatus.OPEN
    )
    return not heard.died and next(open_, None) is None
