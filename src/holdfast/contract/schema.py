"""A contract: which outputs a stack must have, of which type, and which of them are optional.

    version: 1
    name: acme
    extends: platform-v1
    outputs:
      registry: { type: hostname, says: where images are pushed }
      node_pools: { type: list, items: string, required: false }

A part is written as its type alone, or as a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field


class Type(StrEnum):
    """Expected types. Those after `BOOL` and before `LIST` are strings of a certain form."""

    ANY = "any"
    STRING = "string"
    NUMBER = "number"
    BOOL = "bool"
    ADDRESS = "address"
    IP = "ip"
    HOSTNAME = "hostname"
    URI = "uri"
    UUID = "uuid"
    ARN = "arn"
    LIST = "list"
    MAP = "map"
    OBJECT = "object"


_EXPECTED: Mapping[str, str] = {
    "any": "a value",
    "address": "an IP address or a host name",
    "ip": "an IP address",
    "hostname": "a host name",
    "uri": "a URI such as `https://a.example`",
    "uuid": "a UUID",
    "arn": "an ARN",
    "object": "an object",
}
"""The other types are expected by their name."""


class Unless(Struct, frozen=True, kw_only=True):
    """The part is optional where another output has one of these values."""

    output: str
    values: tuple[str, ...]


class Part(Struct, frozen=True, kw_only=True):
    """An output, or a part of one."""

    type: Type
    required: bool = True
    """If not, it may be missing or null."""
    unless: Unless | None = None
    says: str | None = None
    """Its description, for messages."""
    one_of: tuple[str, ...] = ()
    """The only strings that are valid."""
    aliases: tuple[str, ...] = ()
    """Other names it may have."""
    keys: Mapping[str, Part] = field(default_factory=lambda: MappingProxyType({}))
    """Of an object, which may have more keys than these."""
    any_of: tuple[str, ...] = ()
    """Of an object: at least one of these keys must exist."""
    items: Part | None = None
    """Of a list or a map: what each of its values must be."""

    @property
    def expected(self) -> str:
        """`an IP address or a host name`, `one of `azure`, `aws``: for messages."""
        if self.one_of:
            return f"one of {', '.join(f'`{text}`' for text in self.one_of)}"
        return _EXPECTED.get(self.type, f"a {self.type}")


class Contract(Struct, frozen=True, kw_only=True):
    name: str
    outputs: Mapping[str, Part]
