"""Types whose resources cannot simply be created again, by the table `stateful_types.json`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

_HOLDS = {
    "data": "holds data",
    "keys": "holds keys",
    "identity": "has an identity that others refer to",
    "address": "has an address that others refer to",
}


class Stateful(msgspec.Struct, frozen=True):
    """One row of the table."""

    holds: str
    """`data`, `keys`, `identity` or `address`: what is lost."""
    protect: dict[str, Any] = {}
    """Attributes that protect a resource, with the safe value: one, any of a list, a minimum, or set."""
    features: dict[str, Any] = {}
    """The same, in the `features` block of the provider."""
    unwritten: tuple[str, ...] = ()
    """Those of both whose default is the safe value."""
    refuses: tuple[str, ...] = ()
    """Those that refuse the deletion as long as it holds data."""
    note: str | None = None
    transient: bool = False
    """Its data passes through or is a copy (machines, queues, caches, logs), or it is part of a resource that
    is protected as a whole."""

    @property
    def loss(self) -> str:
        return _HOLDS[self.holds] + (f" ({self.note})" if self.note else "")

    @property
    def sufficient(self) -> dict[str, Any]:
        """Settings that refuse a deletion; for types without one, settings that limit the loss.

        A final snapshot or a recovery window is not enough if the type supports real protection.
        """
        strong = {
            name: safe
            for name, safe in self.protect.items()
            if safe is True
            or isinstance(safe, list)
            or (isinstance(safe, str) and safe != "set")
            or name in self.refuses
        }
        return strong or self.protect

    @property
    def protections(self) -> tuple[str, ...]:
        """`deletion_protection = true`: what protects the resource outside of Holdfast too."""
        return self._described(self.protect)

    @property
    def sufficient_protections(self) -> tuple[str, ...]:
        """Those of which one is enough."""
        return self._described(self.sufficient)

    def _described(self, settings: dict[str, Any]) -> tuple[str, ...]:
        return (
            *(f"`{_written(name, safe)}`" for name, safe in settings.items()),
            *(f"`{_written(name, safe)}` in the provider's features" for name, safe in self.features.items()),
        )


def _written(name: str, safe: Any) -> str:
    match safe:
        case "set":
            return name
        case {"min": least}:
            return f"{name} >= {least}"
        case list():
            return f"{name} = {' or '.join(map(_value, safe))}"
        case _:
            return f"{name} = {_value(safe)}"


def _value(safe: Any) -> str:
    return msgspec.json.encode(safe).decode()


@functools.cache
def table_bytes() -> bytes:
    """Read as a file: `importlib.resources` would cost every command ten milliseconds."""
    return Path(__file__).with_name("stateful_types.json").read_bytes()


@functools.cache
def stateful_types() -> dict[str, Stateful]:
    return msgspec.json.decode(table_bytes(), type=dict[str, Stateful])
