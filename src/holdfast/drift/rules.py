"""Which differences a rule of the configuration ignores. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase

from msgspec import Struct

from holdfast.config.drift import IgnoreRule
from holdfast.drift.observation import Observation
from holdfast.stacks.stack import Stack
from holdfast.stacks.stack import matches as matches_stack

_TAGS = re.compile(r'(?:tags|tags_all|labels|effective_labels|terraform_labels)(?:\.(.+)|\["(.+)"\])')


class Ignored(Struct, frozen=True, kw_only=True):
    """A difference that a rule ignores."""

    address: str
    attribute: str | None
    owner: str
    until: date
    why: str | None


class Judged(Struct, frozen=True, kw_only=True):
    counted: tuple[Observation, ...]
    ignored: tuple[Ignored, ...] = ()
    expired: tuple[str, ...] = ()
    """Rules that would have ignored something, and have ended."""


def judge(observed: Iterable[Observation], rules: Sequence[IgnoreRule], today: date) -> Judged:
    """An expired rule ignores nothing, and is named if it would have."""
    counted: list[Observation] = []
    ignored: list[Ignored] = []
    expired: dict[str, None] = {}
    for one in observed:
        matching = [rule for rule in rules if matches(rule, one)]
        rule = next((rule for rule in matching if today <= rule.until), None)
        if rule is not None:
            ignored.append(
                Ignored(
                    address=one.address,
                    attribute=one.attribute,
                    owner=rule.owner,
                    until=rule.until,
                    why=rule.why,
                )
            )
            continue
        counted.append(one)
        expired.update(dict.fromkeys(expiry_text(rule) for rule in matching))
    return Judged(counted=tuple(counted), ignored=tuple(ignored), expired=tuple(expired))


def matches(rule: IgnoreRule, one: Observation) -> bool:
    if not fnmatch_address(one.address, rule.address):
        return False
    if rule.attribute is not None and not covers_attribute(rule.attribute, one.attribute):
        return False
    if rule.tags and not _is_tag(rule.tags, one.attribute):
        return False
    return rule.tolerance is None or (one.number is not None and one.number <= rule.tolerance)


def rules_for(rules: Iterable[IgnoreRule], stack: Stack) -> tuple[IgnoreRule, ...]:
    return tuple(
        rule for rule in rules if not rule.stacks or any(matches_stack(stack, text) for text in rule.stacks)
    )


def expiry_text(rule: IgnoreRule) -> str:
    what = f"{rule.address}{f' {rule.attribute}' if rule.attribute else ''}"
    return f"the rule that ignored {what} ended on {rule.until} (owner: {rule.owner})"


def fnmatch_address(address: str, pattern: str) -> bool:
    """Brackets of instance keys are no character classes."""
    return fnmatchcase(address, pattern.replace("[", "[[]")) or fnmatchcase(
        address.partition("[")[0], pattern.replace("[", "[[]")
    )


def covers_attribute(pattern: str, attribute: str | None) -> bool:
    """An attribute, or one inside it."""
    if attribute is None:
        return False
    plain = pattern.replace("[", "[[]")
    return any(fnmatchcase(attribute, wanted) for wanted in (plain, f"{plain}.*", f"{plain}[[]*"))


def _is_tag(patterns: Sequence[str], attribute: str | None) -> bool:
    found = _TAGS.fullmatch(attribute or "")
    name = (found.group(1) or found.group(2)) if found is not None else None
    return name is not None and any(fnmatchcase(name, pattern) for pattern in patterns)
