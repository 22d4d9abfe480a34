"""What a check found out about one stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from holdfast.drift.observation import Observation
from holdfast.drift.rules import Ignored
from holdfast.kernel.errors import Problem
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.result import StackResult
from holdfast.stacks.stack import Stack
from holdfast.store.drift import Author, StackDrift, StackStatus
from holdfast.terraform.plan.model import Counts


class NotLookedAt(Struct, frozen=True, kw_only=True):
    """What its provider never reads back."""

    address: str
    attributes: tuple[str, ...]
    """Empty: the whole resource."""
    reason: str


class Comparison(MaskedStruct, frozen=True, kw_only=True):
    """What was found out about one stack just now."""

    observed: tuple[Observation, ...] | None = None
    """None: reality was not looked at."""
    ignored: tuple[Ignored, ...] = ()
    expired: tuple[str, ...] = ()
    not_looked_at: tuple[NotLookedAt, ...] = ()
    unapplied: bool | None = None
    """None: the code was not compared."""
    changes: Counts = field(default_factory=Counts)
    """Those of the code that are not applied."""
    authors: Mapping[str, Author] = {}
    """Who changed resources, by address, where this is known."""
    notes: tuple[str, ...] = ()
    error: Problem | None = None
    """Why something was not looked at."""


class DriftResult(MaskedStruct, frozen=True, kw_only=True):
    """A stack after a check: what is known of it, and what the check itself found."""

    stack: Stack
    known: StackDrift
    found: Comparison
    duration: float = 0.0
    before: StackDrift | None = None
    healing: StackResult | None = None
    """The apply that followed."""
    not_healed: tuple[str, ...] = ()
    """Why drift was not undone."""

    @property
    def status(self) -> StackStatus:
        return self.known.status


def details_of(found: Comparison) -> dict[str, Any]:
    """The part of the document that is no finding."""
    error = found.error
    return {
        "changes": found.changes.document(),
        "not_looked_at": [
            {"address": row.address, "attributes": list(row.attributes), "reason": row.reason}
            for row in found.not_looked_at
        ],
        "ignored": [
            {
                "address": row.address,
                "attribute": row.attribute,
                "owner": row.owner,
                "until": row.until.isoformat(),
            }
            for row in found.ignored
        ],
        "expired_rules": list(found.expired),
        "notes": list(found.notes),
        "error": None
        if error is None
        else {"code": error.code, "message": error.message, "hint": error.hint},
    }
