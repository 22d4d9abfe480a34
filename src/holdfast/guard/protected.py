"""What nobody may delete, replace or forget: addresses, types and tags. Over-matching is the safe mistake."""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from holdfast.guard.policy import Policy
from holdfast.terraform.plan.model import ResourceChange
from holdfast.terraform.tables.stateful_types import stateful_types


def protecting_address(change: ResourceChange, patterns: tuple[str, ...]) -> str | None:
    """The pattern that covers the object, by the address it has or by the one it had before a move."""
    for address in (change.address, change.previous_address):
        if address is not None and (found := covering(address, patterns)) is not None:
            return found
    return None


def covering(address: str, patterns: tuple[str, ...]) -> str | None:
    """A pattern covers what it names and all that is in it: instances of a resource, a whole module."""
    return next((one for one in patterns if _address_pattern(one).fullmatch(address)), None)


def protecting_type(type_: str, policy: Policy) -> str | None:
    """What protects the type: a pattern of the configuration, or its own row in the built-in table."""
    named = next((one for one in policy.types if _glob(one).fullmatch(type_)), None)
    if named is not None:
        return named
    return type_ if type_ in stateful_types() and type_ not in policy.except_types else None


class ProtectingTag(Struct, frozen=True, kw_only=True):
    name: str | None
    """None: the object has tags of which nothing can be read."""
    clear: bool = True
    """Its value was read, and is one that protects."""


def protecting_tag(
    change: ResourceChange, tags: tuple[tuple[str, tuple[str, ...]], ...]
) -> ProtectingTag | None:
    """The tag that protects the object, or that has to be taken for one; None if nothing does.

    A type without tags is not protected by any. What could be a protecting tag and cannot be read is one.
    Names and values are compared without regard to case, as some clouds do.
    """
    if not tags:
        return None
    from holdfast.terraform.plan.tags import tags_before  # noqa: PLC0415  most policies name no tags

    has = tags_before(change)
    for name, values in tags:
        for found, value in has.found:
            if found.casefold() != name.casefold():
                continue
            if value is None:
                return ProtectingTag(name=name, clear=False)
            if not values or any(_glob(one.casefold()).fullmatch(value.casefold()) for one in values):
                return ProtectingTag(name=name)
    return ProtectingTag(name=None, clear=False) if has.unreadable else None


@functools.cache
def _address_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{_translated(pattern)}(?:[.\[].*)?", re.DOTALL)


@functools.cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(_translated(pattern), re.DOTALL)


def _translated(pattern: str) -> str:
    """`*` is any text; every other character stands for itself.

    All but the last part are taken as early as they come and never again, so no pattern takes long.
    """
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    between = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return f"{first}{between}.*{rest[-1]}"
