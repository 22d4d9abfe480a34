"""Which settings of one policy are weaker than those of another, in terms of configuration keys. Pure.

What cannot be compared counts as weaker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.config.guard import Budget, Effect, GuardRules, RequiredApprovals, strictest
from holdfast.guard.policy import Policy
from holdfast.store.applied import AppliedAs


class Weakening(NamedTuple):
    """A setting that was `before` and is `after`; an item of a list that was added or removed."""

    field: str
    text: str
    """`approvals 2 → 1`, `protect.addresses without module.db`."""


def weaker_settings(before: Policy, after: Policy) -> Iterator[Weakening]:
    for field, declared in GuardRules.by_field.items():
        then, now = getattr(before, field), getattr(after, field)
        for change in _weaker(field, then, now) if then != now else ():
            yield Weakening(field, f"{declared.path} {change}")
    if before.verified and not after.verified:
        yield Weakening("approvals", "approvals verified → unverified")
    yield from (
        Weakening("approvals", f"approvals without {rule.text(rule.count)}")
        for rule in before.approvers
        if not any(_covers(other, rule) for other in after.approvers)
    )


def _covers(rule: RequiredApprovals, other: RequiredApprovals) -> bool:
    """Whether the rule asks for as much as the other, of the same people."""
    return (rule.role, rule.group) == (other.role, other.group) and rule.count >= other.count


def _weaker(field: str, before: object, after: object) -> Iterator[str]:
    match before, after:
        case tuple(), tuple() if field == "except_types":
            yield from (f"with {name}" for name in after if name not in before)
        case tuple(), tuple():
            yield from (f"without {_item(item)}" for item in before if item not in after)
        case Budget(), Budget() if not _within(after, before):
            yield f"{before} → {after}"
        case Effect(), Effect() if strictest(before, after) is not after:
            yield f"{before} → {after}"
        case int(), None:
            yield f"{before} → no limit"
        case int(), int() if after < before if field == "approvals" else after > before:
            yield f"{before} → {after}"
        case _:
            return


def _within(budget: Budget, limit: Budget) -> bool:
    """Whether the budget never allows more than the limit."""
    if limit.number is None and limit.percent is None:
        return True
    if budget.percent is not None and limit.percent is not None:
        return budget.percent <= limit.percent
    if budget.number is not None and limit.number is not None:
        return budget.number <= limit.number
    return budget.number == 0 or budget.percent == 0


def _item(item: object) -> str:
    match item:
        case (str() as tag, tuple() as values):
            return f"{tag}: {', '.join(map(str, values))}" if values else tag
        case _:
            return str(getattr(item, "text", item))


def lowered_since(applied: Iterable[AppliedAs], now: AppliedAs) -> tuple[str, ...]:
    """What was stricter when the stack was last applied, under this name or with this state."""
    return tuple(dict.fromkeys(text for then in applied for text in _lowered(then, now)))


def _lowered(then: AppliedAs, now: AppliedAs) -> Iterator[str]:
    if then.production and not now.production:
        other = now.environment if now.environment != then.environment else None
        yield f"production ({then.environment or 'no environment'}) → {other or 'not production'}"
    if then.owner == "ci" and now.owner != "ci":
        yield f"owner ci → {now.owner or 'anyone'}"
    if now.approvals < then.approvals:
        yield f"approvals {then.approvals} → {now.approvals}"
    if then.verified and not now.verified:
        yield "approvals verified → unverified"
    yield from (f"approvals without {text}" for text in then.approvers if text not in now.approvers)
    for name in ("addresses", "types", "tags"):
        kept = getattr(now, name)
        yield from (
            f"protect.{name} without {_item(item)}" for item in getattr(then, name) if item not in kept
        )
    yield from (
        f"protect.except_types with {name}" for name in now.except_types if name not in then.except_types
    )
