"""One line of the record, as its writer gives it: what was done, to what, why, and how it ended.

Who did it, when, and its place in the chain are added when it is written (`audit.log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from holdfast.audit.actor import Who
from holdfast.secrets.redact import Redactor
from holdfast.secrets.redact_document import Structure, clean_document

What = Literal[
    "plan", "apply", "destroy", "override", "approve", "reject", "cancel", "unlock", "holder-dead",
    "reconcile", "rollback", "push", "pull", "adopt", "head-lost",
]  # fmt: skip
BREAK_GLASS: Final[frozenset[str]] = frozenset({"override", "unlock", "holder-dead"})
"""What goes around a rule or a lock by a person's word, whoever records it and however."""
HEAD_LOST: Final = "head-lost"
"""Written by the log itself: when this line was written, lines were there and their head was not."""

_STRUCTURE: Final = Structure(
    fields={
        "at": "a time",
        "until": "a time",
        "what": "a word out of a closed set",
        "outcome": "a word out of a closed set",
        "decision": "a word out of a closed set",
        "error": "a code",
        "kind": "a word out of a closed set",
        "stack": "a name of the configuration",
        "run": "an id",
        "change": "an id",
        "digest": "a digest",
    },
    values=frozenset(),
)


class Entry(Struct, frozen=True, kw_only=True):
    """Absent is None: a field that does not concern the act is left out by its writer, never made up."""

    what: What
    stack: str | None = None
    run: str | None = None
    digest: str | None = None
    decision: str | None = None
    """The guard's: `allow`, `approval` or `deny`."""
    rules: tuple[str, ...] = ()
    """Codes of the rules that the decision rests on."""
    reason: str | None = None
    """A person's words."""
    outcome: str | None = None
    """How it ended (a status, or `done`); `begun` where that is not known yet."""
    error: str | None = None
    """The code of the error that it ended with."""
    break_glass: bool = False
    """True for an act of `BREAK_GLASS` in any case, and for an apply that an override made possible."""
    until: str | None = None
    """When it expires, such as an override."""
    details: Mapping[str, str | int | None] = MappingProxyType({})
    """What belongs to this act alone: the id of a lock, the serials of a rollback."""


def document_of(
    entry: Entry, *, who: Who, at: str, change: str | None, redactor: Redactor
) -> dict[str, object]:
    """The line as it is kept, but for its place in the chain. Without secrets: what is hashed stays."""
    document: dict[str, object] = {
        "at": at,
        "what": entry.what,
        "stack": entry.stack,
        "run": entry.run,
        "change": change,
        "digest": entry.digest,
        "decision": entry.decision,
        "rules": list(entry.rules),
        "reason": entry.reason,
        "outcome": entry.outcome,
        "error": entry.error,
        "break_glass": entry.break_glass or entry.what in BREAK_GLASS,
        "until": entry.until,
        "details": dict(entry.details),
        "who": who.document(),
    }
    cleaned = clean_document(redactor, document, _STRUCTURE)
    if not isinstance(cleaned, dict):
        raise TypeError("a document stays a document")
    return cleaned
