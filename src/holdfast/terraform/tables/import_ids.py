"""The import id of a resource, by the table `import_ids.json` beside this file.

Most types are imported by their `id`. A wrong id is worse than none: it can name another resource, which the
next plan would then change. So an id is returned only when every part of it is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, field

from holdfast.terraform.tables.import_template import Missing, fill, parse

_ID = parse("{id}")
_AWS = "aws_"


class ImportId(Struct, frozen=True, kw_only=True):
    value: str
    note: str | None = None
    """Help for the case that the import fails."""


class NotImportable(Struct, frozen=True, kw_only=True):
    reason: str
    """A clause: `the provider does not support import for it`."""
    harmless: bool = False
    """Creating the resource again loses nothing: a plan may simply do that."""
    note: str | None = None


class NotKnown(Struct, frozen=True, kw_only=True):
    needs: tuple[str, ...]
    """The attributes whose values are missing."""
    reason: str
    note: str | None = None


ImportIdResult = ImportId | NotImportable | NotKnown


class RecreatableType(Struct, frozen=True, kw_only=True):
    """A type whose resources can be created again without a loss."""

    type: str
    why: str
    template: str | None = field(name="import", default=None)
    unless: str | None = None
    """With this attribute set, an import would be undone by the next plan."""


class ImportIdTable(Struct, frozen=True, kw_only=True):
    templates: dict[str, str]
    never: frozenset[str]
    looked_up: frozenset[str]
    since: dict[str, str]
    notes: dict[str, str]
    recreatable: tuple[RecreatableType, ...]

    def template(self, type_: str) -> str | None:
        """An exact rule wins over one with a *."""
        if type_ in self.templates:
            return self.templates[type_]
        matches = (text for name, text in self.templates.items() if "*" in name and fnmatchcase(type_, name))
        return next(matches, None)

    def row(self, type_: str) -> RecreatableType | None:
        return next((row for row in self.recreatable if fnmatchcase(type_, row.type)), None)

    def note(self, type_: str) -> str | None:
        if type_ in self.since:
            return f"It can be imported since version {self.since[type_]} of its provider."
        return self.notes.get(type_)


@cache
def shipped_table() -> ImportIdTable:
    """Read as a file: `importlib.resources` would cost every apply ten milliseconds."""
    return msgspec.json.decode(Path(__file__).with_name("import_ids.json").read_bytes(), type=ImportIdTable)


def find_import_id(*, type_: str, id_: str | None, attributes: Mapping[str, object]) -> ImportIdResult:
    """`id_` is the id in the apply log, `attributes` are the known attributes.

    In `attributes` null is empty, and a missing attribute is unknown.
    """
    table = shipped_table()
    row = table.row(type_)
    if row is not None:
        return _recreate(row, _known(type_, id_, attributes))
    note = table.note(type_)
    if type_ in table.never:
        return NotImportable(reason="the provider does not support import for it", note=note)
    text = table.template(type_)
    filled = fill(parse(text) if text is not None else _ID, _known(type_, id_, attributes))
    if filled and isinstance(filled, str):
        return ImportId(value=_in_region(type_, filled, attributes), note=note)
    needs = filled.names if isinstance(filled, Missing) else ("id",)
    reason = _reason(needs, text, looked_up=type_ in table.looked_up)
    return NotKnown(needs=needs, reason=reason, note=note)


@cache
def is_recreatable(type_: str) -> bool:
    """Its resources exist only in the state, or creating them again loses nothing."""
    return shipped_table().row(type_) is not None


@cache
def attributes_needed(type_: str) -> frozenset[str]:
    """The attributes that a plan must record of a resource, so that its import id can be built later."""
    table = shipped_table()
    row = table.row(type_)
    if row is not None:
        needed = parse(row.template).attributes if row.template is not None else frozenset()
        return (needed | ({row.unless} if row.unless is not None else frozenset())) - {"id"}
    needed = parse(table.template(type_) or "{id}").attributes
    if "base" in needed:
        needed |= {"role"}
    if type_.startswith(_AWS):
        needed |= {"region"}
    return needed - {"id", "base"}


def _recreate(row: RecreatableType, known: Mapping[str, object]) -> ImportIdResult:
    if row.template is not None and (row.unless is None or known.get(row.unless, "not known") in (None, {})):
        filled = fill(parse(row.template), known)
        if isinstance(filled, str):
            return ImportId(value=filled)
    return NotImportable(reason=row.why, harmless=True)


def _known(type_: str, id_: str | None, attributes: Mapping[str, object]) -> dict[str, object]:
    known = {name: value for name, value in attributes.items() if name != "id"}
    if id_ is not None:
        known["id"] = id_
        base = _base(type_, id_, attributes.get("role"))
        if base is not None:
            known["base"] = base
    return known


def _base(type_: str, id_: str, role: object) -> str | None:
    """The resource that a policy member belongs to. The id continues with the role, or /audit_config/."""
    if type_.endswith("_iam_audit_config"):
        base, separator, _ = id_.partition("/audit_config/")
        return base if separator else None
    if not isinstance(role, str) or not role:
        return None
    base, separator, _ = f"{id_}/".partition(f"/{role}/")
    return base if separator else None


def _in_region(type_: str, value: str, attributes: Mapping[str, object]) -> str:
    """An AWS resource with a region of its own is imported from there, not from the provider's region.

    Since version 6 every type has that attribute and accepts that suffix. An id with the region needs none.
    """
    region = attributes.get("region")
    if not type_.startswith(_AWS) or not isinstance(region, str) or not region:
        return value
    return value if value.startswith("arn:") or region in value else f"{value}@{region}"


def _reason(needs: tuple[str, ...], text: str | None, *, looked_up: bool) -> str:
    named, verb = ", ".join(f"`{name}`" for name in needs), "is" if len(needs) == 1 else "are"
    if text is None:
        return "its id is not in the log"
    if looked_up:
        return f"its import id has the form {text}, and {named} {verb} known only to the provider"
    return f"its import id has the form {text}, and {named} {verb} unknown"
