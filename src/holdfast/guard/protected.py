"""Which resources are protected, by address, type or tag. If in doubt, a resource is protected."""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from holdfast.guard.policy import Policy
from holdfast.terraform.plan.model import ResourceChange
from holdfast.terraform.tables.stateful_types import stateful_types


def protecting_address(change: ResourceChange, patterns: tuple[str, ...]) -> str | None:
    """The pattern that covers the current address of a resource, or the one before a move."""
    for address in (change.address, change.previous_address):
        if address is not None and (pattern := covering(address, patterns)) is not None:
            return pattern
    return None


def covering(address: str, patterns: tuple[str, ...]) -> str | None:
    """The first pattern that matches the address or a parent: a resource, a module."""
    return next((pattern for pattern in patterns if _address_pattern(pattern).fullmatch(address)), None)


def protecting_type(type_: str, policy: Policy) -> str | None:
    """The pattern of the configuration that protects the type, or the type if the built-in table has it."""
    pattern = next((pattern for pattern in policy.types if _glob(pattern).fullmatch(type_)), None)
    if pattern is not None:
        return pattern
    return type_ if type_ in stateful_types() and type_ not in policy.except_types else None


class ProtectingTag(Struct, frozen=True, kw_only=True):
    name: str | None
    """None: the resource has tags, and all of them are unknown."""
    known: bool = True
    """Its value is known."""


def protecting_tag(
    change: ResourceChange, tags: tuple[tuple[str, tuple[str, ...]], ...]
) -> ProtectingTag | None:
    """The tag that protects the resource. A tag with an unknown value counts as protecting.

    Names and values are compared case-insensitively, as some clouds do.
    """
    if not tags:
        return None
    from holdfast.terraform.plan.tags import tags_before  # noqa: PLC0415  most policies name no tags

    before = tags_before(change)
    for name, values in tags:
        for tag, value in before.found:
            if tag.casefold() != name.casefold():
                continue
            if value is None:
                return ProtectingTag(name=name, known=False)
            if not values or any(_glob(pattern.casefold()).fullmatch(value.casefold()) for pattern in values):
                return ProtectingTag(name=name)
    return ProtectingTag(name=None, known=False) if before.unreadable else None


@functools.cache
def _address_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{_regex(pattern)}(?:[.\[].*)?", re.DOTALL)


@functools.cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(_regex(pattern), re.DOTALL)


def _regex(pattern: str) -> str:
    """`*` matches any text. Atomic groups keep the match linear, whatever the pattern."""
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    between = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return f"{first}{between}.*{rest[-1]}"
