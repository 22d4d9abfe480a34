"""The JSON Schema (draft 2020-12) of holdfast.yaml, for editors, from the same description as the reader.

It accepts everything the reader accepts. The reader knows more: placeholders, names that must exist, and
bounds that a pattern cannot say.
"""

from __future__ import annotations

import json
from typing import Any, assert_never

from holdfast.config import quantities
from holdfast.config.keys import HOLDFAST
from holdfast.config.references import PATTERN as SECRET_PATTERN
from holdfast.config.shape import (
    Anything,
    Choice,
    Duration,
    Either,
    Flag,
    Form,
    Key,
    ListOf,
    Names,
    Number,
    Record,
    SecretOnly,
    Shape,
    Size,
    Text,
    Version,
    Whole,
)

_Schema = dict[str, Any]
_SECRET: _Schema = {"$ref": "#/$defs/secret"}


def document() -> str:
    """The schema as it is committed in docs/."""
    whole: _Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holdfast.yaml",
        "description": "The configuration of Holdfast. docs/configuration.md explains every key.",
        **_schema(HOLDFAST),
        "$defs": {
            "secret": {
                "description": "Where a value is to be had: scheme:locator.",
                "type": "object",
                "properties": {"secret": {"type": "string", "pattern": _whole(SECRET_PATTERN)}},
                "required": ["secret"],
                "additionalProperties": False,
            },
            "value": _any_value(null=False),
            "value_or_null": _any_value(null=True),
        },
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


def _any_value(*, null: bool) -> _Schema:
    itself = {"$ref": "#/$defs/value_or_null" if null else "#/$defs/value"}
    scalars = ["string", "number", "boolean", *(["null"] if null else [])]
    mapping = {"type": "object", "not": {"required": ["secret"]}, "additionalProperties": itself}
    return {"anyOf": [{"type": scalars}, {"type": "array", "items": itself}, _SECRET, mapping]}


def _schema(shape: Shape) -> _Schema:  # noqa: C901, PLR0911, PLR0912 - one row per kind
    match shape:
        case Text():
            return _text(shape)
        case Choice():
            return {"enum": list(shape.values)}
        case Flag():
            return {"type": "boolean"}
        case Whole():
            return {"type": "integer", "minimum": shape.least, "maximum": shape.most}
        case Number():
            return {"type": "number", "minimum": shape.least, "maximum": shape.most}
        case Version():
            return {"const": shape.known}
        case Duration():
            number = {"type": "integer", "minimum": shape.least, "maximum": shape.most}
            return {"anyOf": [{"type": "string", "pattern": _whole(quantities.DURATION)}, number]}
        case Size():
            number = {"type": "integer", "minimum": 1}
            return {"anyOf": [{"type": "string", "pattern": _whole(quantities.SIZE)}, number]}
        case SecretOnly():
            return dict(_SECRET)
        case Anything(nested=False):
            return {"anyOf": [{"type": ["string", "number", "boolean"]}, _SECRET]}
        case Anything():
            return {"$ref": "#/$defs/value_or_null" if shape.null else "#/$defs/value"}
        case Names():
            return _names(shape)
        case ListOf():
            item = _schema(shape.item)
            many = {"type": "array", "items": item}
            return {"anyOf": [item, many]} if shape.single else many
        case Either():
            return {"anyOf": [_schema(shape.text), _schema(shape.mapping)]}
        case Record():
            return _record(shape)
        case _:
            assert_never(shape)


def _text(shape: Text) -> _Schema:
    text: _Schema = {
        "type": _types_of(shape),
        "minLength": 1,
        "maxLength": shape.most,
    }
    if shape.pattern is not None:
        text["pattern"] = _whole(shape.pattern)
    return {"anyOf": [text, _SECRET]} if shape.secret else text


def _types_of(shape: Text) -> str | list[str]:
    more = [*(["number"] if shape.numbers else []), *(["boolean"] if shape.flags else [])]
    return ["string", *more] if more else "string"


def _names(shape: Names) -> _Schema:
    allowed: list[_Schema] = [{"pattern": _whole(shape.pattern)}]
    if shape.refused:
        allowed.append({"not": {"pattern": _whole("|".join(one.pattern for one in shape.refused))}})
    return {
        "type": "object",
        "propertyNames": {"allOf": allowed},
        "additionalProperties": _schema(shape.value),
    }


def _record(shape: Record) -> _Schema:
    record: _Schema = {
        "type": "object",
        "properties": {key.name: _key(key) for key in shape.keys},
        "additionalProperties": False,
    }
    if required := [key.name for key in shape.keys if key.required]:
        record["required"] = required
    if shape.at_least_one:
        record["minProperties"] = 1
    if shape.forms:
        record.update(_forms(shape.forms))
    return record


def _key(key: Key) -> _Schema:
    described: _Schema = {"description": key.doc, **_schema(key.shape)}
    if key.default is not None:
        described["default"] = key.default
    return described


def _forms(forms: tuple[Form, ...]) -> _Schema:
    form, *rest = forms
    needs: _Schema = {"required": [form.key]}
    if not rest:
        return needs
    if form.text:
        needs["properties"] = {form.key: {"type": "string"}}
    then: _Schema = {"not": {"required": [form.without]}} if form.without else {}
    return {"if": needs, "then": then, "else": _forms(tuple(rest))}
