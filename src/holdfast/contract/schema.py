"""What a contract says: the outputs that are wanted, of which type, and which of them may be missing.

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
    """What a value can be asked to be. Those after `BOOL` and before `LIST` are texts of a certain form."""

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


WANTED: Mapping[Type, str] = MappingProxyType(
    {
        Type.ANY: "a value",
        Type.STRING: "a text",
        Type.NUMBER: "a number",
        Type.BOOL: "true or false",
        Type.ADDRESS: "an IP address or a host name",
        Type.IP: "an IP address",
        Type.HOSTNAME: "a host name",
        Type.URI: "a URI such as `https://a.example`",
        Type.UUID: "a UUID",
        Type.ARN: "an ARN",
        Type.LIST: "a list",
        Type.MAP: "a map",
        Type.OBJECT: "an object",
    }
)


class Unless(Struct, frozen=True, kw_only=True):
    """The part may be missing where another output has one of these values."""

    output: str
    values: tuple[str, ...]


class Part(Struct, frozen=True, kw_only=True):
    """An output, or a part of one."""

    type: Type
    required: bool = True
    """A part that is not may be missing or null."""
    unless: Unless | None = None
    says: str | None = None
    """What it is, in words."""
    one_of: tuple[str, ...] = ()
    """Texts: the only ones that are right."""
    aliases: tuple[str, ...] = ()
    """Other names it may have."""
    keys: Mapping[str, Part] = field(default_factory=lambda: MappingProxyType({}))
    """Of an object. More keys than these are welcome."""
    any_of: tuple[str, ...] = ()
    """Of an object: at least one of these keys must be there."""
    items: Part | None = None
    """Of a list or a map: what each of its values is."""

    @property
    def wanted(self) -> str:
        """`an IP address or a host name`, `one of `azure`, `aws``: for messages."""
        if self.one_of:
            return f"one of {', '.join(f'`{one}`' for one in self.one_of)}"
        return WANTED[self.type]


class Contract(Struct, frozen=True, kw_only=True):
    name: str
    outputs: Mapping[str, Part]
