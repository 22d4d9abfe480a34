"""Documents about configuration files, generated from their declarations and committed in docs/."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, assert_never

from holdfast.config.blueprint import BlueprintSettings
from holdfast.config.declarations import Group, Key, ListOf, Names, ScalarOrMapping, Section, Shape, walk
from holdfast.config.defaults import EntryDefaults
from holdfast.config.output_refs import OutputInput
from holdfast.config.secret_refs import REFERENCE_PATTERN
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Config
from holdfast.config.shapes import (
    DURATION,
    SIZE,
    AnyValue,
    Choice,
    Duration,
    Flag,
    FormatVersion,
    Integer,
    Number,
    SecretOnly,
    Size,
    Text,
    Verbatim,
)
from holdfast.config.stack_rules import StackRule

JsonSchema = dict[str, Any]

_HEAD = """\
# Configuration keys

Every key of `holdfast.yaml`. [Configuration](configuration.md) explains how they work together. This page is generated: `make docs` writes it.

In a key, `*` is a name that you choose and `[]` an item of a list. Durations are `90s`, `30m`, `24h`, `1h30m`, `90d` or plain seconds; sizes are `500MB`, `5GB`, `1GiB` or plain bytes.
"""  # noqa: E501 - one paragraph is one line, as on every page
_SERVER_HEAD = """\
# Keys of server.yaml

Every key of `server.yaml`, the configuration of `holdfast serve`: [the server](server.md). This page is generated: `make docs` writes it.

In a key, `*` is a name that you choose and `[]` an item of a list. Durations are `90s`, `30m`, `24h`, `1h30m`, `90d` or plain seconds; sizes are `500MB`, `5GB`, `1GiB` or plain bytes.
"""  # noqa: E501 - as above
_BLUEPRINT_HEAD = """\
# Keys of blueprint.yaml

Every key of `blueprint.yaml`: [blueprints](blueprints.md). This page is generated: `make docs` writes it.

In a key, `*` is a name that you choose and `[]` an item of a list. Durations are `90s`, `30m`, `24h`, `1h30m`, `90d` or plain seconds. What is below {shared} is the same as in [`holdfast.yaml`](configuration-keys.md).
"""  # noqa: E501 - as above
_LINK = r"\[([^\]]*)\]\([^)]*\)"
_SECRET = {"$ref": "#/$defs/secret"}
_TABLE_HEAD = ("| key | default | meaning |", "|---|---|---|")


def schema() -> str:
    """JSON Schema (draft 2020-12), for editors.

    It accepts everything that the reader accepts. The reader checks more: placeholders, names that must
    exist, and bounds that a pattern cannot express.
    """
    whole: JsonSchema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holdfast.yaml",
        "description": "The configuration of Holdfast. docs/configuration-keys.md explains every key.",
        **schema_of(Config),
        "$defs": {
            "secret": {
                "description": "Where a secret value comes from: scheme:locator.",
                "type": "object",
                "properties": {"secret": {"type": "string", "pattern": _anchored(REFERENCE_PATTERN)}},
                "required": ["secret"],
                "additionalProperties": False,
            },
            "output": schema_of(OutputInput),
            "defaults": _section(EntryDefaults, partial=True),
            "value": _any_value(null=False),
            "value_or_null": _any_value(null=True),
        },
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _any_value(*, null: bool) -> JsonSchema:
    itself = {"$ref": "#/$defs/value_or_null" if null else "#/$defs/value"}
    scalars = ["string", "number", "boolean", *(["null"] if null else [])]
    mapping = {"type": "object", "not": {"required": ["secret"]}, "additionalProperties": itself}
    return {"anyOf": [{"type": scalars}, {"type": "array", "items": itself}, _SECRET, mapping]}


def schema_of(shape: Shape | Group, *, partial: bool = False) -> JsonSchema:  # noqa: C901, PLR0911, PLR0912 - a row per kind
    """`partial`: a mapping that defaults may complete, so it need not have its required keys."""
    match shape:
        case type() if shape is EntryDefaults:
            return {"$ref": "#/$defs/defaults"}
        case type():
            return {**_section(shape, partial=partial or shape is StackRule), **shape.schema_rules}
        case Group():
            return _section(shape, partial=partial)
        case ListOf():
            item = schema_of(shape.item)
            items = {"type": "array", "items": item}
            return {"anyOf": [item, items]} if shape.single else items
        case Names():
            return _names(shape, partial=partial)
        case ScalarOrMapping():
            return {"anyOf": [schema_of(shape.scalar), schema_of(shape.mapping, partial=partial)]}
        case Text():
            return _text(shape)
        case Choice():
            return {"enum": [str(value) for value in shape.values]}
        case Flag():
            return {"type": "boolean"}
        case Number():
            kind = "integer" if isinstance(shape, Integer) else "number"
            return {"type": kind, "minimum": shape.minimum, "maximum": shape.maximum}
        case FormatVersion():
            return {"const": shape.known}
        case Duration():
            return _amount(DURATION, {"minimum": shape.minimum, "maximum": shape.maximum})
        case Size():
            return _amount(SIZE, {"minimum": 1})
        case SecretOnly():
            return dict(_SECRET)
        case Verbatim():
            return {"type": "object"}
        case AnyValue(nested=False):
            return {"anyOf": [{"type": ["string", "number", "boolean"]}, _SECRET]}
        case AnyValue(outputs=True):
            return {"anyOf": [{"$ref": "#/$defs/output"}, {"$ref": "#/$defs/value_or_null"}]}
        case AnyValue():
            return {"$ref": "#/$defs/value_or_null" if shape.null else "#/$defs/value"}
        case _:
            assert_never(shape)


def _section(section: type[Section] | Group, *, partial: bool = False) -> JsonSchema:
    schema: JsonSchema = {
        "type": "object",
        "properties": {name: _key(key, partial=partial) for name, key in section.keys.items()},
        "additionalProperties": False,
    }
    if not partial and (required := [name for name, key in section.keys.items() if key.required]):
        schema["required"] = required
    return schema


def _key(key: Key, *, partial: bool = False) -> JsonSchema:
    schema: JsonSchema = {
        "description": re.sub(_LINK, r"\1", key.doc),
        **schema_of(key.shape, partial=partial),
    }
    if key.default is not None and key.default_doc is None:
        schema["default"] = key.default
    return schema


def _names(names: Names, *, partial: bool = False) -> JsonSchema:
    allowed: list[JsonSchema] = [{"pattern": _anchored(names.pattern)}]
    if names.reserved:
        reserved = "|".join(reserved.pattern for reserved in names.reserved)
        allowed.append({"not": {"pattern": _anchored(reserved)}})
    return {
        "type": "object",
        "propertyNames": {"allOf": allowed},
        "additionalProperties": schema_of(names.value, partial=partial),
    }


def _text(text: Text) -> JsonSchema:
    types = ["string", *(["number"] if text.numbers else []), *(["boolean"] if text.flags else [])]
    schema: JsonSchema = {
        "type": types if len(types) > 1 else "string",
        "minLength": 1,
        "maxLength": text.max_length,
    }
    if text.pattern is not None:
        schema["pattern"] = _anchored(text.pattern)
    return {"anyOf": [schema, _SECRET]} if text.secret else schema


def _amount(pattern: str, limits: JsonSchema) -> JsonSchema:
    return {"anyOf": [{"type": "string", "pattern": _anchored(pattern)}, {"type": "integer", **limits}]}


def _anchored(pattern: str) -> str:
    """JSON Schema searches; the reader matches the whole text."""
    return f"^(?:{pattern})$"


def keys_page() -> str:
    """The reference page of all keys of holdfast.yaml."""
    return _HEAD + _tables(Config)


def server_keys_page() -> str:
    """The reference page of all keys of server.yaml."""
    return _SERVER_HEAD + _tables(ServerSettings)


def blueprint_keys_page() -> str:
    """The reference page of all keys of blueprint.yaml."""
    shared = [name for name in BlueprintSettings.keys if name not in BlueprintSettings.by_field]
    nested = [name for name in shared if any(walk(BlueprintSettings.keys[name].shape))]
    names = ", ".join(f"`{name}`" for name in nested)
    return _BLUEPRINT_HEAD.replace("{shared}", names) + _tables(BlueprintSettings, nested)


def _tables(whole: type[Section], elsewhere: Collection[str] = ()) -> str:
    """Without what is inside the keys that another page explains."""
    sections: dict[str, list[str]] = {"The file": []}
    for path, key in keys_once(whole):
        top = path.partition(".")[0].removesuffix("[]")
        if top in elsewhere and path != top:
            continue
        alone = top in elsewhere or not any(walk(whole.keys[top].shape))
        title = "The file" if alone else f"`{top}`"
        row = f"| `{path}` | {_default(key)} | {key.doc} |"
        sections.setdefault(title, []).append(row)
    tables = ("\n".join((f"\n## {title}\n", *_TABLE_HEAD, *rows)) for title, rows in sections.items())
    return "\n".join(tables) + "\n"


def keys_once(whole: type[Section] = Config) -> Iterator[tuple[str, Key]]:
    """Each key under its shortest path: what `guard.environments` repeats is listed in `guard` only."""
    shortest: dict[object, str] = {}
    for path, key in walk(whole):
        known = shortest.setdefault(_identity(key), path)
        if path.count(".") < known.count("."):
            shortest[_identity(key)] = path
    return ((path, key) for path, key in walk(whole) if shortest[_identity(key)] == path)


def _identity(key: Key) -> object:
    return (key.path, key.doc) if isinstance(key.shape, Group) else id(key)


def _default(key: Key) -> str:
    if key.required or key.default_doc is not None:
        return "required" if key.required else key.default_doc or ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return "" if key.default is None else f"`{key.default}`"
