"""What differs between two versions of a state: objects, their attributes, outputs. Pure.

No text leaves this module for an attribute that either version calls sensitive. Where a state does not say
all that is sensitive (`_tells_all`), only the names of attributes are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import dataclass, field
from holdfast.terraform.addresses import resource_text
from holdfast.terraform.plan.values import SENSITIVE, Difference, differences_of
from holdfast.terraform.versions import Version

_MOST_ATTRIBUTES = 50
_WIDEST = 80
_MARKS_SINCE = Version.parse("1.11.0")
"""From here on Terraform is known to write down in the state what a provider's schema calls sensitive."""
_BUILTIN = "terraform.io/builtin/"
_TOFU_REGISTRY = "registry.opentofu.org/"
_NULL = msgspec.Raw(b"null")


class _Instance(msgspec.Struct, frozen=True, gc=False):
    index_key: int | str | None = None
    deposed: str | None = None
    status: str | None = None
    attributes: msgspec.Raw = _NULL
    attributes_flat: msgspec.Raw = _NULL
    sensitive_attributes: Any = None

    def __repr__(self) -> str:
        return "_Instance(…)"


class _Resource(msgspec.Struct, frozen=True, gc=False):
    mode: str
    type: str
    name: str
    module: str | None = None
    provider: str = ""
    instances: list[_Instance] | None = None


class _Output(msgspec.Struct, frozen=True, gc=False):
    value: msgspec.Raw = _NULL
    sensitive: bool = False

    def __repr__(self) -> str:
        return f"_Output(sensitive={self.sensitive!r}, …)"


class _State(msgspec.Struct, frozen=True, gc=False):
    terraform_version: str | None = None
    outputs: dict[str, _Output] | None = None
    resources: list[_Resource] | None = None


_STATE = msgspec.json.Decoder(_State)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_Place = tuple[str, str | None]
"""An address, and the key of a deposed object."""


class Moved(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeDiff:
    path: str
    before: str | None
    """None: it is not there, or null."""
    after: str | None
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDiff:
    address: str
    deposed: str | None
    moved: Moved
    attributes: tuple[AttributeDiff, ...] = ()
    """Of an object that changed."""
    more: int = 0
    """How many attributes more there are."""
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDiff:
    name: str
    moved: Moved
    before: str | None
    after: str | None
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDiff:
    objects: tuple[ObjectDiff, ...]
    outputs: tuple[OutputDiff, ...]

    @property
    def same(self) -> bool:
        return not self.objects and not self.outputs


Clean = Callable[[str, str], str]
"""The redactor for a text that stands under a name."""


def diff(before: bytes, after: bytes, *, clean: Clean, tofu: bool = False) -> StateDiff | None:
    """None where one of them cannot be looked into: it is encrypted, or no state.

    `tofu`: the stack's engine is OpenTofu, which writes its own version where Terraform writes its own.
    """
    old, new = _opened(before), _opened(after)
    if old is None or new is None:
        return None
    return StateDiff(
        objects=tuple(_object_diffs(_objects(old, tofu=tofu), _objects(new, tofu=tofu), clean)),
        outputs=tuple(_output_diffs(old.outputs or {}, new.outputs or {}, clean)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    tainted: bool
    attributes: bytes = field(repr=False)
    hidden: frozenset[str] | None
    """Names of attributes that hold something sensitive; None: any may."""

    def mask(self) -> dict[str, bool]:
        """A whole attribute is hidden when any part of it is sensitive."""
        names = _FIELDS.decode(self.attributes) or {}
        return {name: self.hidden is None or name in self.hidden for name in names}


def _opened(state: bytes) -> _State | None:
    """An envelope of OpenTofu has none of these fields."""
    try:
        found = _STATE.decode(state)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.resources is not None or found.outputs is not None else None


def _objects(state: _State, *, tofu: bool) -> dict[_Place, _Object]:
    found: dict[_Place, _Object] = {}
    for resource in state.resources or ():
        told = _tells_all(resource.provider, state.terraform_version, tofu=tofu)
        for instance in resource.instances or ():
            address = resource_text(
                module=resource.module,
                mode=resource.mode,
                type_=resource.type,
                name=resource.name,
                key=instance.index_key,
            )
            raw = bytes(instance.attributes)
            found[address, instance.deposed or None] = _Object(
                tainted=instance.status == "tainted",
                attributes=raw if raw != b"null" else bytes(instance.attributes_flat),
                hidden=_hidden(instance.sensitive_attributes) if told else None,
            )
    return found


def _tells_all(provider: str, version: str | None, *, tofu: bool) -> bool:
    """Whether the state names everything that is sensitive, what the provider's schema says included."""
    if _BUILTIN in provider:
        return True
    if tofu or _TOFU_REGISTRY in provider or version is None:
        return False
    try:
        return Version.parse(version) >= _MARKS_SINCE
    except UsageError:
        return False


def _hidden(paths: Any) -> frozenset[str] | None:
    """The first step of each path. A path that is not understood hides everything."""
    names: set[str] = set()
    for path in paths or ():
        first = path[0] if isinstance(path, list) and path else None
        name = first.get("value") if isinstance(first, dict) else None
        if not isinstance(name, str):
            return None
        names.add(name)
    return frozenset(names)


def _object_diffs(
    old: Mapping[_Place, _Object], new: Mapping[_Place, _Object], clean: Clean
) -> Iterator[ObjectDiff]:
    for address, deposed in sorted(old.keys() | new.keys(), key=lambda place: (place[0], place[1] or "")):
        before, after = old.get((address, deposed)), new.get((address, deposed))
        whole = ObjectDiff(address=address, deposed=deposed, moved=Moved.CHANGED)
        if before is None or after is None:
            yield replace(whole, moved=Moved.ADDED if before is None else Moved.REMOVED)
            continue
        found = differences_of(
            before.attributes,
            after.attributes,
            before_mask=before.mask(),
            after_mask=after.mask(),
            clean=lambda text: clean("", text),
            at_most=_MOST_ATTRIBUTES,
        )
        note = None
        if before.tainted != after.tainted:
            note = "is tainted now" if after.tainted else "is tainted no more"
        if found.shown or note:
            yield replace(
                whole,
                attributes=tuple(_attribute(one, clean) for one in found.shown),
                more=found.hidden,
                note=note,
            )


def _attribute(found: Difference, clean: Clean) -> AttributeDiff:
    return AttributeDiff(
        path=found.path,
        before=clean(found.path, found.before) if found.before is not None else None,
        after=clean(found.path, found.after) if found.after is not None else None,
        sensitive=found.sensitive,
    )


def _output_diffs(
    old: Mapping[str, _Output], new: Mapping[str, _Output], clean: Clean
) -> Iterator[OutputDiff]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is not None and after is not None and _same(before, after):
            continue
        secret = any(one is not None and one.sensitive for one in (before, after))
        yield OutputDiff(
            name=name,
            moved=Moved.ADDED if before is None else Moved.REMOVED if after is None else Moved.CHANGED,
            before=_output_text(name, before, secret=secret, clean=clean),
            after=_output_text(name, after, secret=secret, clean=clean),
            sensitive=secret,
        )


def _same(one: _Output, other: _Output) -> bool:
    return one.sensitive == other.sensitive and (
        bytes(one.value) == bytes(other.value)
        or msgspec.json.decode(one.value) == msgspec.json.decode(other.value)
    )


def _output_text(name: str, output: _Output | None, *, secret: bool, clean: Clean) -> str | None:
    if output is None or secret:
        return None if output is None else SENSITIVE
    value = msgspec.json.decode(output.value)
    shown = clean(name, value) if isinstance(value, str) else value
    text = msgspec.json.encode(shown).decode()
    text = text if isinstance(value, str) else clean(name, text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
