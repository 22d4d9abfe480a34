"""Compares outputs with a contract. An unknown value is reported as unknown, never accepted. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.contract.schema import Contract, Part, Type
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import cut

_LONGEST: Final = 60
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOSTNAME: Final = pattern(rf"(?=.{{1,253}}\.?$){_LABEL}(?:\.{_LABEL})*\.?")
_ONLY_NUMBERS: Final = pattern(r"[0-9.]+")
_URI: Final = pattern(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_UUID: Final = pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ARN: Final = pattern(r"arn:[a-z0-9-]+:[a-z0-9-]*:[a-z0-9-]*:[0-9]*:\S+")


class DifferenceKind(StrEnum):
    MISSING = "missing"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """Not known until apply."""


class OutputValue(Struct, frozen=True, kw_only=True):
    """An output: strings, numbers, bools, None, lists and mappings, with unknowns anywhere inside."""

    value: object
    sensitive: bool = False
    """It is never shown."""


class Difference(Struct, frozen=True, kw_only=True):
    kind: DifferenceKind
    output: str
    path: str
    """`env_gateway_public_addresses.prod`."""
    message: str
    """Which part, what the contract expects, what the output is."""


def compare(contract: Contract, given: Mapping[str, OutputValue]) -> Iterator[Difference]:
    """Where the outputs break the contract, in the contract's order."""
    values = {name: output.value for name, output in given.items()}
    for name, part in contract.outputs.items():
        names = [alias for alias in (name, *part.aliases) if alias in given]
        output = given[names[0]] if names else None
        for other in names[1:]:
            if _differ(values[names[0]], values[other]):
                message = f"`{names[0]}` and `{other}` both exist, and they differ"
                yield Difference(kind=DifferenceKind.WRONG, output=other, path=other, message=message)
        comparison = _Comparison(values, hide=output is not None and output.sensitive)
        value = output.value if output is not None else None
        for kind, path, message in comparison.part(name, part, value, exists=output is not None):
            yield Difference(kind=kind, output=names[0] if names else name, path=path, message=message)


_Finding = tuple[DifferenceKind, str, str]


class _Comparison:
    def __init__(self, outputs: Mapping[str, object], *, hide: bool) -> None:
        self._outputs = outputs
        self._hide = hide

    def part(self, path: str, part: Part, value: object, *, exists: bool) -> Iterator[_Finding]:
        if isinstance(value, Unknown):
            yield DifferenceKind.UNKNOWN, path, f"`{path}` is not known until apply"
        elif not exists or value is None:
            yield from self._missing(path, part, exists=exists)
        elif not _has_type(part, value):
            yield (
                DifferenceKind.WRONG,
                path,
                f"`{path}` must be {part.expected}, but is {self._describe(value)}",
            )
        elif part.type is Type.OBJECT and isinstance(value, Mapping):
            yield from self._object(path, part, value)
        elif part.items is not None:
            pairs = value.items() if isinstance(value, Mapping) else enumerate(_items(value))
            for key, item in pairs:
                yield from self.part(f"{path}[{key}]", part.items, item, exists=True)

    def _missing(self, path: str, part: Part, *, exists: bool) -> Iterator[_Finding]:
        state = "null" if exists else "missing"
        what = f" ({part.says})" if part.says else ""
        message = f"`{path}` is {state}; expected {part.expected}{what}"
        if not part.required:
            return
        if part.unless is None:
            yield DifferenceKind.MISSING, path, message
            return
        deciding = self._outputs.get(part.unless.output)
        if isinstance(deciding, Unknown):
            yield (
                DifferenceKind.UNKNOWN,
                path,
                f"whether `{path}` is required depends on `{part.unless.output}`",
            )
        elif deciding not in part.unless.values:
            yield DifferenceKind.MISSING, path, message

    def _object(self, path: str, part: Part, value: Mapping[str, object]) -> Iterator[_Finding]:
        for name, inner in part.keys.items():
            names = [alias for alias in (name, *inner.aliases) if alias in value]
            if len(names) > 1 and _differ(value[names[0]], value[names[1]]):
                message = f"`{path}` has both `{names[0]}` and `{names[1]}`, and they differ"
                yield DifferenceKind.WRONG, f"{path}.{names[1]}", message
            member = value[names[0]] if names else None
            yield from self.part(f"{path}.{names[0] if names else name}", inner, member, exists=bool(names))
        if part.any_of and all(value.get(name) is None for name in part.any_of):
            expected = " or ".join(f"`{name}`" for name in part.any_of)
            has = ", ".join(f"`{key}`" for key, inner in value.items() if inner is not None) or "nothing"
            yield DifferenceKind.MISSING, path, f"`{path}` needs {expected}, but has {has}"

    def _describe(self, value: object) -> str:
        kind = _kind(value)
        if self._hide or isinstance(value, Mapping | list | tuple):
            return kind
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f"{kind} (`{cut(text, _LONGEST)}`)" if text.isprintable() and text else kind


def _differ(left: object, right: object) -> bool:
    """Only if certain: values with unknowns may turn out to be equal."""
    return left != right and not _contains_unknown(left) and not _contains_unknown(right)


def _contains_unknown(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_contains_unknown, value.values()))
    return any(map(_contains_unknown, _items(value))) or isinstance(value, Unknown)


def _items(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a bool"
        case str():
            return "a string" if value else "an empty string"
        case int() | float():
            return "a number"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return "something else"


def _has_type(part: Part, value: object) -> bool:  # noqa: PLR0911 - one for each type
    if part.one_of and value not in part.one_of:
        return False
    match part.type:
        case Type.ANY:
            return True
        case Type.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Type.BOOL:
            return isinstance(value, bool)
        case Type.LIST:
            return isinstance(value, list | tuple)
        case Type.MAP | Type.OBJECT:
            return isinstance(value, Mapping)
        case _:
            return isinstance(value, str) and bool(value.strip()) and _FORMS[part.type](value)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_hostname(text: str) -> bool:
    return bool(_HOSTNAME.fullmatch(text)) and not _ONLY_NUMBERS.fullmatch(text)


_FORMS: Mapping[Type, Callable[[str], bool]] = {
    Type.STRING: lambda _: True,
    Type.ADDRESS: lambda text: _is_ip(text) or _is_hostname(text),
    Type.IP: _is_ip,
    Type.HOSTNAME: _is_hostname,
    Type.URI: lambda text: bool(_URI.fullmatch(text)),
    Type.UUID: lambda text: bool(_UUID.fullmatch(text)),
    Type.ARN: lambda text: bool(_ARN.fullmatch(text)),
}

NOT_KNOWN: Final = OutputValue(value=UNKNOWN)
"""An output that exists, but whose value is not known."""
