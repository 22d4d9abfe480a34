"""Documents about holdfast.yaml that are generated from its declarations and committed in docs/."""

from __future__ import annotations

import json
from collections.abc import Iterator

from holdfast.config.declarations import Group, Key, walk
from holdfast.config.secret_refs import REFERENCE_PATTERN
from holdfast.config.settings import Config
from holdfast.config.shapes import SECRET_SCHEMA, JsonSchema, anchored

_HEAD = """\
# Configuration keys

Every key of `holdfast.yaml`. [Configuration](configuration.md) explains how they work together. This page is generated: `make docs` writes it.

In a key, `*` is a name that you choose and `[]` an item of a list. Durations are `90s`, `30m`, `24h`, `1h30m`, `90d` or plain seconds; sizes are `500MB`, `5GB`, `1GiB` or plain bytes.
"""  # noqa: E501 - one paragraph is one line, as on every page
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


def keys_page() -> str:
    """The reference page of all keys."""
    sections: dict[str, list[str]] = {"The file": []}
    for path, key in keys_once():
        top = path.partition(".")[0].removesuffix("[]")
        alone = not any(walk(Config.keys[top].shape))
        title = "The file" if alone else f"`{top}`"
        row = f"| `{path}` | {_default(key)} | {key.doc} |"
        sections.setdefault(title, []).append(row)
    tables = ("\n".join((f"\n## {title}\n", *_TABLE_HEAD, *rows)) for title, rows in sections.items())
    return _HEAD + "\n".join(tables) + "\n"


def keys_once() -> Iterator[tuple[str, Key]]:
    """Each key under its shortest path: what `guard.environments` repeats is listed in `guard` only."""
    shortest: dict[object, str] = {}
    for path, key in walk(Config):
        known = shortest.setdefault(_identity(key), path)
        if path.count(".") < known.count("."):
            shortest[_identity(key)] = path
    return ((path, key) for path, key in walk(Config) if shortest[_identity(key)] == path)


def _identity(key: Key) -> object:
    return (key.path, key.doc) if isinstance(key.shape, Group) else id(key)


def _default(key: Key) -> str:
    if key.required or key.default_doc is not None:
        return "required" if key.required else key.default_doc or ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return "" if key.default is None else f"`{key.default}`"
