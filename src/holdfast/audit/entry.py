"""One line of the audit log: what was done, to what, why, and how it ended.

Actor, time and position in the chain are added when it is written (`audit.log`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.audit.actor import Actor
from holdfast.secrets.redact import Redactor, Structure, clean_document, reasons_by_field

What = Literal[
    "plan", "apply", "destroy", "override", "approve", "reject", "unlock", "holder-dead",
    "reconcile", "rollback", "push", "pull", "adopt", "rename", "retire", "not-a-rename", "rotate",
    "accept-loss", "accept-sink", "mv", "rm", "import", "output",
    "pin", "purge", "delete", "unlocked-writes", "token-create", "token-revoke", "token-exchange",
    "webhook-set", "webhook-remove", "outgoing-webhook-add", "outgoing-webhook-remove",
    "facts-publish", "facts-seal", "secrets-seed",
    "cancel", "repository-add", "repository-remove", "event-submit", "event-retry", "event-rollback",
    "drift-acknowledge", "notify-test",
]  # fmt: skip
ACCEPT_LOSS: Final = "accept-loss"
"""A person continues the log although entries are missing."""
BREAK_GLASS: Final[frozenset[str]] = frozenset({"override", "unlock", "holder-dead", ACCEPT_LOSS})
"""Acts with which a person bypasses a rule or a lock."""
PLAN_ACTS: Final[frozenset[str]] = frozenset({"plan", "pull", "output"})
"""What a job with only the plan key may do."""

_STRUCTURE: Final = Structure(
    fields=reasons_by_field(
        {
            "a name from the configuration": "stack",
            "one of a closed set": "what outcome decision kind error",
            "an id or a digest": "run change digest",
            "a time": "at until",
        }
    ),
    values=frozenset(),
)


class Entry(Struct, frozen=True, kw_only=True):
    """Fields that do not apply are None."""

    what: What
    stack: str | None = None
    run: str | None = None
    digest: str | None = None
    decision: str | None = None
    """The guard's: `allow`, `approval` or `deny`."""
    rules: tuple[str, ...] = ()
    """Codes of the rules behind the decision."""
    reason: str | None = None
    """Given by a person."""
    outcome: str | None = None
    """A status or `done`; `begun` while it is not known."""
    error: str | None = None
    """The code of the error, if it failed."""
    break_glass: bool = False
    """For an apply with an override; always true for `BREAK_GLASS`."""
    until: str | None = None
    """When it expires, for example an override."""
    details: Mapping[str, str | int | None] = MappingProxyType({})
    """Specific to the act: the id of a lock, the serials of a rollback."""


def document_of(
    entry: Entry, *, who: Actor, at: str, change: str | None, redactor: Redactor
) -> dict[str, object]:
    """The line without its position in the chain. Redacted, because hashed lines cannot change later."""
    document: dict[str, object] = {
        "at": at,
        **asdict(entry),
        "change": change,
        "break_glass": entry.break_glass or entry.what in BREAK_GLASS,
        "who": who.document(),
    }
    return clean_document(redactor, document, _STRUCTURE)
