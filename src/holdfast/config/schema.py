"""The JSON Schema (draft 2020-12) of holdfast.yaml, for editors, from the same declarations as the reader.

It accepts everything that the reader accepts. The reader checks more: placeholders, names that must exist,
and bounds that a pattern cannot express.
"""

from __future__ import annotations

import json

from holdfast.config.secret_refs import REFERENCE_PATTERN
from holdfast.config.settings import Config
from holdfast.config.shapes import SECRET_SCHEMA, JsonSchema, anchored


def document() -> str:
    """The schema as committed in docs/."""
    whole: JsonSchema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "holdfast.yaml",
        "description": "The configuration of Holdfast. docs/configuration-keys.md explains every key.",
        **Config.json_schema(),
        "$defs": {
            "secret": {
                "description": "Where a secret value comes from: scheme:locator.",
                "type": "object",
                "properties": {"secret": {"type": "string", "pattern": anchored(REFERENCE_PATTERN)}},
                "required": ["secret"],
                "additionalProperties": False,
            },
            "value": _any_value(null=False),
            "value_or_null": _any_value(null=True),
        },
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _any_value(*, null: bool) -> JsonSchema:
    itself = {"$ref": "#/$defs/value_or_null" if null else "#/$defs/value"}
    scalars = ["string", "number", "boolean", *(["null"] if null else [])]
    mapping = {"type": "object", "not": {"required": ["secret"]}, "additionalProperties": itself}
    return {"anyOf": [{"type": scalars}, {"type": "array", "items": itself}, SECRET_SCHEMA, mapping]}
