"""How the end of a run is told from its journal, and written down for a run that cannot do it any more."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.doors import clock
from holdfast.runs.claiming import operation_of
from holdfast.runs.heard import End, listen
from holdfast.runs.session import Session
from holdfast.runs.status import Status
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal

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
    heard = listen(journal.lines)
    open_ = (one for several in heard.operations.values() for one in several if one.end is End.OPEN)
    return not heard.died and next(open_, None) is None
