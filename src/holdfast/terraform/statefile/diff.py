"""What differs between two versions of a state: resources, their attributes, outputs. Pure.

No value leaves this module for an attribute that either version marks as sensitive. Where a state does not
mark everything that is sensitive (`_marks_sensitive`), only the names of attributes are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.kernel.errors import UsageError
from holdfast.kernel.text import cut
from holdfast.terraform.plan.diff import SENSITIVE, SENSITIVE_CHANGED, Clean, Difference, differences_of
from holdfast.terraform.statefile.model import State, StateFile, StateOutput, StateResource
from holdfast.terraform.versions import Version

_MOST_ATTRIBUTES = 50
_WIDEST = 80
_MARKS_SINCE = Version.parse("1.11.0")
"""Since this version Terraform records in the state what a provider's schema marks as sensitive."""
_BUILTIN = "terraform.io/builtin/"
_TOFU_REGISTRY = "registry.opentofu.org/"
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_Place = tuple[str, str | None]
"""An address, and the key of a deposed resource."""


class DiffKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class ResourceDiff(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    deposed: str | None
    kind: DiffKind
    attributes: tuple[Difference, ...] = ()
    """Of a resource that changed."""
    more: int = 0
    """How many attributes more there are."""
    note: str | None = None


class OutputDiff(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: DiffKind
    before: str | None
    after: str | None
    sensitive: bool


class StateDiff(msgspec.Struct, frozen=True, kw_only=True):
    resources: tuple[ResourceDiff, ...]
    outputs: tuple[OutputDiff, ...]

    @property
    def same(self) -> bool:
        return not self.resources and not self.outputs


def diff_states(before: StateFile, after: StateFile, *, clean: Clean, tofu: bool = False) -> StateDiff | None:
    """None where one of them is encrypted or not a state.

    `tofu`: the stack's engine is OpenTofu, which writes its own version number as `terraform_version`.
    """
    if not isinstance(before, State) or not isinstance(after, State) or before.encrypted or after.encrypted:
        return None
    return StateDiff(
        resources=tuple(_resource_diffs(_by_place(before, tofu=tofu), _by_place(after, tofu=tofu), clean)),
        outputs=tuple(_output_diffs(_by_name(before), _by_name(after), clean)),
    )


class _Side(msgspec.Struct, frozen=True):
    """One resource in one of the two states."""

    resource: StateResource
    hidden: frozenset[str] | None
    """Names of attributes that hold something sensitive; None: any may."""

    def mask(self) -> dict[str, bool]:
        """A whole attribute is hidden when any part of it is sensitive."""
        names = _FIELDS.decode(self.resource.attributes) or {}
        return {name: self.hidden is None or name in self.hidden for name in names}


def _by_place(state: State, *, tofu: bool) -> dict[_Place, _Side]:
    sides: dict[_Place, _Side] = {}
    for resource in state.resources or ():
        marked = _marks_sensitive(resource.provider, state.terraform_version, tofu=tofu)
        hidden = _hidden(resource.sensitive_paths) if marked else None
        sides[resource.address, resource.deposed] = _Side(resource, hidden)
    return sides


def _by_name(state: State) -> dict[str, StateOutput]:
    return {output.name: output for output in state.outputs or ()}


def _marks_sensitive(provider: str, version: str | None, *, tofu: bool) -> bool:
    """Whether the state marks everything that is sensitive, including by the provider's schema."""
    if _BUILTIN in provider:
        return True
    if tofu or _TOFU_REGISTRY in provider or version is None:
        return False
    try:
        return Version.parse(version) >= _MARKS_SINCE
    except UsageError:
        return False


def _hidden(paths: Any) -> frozenset[str] | None:
    """The first step of each path. An unknown kind of path hides everything."""
    names: set[str] = set()
    for path in paths or ():
        first = path[0] if isinstance(path, list) and path else None
        name = first.get("value") if isinstance(first, dict) else None
        if not isinstance(name, str):
            return None
        names.add(name)
    return frozenset(names)


def _resource_diffs(
    old: Mapping[_Place, _Side], new: Mapping[_Place, _Side], clean: Clean
) -> Iterator[ResourceDiff]:
    for address, deposed in sorted(old.keys() | new.keys(), key=lambda place: (place[0], place[1] or "")):
        before, after = old.get((address, deposed)), new.get((address, deposed))
        if before is None or after is None:
            yield ResourceDiff(address=address, deposed=deposed, kind=_kind(before, after))
            continue
        differences = differences_of(
            before.resource.attributes,
            after.resource.attributes,
            before_mask=before.mask(),
            after_mask=after.mask(),
            clean=clean,
            at_most=_MOST_ATTRIBUTES,
        )
        note = None
        if before.resource.tainted != after.resource.tainted:
            note = "is now tainted" if after.resource.tainted else "is no longer tainted"
        if differences.shown or note:
            yield ResourceDiff(
                address=address,
                deposed=deposed,
                kind=DiffKind.CHANGED,
                attributes=tuple(_clean(difference, clean) for difference in differences.shown),
                more=differences.hidden,
                note=note,
            )


def _kind(before: object, after: object) -> DiffKind:
    if before is None:
        return DiffKind.ADDED
    return DiffKind.REMOVED if after is None else DiffKind.CHANGED


def _clean(difference: Difference, clean: Clean) -> Difference:
    path, before, after = difference.path, difference.before, difference.after
    return msgspec.structs.replace(
        difference,
        before=clean(path, _unquote(before)) if before is not None else None,
        after=clean(path, _unquote(after)) if after is not None else None,
    )


def _unquote(text: str) -> str:
    """A string without its quotes, where it cannot be mistaken for another value."""
    if text == SENSITIVE_CHANGED:
        return SENSITIVE
    inner = text[1:-1]
    if (
        text != f'"{inner}"'
        or not inner.strip()
        or inner != inner.strip()
        or "\\" in inner
        or inner[0] == "("
    ):
        return text
    try:
        msgspec.json.decode(inner)
    except msgspec.DecodeError:
        return inner
    return text


def _output_diffs(
    old: Mapping[str, StateOutput], new: Mapping[str, StateOutput], clean: Clean
) -> Iterator[OutputDiff]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is not None and after is not None and _same(before, after):
            continue
        secret = any(output is not None and output.sensitive for output in (before, after))
        yield OutputDiff(
            name=name,
            kind=_kind(before, after),
            before=_output_text(before, secret=secret, clean=clean),
            after=_output_text(after, secret=secret, clean=clean),
            sensitive=secret,
        )


def _same(before: StateOutput, after: StateOutput) -> bool:
    return before.sensitive == after.sensitive and (
        bytes(before.value) == bytes(after.value) or before.read() == after.read()
    )


def _output_text(output: StateOutput | None, *, secret: bool, clean: Clean) -> str | None:
    if output is None or secret:
        return None if output is None else SENSITIVE
    value = output.read()
    shown = clean(output.name, value) if isinstance(value, str) else value
    text = msgspec.json.encode(shown).decode()
    text = text if isinstance(value, str) else clean(output.name, text)
    return cut(text, _WIDEST)
