"""Which drift a rule allows to undo, and whether a plan does nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from holdfast.config.drift import HealAction, HealRule
from holdfast.config.guard import Freeze, freeze_minutes
from holdfast.drift.lifecycle import MOST_HEALINGS, does_not_hold
from holdfast.drift.observation import drifted_attributes
from holdfast.drift.rules import covers_attribute
from holdfast.guard.freeze_rules import UnknownZoneError, frozen_until
from holdfast.kernel.text import plural
from holdfast.stacks.stack import Stack
from holdfast.store.drift import Finding, FindingState, StackDrift
from holdfast.terraform.addresses import path_text
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.compare import Nothing, Sides, equal, sides_of
from holdfast.terraform.plan.model import Plan, ResourceChange

_DAY = timedelta(hours=24)
Keys = frozenset[tuple[str, str | None]]


class Healing(Struct, frozen=True, kw_only=True):
    """Findings that may be undone, or why not. With a reason, nothing is."""

    keys: Keys = frozenset()
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return bool(self.keys) and not self.reasons


def healing_of(
    known: StackDrift, stack: Stack, rules: Sequence[HealRule], now: datetime, zone: str
) -> Healing:
    """An apply undoes all drift of a stack, so each finding must be within a rule."""
    if not known.open:
        return Healing()
    reasons: list[str] = []
    if known.unapplied:
        reasons.append("a change in the code is not applied: an apply would do that too")
    used: dict[str, None] = {}
    addresses: dict[HealRule, set[str]] = {}
    for finding in known.open:
        rule = _rule_for(finding, stack, rules, now, zone)
        if finding.state is FindingState.ACKNOWLEDGED:
            reasons.append(f"{_name(finding)} is acknowledged")
        elif does_not_hold(finding):
            reasons.append(f"{_name(finding)} came back after {plural(MOST_HEALINGS, 'healing')}")
        elif isinstance(rule, str):
            reasons.append(f"{_name(finding)}: {rule}")
        else:
            used[rule.text] = None
            addresses.setdefault(rule, set()).add(finding.address)
    for rule, wanted in addresses.items():
        reasons += _over_budget(known, rule, stack, wanted, now)
    keys = frozenset(finding.key for finding in known.open)
    return Healing(keys=keys, rules=tuple(used), reasons=tuple(dict.fromkeys(reasons)))


def _rule_for(
    finding: Finding, stack: Stack, rules: Sequence[HealRule], now: datetime, zone: str
) -> HealRule | str:
    """The first that covers it, or why none does."""
    action = HealAction.CREATE if finding.attribute is None else HealAction.UPDATE
    reason = f"no rule heals {finding.type} in {stack.environment or 'an unknown environment'}"
    for rule in rules:
        if not any(fnmatchcase(stack.environment or "", pattern) for pattern in rule.environments):
            continue
        if not any(fnmatchcase(finding.type, pattern) for pattern in rule.types):
            continue
        if action not in rule.actions:
            verb = "create it again" if action is HealAction.CREATE else "update it"
            reason = f"its rule does not {verb}"
        elif rule.attributes and not any(covers_attribute(p, finding.attribute) for p in rule.attributes):
            reason = "its rule does not cover this attribute"
        elif (closed := _outside(rule, now, zone)) is not None:
            reason = closed
        else:
            return rule
    return reason


def _outside(rule: HealRule, now: datetime, zone: str) -> str | None:
    if rule.from_ is None or rule.to is None:
        return None
    start, end, every = freeze_minutes(rule.from_, rule.to)
    window = Freeze(start=start, end=end, every=every, zone=zone, text="")
    try:
        inside = frozen_until(window, now) is not None
    except UnknownZoneError:
        return f"the time zone {zone} is not installed on this machine"
    return None if inside else f"outside the window of its rule ({rule.from_} to {rule.to} {zone})"


def _over_budget(
    known: StackDrift, rule: HealRule, stack: Stack, wanted: set[str], now: datetime
) -> Iterator[str]:
    types = rule.types
    recent = {
        finding.address
        for finding in known.findings
        if any(fnmatchcase(finding.type, pattern) for pattern in types)
        and any(now - moment < _DAY for moment in finding.healings)
    }
    number = len(recent | wanted)
    if number > rule.budget:
        yield (
            f"{plural(number, 'resource')} of {stack.name} in 24 hours, "
            f"the budget of its rule is {rule.budget}"
        )


def _name(finding: Finding) -> str:
    return finding.address if finding.attribute is None else f"{finding.address} {finding.attribute}"


# The plan


def outside_of_healing(plan: Plan, keys: Keys) -> tuple[str, ...]:
    """What a plan does beside setting back these findings. Only a plan that does nothing else may heal.

    What it sets back is compared with the plan's own view of reality: the value must be the one that the
    state has, so a change in the code is never applied with it.
    """
    drift = {change.address: change for change in plan.drift if change.deposed is None}
    return tuple(_outside_of(plan, drift, keys))


def _outside_of(plan: Plan, drift: dict[str, ResourceChange], keys: Keys) -> Iterator[str]:
    if not plan.understood or plan.errored or plan.deferred or plan.action_invocations:
        yield "it does something that healing does not"
    for change in plan.changes:
        if change.mode != "managed" or not change.has_effect:
            continue
        found = drift.get(change.address)
        if change.moved or change.importing is not None or change.deposed is not None:
            yield f"{change.address} would be moved, imported or removed"
        elif change.kind is ChangeKind.CREATE:
            yield from _outside_of_create(change, found, keys)
        elif change.kind is ChangeKind.UPDATE:
            yield from _outside_of_update(change, found, keys)
        else:
            yield f"{change.address} would be {change.explanation}"


def _outside_of_create(change: ResourceChange, found: ResourceChange | None, keys: Keys) -> Iterator[str]:
    if (change.address, None) not in keys or found is None or found.kind is not ChangeKind.DELETE:
        yield f"{change.address} would be created, though it was not deleted outside Terraform"
    elif names := _other_values(change, found):
        yield f"{change.address} would be created with another {', '.join(names)} than it had"


def _outside_of_update(change: ResourceChange, found: ResourceChange | None, keys: Keys) -> Iterator[str]:
    if found is None or found.kind is not ChangeKind.UPDATE:
        yield f"{change.address} would be changed, though nothing changed it outside Terraform"
    elif names := _other_changes(change, found, keys):
        yield f"{change.address} would also change {', '.join(names)}"


def _other_changes(change: ResourceChange, found: ResourceChange, keys: Keys) -> list[str]:
    """Attributes that the plan changes and that are not set back to what the state has."""
    set_back = dict(drifted_attributes((), sides_of(found.change)))
    planned = drifted_attributes((), _known(sides_of(change.change)))
    return [
        path_text(path)
        for path, part in planned
        if (change.address, path_text(path)) not in keys
        or path not in set_back
        or not _same(set_back[path].before, part.after)
    ]


def _other_values(change: ResourceChange, found: ResourceChange) -> list[str]:
    """Known values of a resource that is created again, which are not those of the deleted one."""
    old, new = sides_of(found.change).before, sides_of(change.change)
    before = old if isinstance(old, dict) else {}
    after = new.after if isinstance(new.after, dict) else {}
    unknown = new.unknown if isinstance(new.unknown, dict) else {}
    return [
        name for name, value in after.items() if not unknown.get(name) and not _same(before.get(name), value)
    ]


def _known(sides: Sides) -> Sides:
    """Computed attributes that are not known yet follow from the others."""
    if not isinstance(sides.after, dict) or not isinstance(sides.unknown, dict):
        return sides
    after = dict(sides.after)
    before = sides.before if isinstance(sides.before, dict) else {}
    for name, unknown in sides.unknown.items():
        if unknown is True:
            after[name] = before.get(name)
    return Sides(before, after, False, sides.before_mask, sides.after_mask)  # noqa: FBT003


def _same(before: Any, after: Any) -> bool:
    old, new = (None if isinstance(side, Nothing) else side for side in (before, after))
    return equal(old, new)
