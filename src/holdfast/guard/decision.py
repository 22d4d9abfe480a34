"""The guard's answer: a closed union with reasons. What falls through is refused.

A reason that only warns stands in an `Allow` too. Every reason says what it leads to by itself; the decision
is the gravest of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from holdfast.config.guard import Effect

NOT_UNDERSTOOD = "HF-GUARD-0"


class Reason(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    """What would happen, to what, and why; a sentence without its end."""
    address: str | None = None
    rule: str = ""
    """What stopped it, in a few words: `deletions in production`, `protected type aws_db_instance`."""
    effect: Effect = Effect.DENY
    finding: str = ""
    """The id of the check finding that it repeats, if it repeats one."""


class Allow(Struct, frozen=True, kw_only=True):
    reasons: tuple[Reason, ...] = ()
    """What to be warned of."""


class NeedApproval(Struct, frozen=True, kw_only=True):
    reasons: tuple[Reason, ...]
    approvals: int = 1
    """How many."""


class Deny(Struct, frozen=True, kw_only=True):
    reasons: tuple[Reason, ...]
    approvals: int = 0
    """How many would be needed still, if what was denied were overridden."""


Decision = Allow | NeedApproval | Deny
NAMES: dict[type[Decision], str] = {Allow: "allow", NeedApproval: "approval", Deny: "deny"}

_RISK = (0, 6, 7, 3, 10, 1, 4, 5, 2, 18, 19, 8, 9, 11, 12, 13, 14, 16, 15)
"""Numbers of codes, the greatest danger first. What is said first is what people read."""
_RANKS = {f"HF-GUARD-{number}": rank for rank, number in enumerate(_RISK)}
_EFFECTS = (Effect.DENY, Effect.APPROVE, Effect.WARN, Effect.ALLOW)


def decided(reasons: Iterable[Reason], *, approvals: int = 0) -> Decision:
    """The gravest reason decides; what is merely allowed is not worth a word."""
    found = tuple(sorted((one for one in reasons if one.effect is not Effect.ALLOW), key=_risk))
    asked = any(one.effect is Effect.APPROVE for one in found)
    needed = max(approvals, 1) if asked else 0
    if any(one.effect is Effect.DENY for one in found):
        return Deny(reasons=found, approvals=needed)
    return NeedApproval(reasons=found, approvals=needed) if asked else Allow(reasons=found)


def _risk(reason: Reason) -> tuple[int, int]:
    return _EFFECTS.index(reason.effect), _RANKS.get(reason.code, -1)


def with_reasons(decision: Decision, more: Iterable[Reason]) -> Decision:
    """The same decision with further reasons: as grave, or graver."""
    return decided((*decision.reasons, *more), approvals=_approvals(decision))


def with_override(decision: Decision) -> Decision:
    """What is left once a person has overridden this one plan: approvals that it needs, and warnings.

    What was not understood is never overridden: nobody can answer for what nobody can read.
    """
    lifted = (
        structs.replace(one, effect=Effect.WARN)
        if one.effect is Effect.DENY and one.code != NOT_UNDERSTOOD
        else one
        for one in decision.reasons
    )
    return decided(lifted, approvals=_approvals(decision))


def _approvals(decision: Decision) -> int:
    return 0 if isinstance(decision, Allow) else decision.approvals
