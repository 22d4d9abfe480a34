"""What a plan shows of reality: which attributes are not as the state says. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from holdfast.kernel.values import MaskedStruct
from holdfast.secrets.redact import Redactor, clean_value
from holdfast.terraform.addresses import Path, path_text
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.compare import Nothing, Sides, equal, sides_of
from holdfast.terraform.plan.model import Plan, ResourceChange
from holdfast.terraform.plan.value_text import encode
from holdfast.terraform.plan.values import masked_value


class Observation(MaskedStruct, frozen=True, kw_only=True):
    """One attribute that differs; its values are masked."""

    address: str
    type: str
    attribute: str | None
    """None: the whole resource no longer exists."""
    before: Any
    after: Any
    sensitive: bool = False
    fingerprint: str
    number: float | None = None
    """By how much a number differs."""
    resource: str | None = None
    """Its id at the provider, to look for who changed it."""


class NotUnderstood(Exception):  # noqa: N818 - says what it is about
    """An action that this version does not know: what it means for reality is not known."""


def observations(plan: Plan, *, salt: str, redactor: Redactor) -> tuple[Observation, ...]:
    """Every difference between the state and reality. `salt` makes the fingerprints useless elsewhere."""
    observer = _Observer(salt, redactor)
    return tuple(
        found
        for change in plan.drift
        if change.mode in {"managed", ""} and change.deposed is None
        for found in observer.of(change)
    )


class _Observer:
    def __init__(self, salt: str, redactor: Redactor) -> None:
        self._salt = salt.encode()
        self._redactor = redactor

    def of(self, change: ResourceChange) -> Iterator[Observation]:
        if change.kind is ChangeKind.NO_OP:
            return  # Only moved.
        sides = sides_of(change.change)
        before = sides.before if isinstance(sides.before, dict) else {}
        resource = before.get("id")
        known: dict[str, Any] = {
            "address": change.address,
            "type": change.type,
            "resource": resource if isinstance(resource, str) else None,
        }
        if change.kind is ChangeKind.DELETE:
            yield Observation(
                **known,
                attribute=None,
                before=self._clean(
                    "", masked_value(sides.before, (sides.before_mask,), None, unknown_as=None)
                ),
                after=None,
                fingerprint=self._fingerprint(sides.before, None),
            )
            return
        if change.kind is not ChangeKind.UPDATE:
            raise NotUnderstood(f"{change.address}: {', '.join(change.actions)}")
        for path, part in drifted_attributes((), sides):
            yield self._observation(known, path, part)

    def _observation(self, known: dict[str, Any], path: Path, part: Sides) -> Observation:
        name = path_text(path, self._redactor.clean_key)
        last = next((step for step in reversed(path) if isinstance(step, str)), "")
        old, new = (None if isinstance(side, Nothing) else side for side in part[:2])
        masks = (part.before_mask, part.after_mask)
        before, after = (
            self._clean(last, masked_value(side, masks, None, unknown_as=None)) for side in (old, new)
        )
        return Observation(
            **known,
            attribute=name,
            before=before,
            after=after,
            sensitive=part.secret or (before == after and not equal(old, new)),
            fingerprint=self._fingerprint(old, new),
            number=_difference(old, new),
        )

    def _clean(self, name: str, value: Any) -> Any:
        return clean_value(self._redactor, name, _plain(value))

    def _fingerprint(self, before: Any, after: Any) -> str:
        content = encode([before, after])
        return hmac.new(self._salt, content, hashlib.sha256).hexdigest()[:32]


def drifted_attributes(path: Path, sides: Sides) -> Iterator[tuple[Path, Sides]]:
    """Into objects and maps, never into lists: the place of an element says nothing about which it is."""
    if sides.same:
        return
    both = isinstance(sides.before, dict) and isinstance(sides.after, dict)
    secret = sides.before_mask is True or sides.after_mask is True
    if not both or secret:
        if path:
            yield path, sides
        return
    for key in sorted(sides.before.keys() | sides.after.keys()):
        yield from drifted_attributes((*path, key), sides.inside(key, key))


def _difference(before: Any, after: Any) -> float | None:
    kinds = int | float | Decimal
    numbers = all(isinstance(side, kinds) and not isinstance(side, bool) for side in (before, after))
    return float(abs(after - before)) if numbers else None


def _plain(value: Any) -> Any:
    """As JSON can be written; the fingerprint has every digit."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value
