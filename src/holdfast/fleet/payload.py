"""Whether a payload may become the variables of a device: every problem with its JSON pointer.

A payload is only ever written as `terraform.tfvars.json`, whose texts Terraform takes literally: `${…}` and
`%{…}` in it are not evaluated. Messages never repeat a value of the payload; it may be a secret.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final
from unicodedata import is_normalized

from msgspec import Struct

from holdfast.config.problems import did_you_mean
from holdfast.database.errors import extra_missing
from holdfast.fleet.variable_schema import DRAFT, MESSAGE, JsonSchema
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import cut, plural

FILE_NAME: Final = "terraform.tfvars.json"
"""In the folder of the root module. Terraform loads it by itself."""
MOST_BYTES: Final = 1_000_000
MOST_LEVELS: Final = 64
MOST_PROBLEMS: Final = 100
_MOST_BITS: Final = 512
"""Of a number in Terraform."""
_LONGEST_POINTER: Final = 500
_LONGEST_MATCHED: Final = 4096
_SHOWN_CHOICES: Final = 20
_UNWRITABLE: Final = pattern("[\x00\ud800-\udfff]")
_ENDS: Final = pattern(r"(?<!\\)((?:\\\\)*)\$$")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

Pointer = tuple[Any, ...]
"""Linked from the inside out: (parent, key); empty for the whole payload."""


class PayloadProblem(Struct, frozen=True, kw_only=True):
    path: str
    """A JSON pointer."""
    message: str


def payload_problems(schema: Mapping[str, Any], payload: object) -> tuple[PayloadProblem, ...]:
    """Every problem, but no more than a hundred. Empty: the payload may be accepted."""
    written = tuple(islice(_unwritable(payload), MOST_PROBLEMS))
    if written:
        return written
    if isinstance(payload, dict) and len(file_content(payload)) > MOST_BYTES:
        return (PayloadProblem(path="", message=f"is larger than {MOST_BYTES:,} bytes"),)
    errors = _validator_type()(
        schema, registry=_no_registry(), format_checker=_validator_type().FORMAT_CHECKER
    ).iter_errors(payload)
    problems = dict.fromkeys(problem for error in errors for problem in _problems_of(error))
    found = sorted(problems, key=lambda problem: (problem.path, problem.message))
    if len(found) <= MOST_PROBLEMS:
        return tuple(found)
    rest = plural(len(found) - MOST_PROBLEMS + 1, "more problem")
    return (*found[: MOST_PROBLEMS - 1], PayloadProblem(path="", message=f"has {rest}"))


def file_content(payload: Mapping[str, Any]) -> bytes:
    """The only form in which a payload reaches Terraform."""
    return json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()


def _unwritable(payload: object) -> Iterator[PayloadProblem]:
    """What no schema allows. Without recursion: the nesting is what is being measured."""
    waiting: list[tuple[object, Pointer, int]] = [(payload, (), 0)]
    while waiting:
        value, at, depth = waiting.pop()
        if not isinstance(value, dict | list):
            if (message := _unwritable_value(value)) is not None:
                yield _problem(at, message)
        elif depth >= MOST_LEVELS:
            yield _problem(at, f"is nested more than {MOST_LEVELS} levels deep")
        else:
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(key, str) and (message := _unwritable_text(key)) is not None:
                    yield _problem(at, f"has a name that {message}")
                else:
                    waiting.append((item, (at, key), depth + 1))


def _unwritable_text(text: str) -> str | None:
    """Terraform normalizes text, which could make something else of it than what the schema has seen."""
    if _UNWRITABLE.search(text):
        return "contains NUL or half of a surrogate pair"
    return None if is_normalized("NFC", text) else "is not in Unicode normalization form C (NFC)"


def _unwritable_value(value: object) -> str | None:
    match value:
        case str() if (message := _unwritable_text(value)) is not None:
            return message
        case float() if not math.isfinite(value):
            return "is not a finite number"
        case int() if value.bit_length() > _MOST_BITS:
            return "has more digits than Terraform can represent"
        case str() | int() | float() | None:
            return None
        case _:
            return "is not a JSON value"


def _problem(at: Pointer, message: str) -> PayloadProblem:
    keys: list[object] = []
    while at:
        at, key = at
        keys.append(key)
    return PayloadProblem(path=pointer(reversed(keys)), message=message)


def pointer(keys: Iterator[object]) -> str:
    parts = (str(key).replace("~", "~0").replace("/", "~1") for key in keys)
    return cut("".join(f"/{part}" for part in parts), _LONGEST_POINTER)


# The library


def _library() -> Any:
    try:
        import jsonschema  # noqa: PLC0415 - an extra
    except ImportError:
        raise extra_missing("jsonschema") from None
    return jsonschema


@cache
def _validator_type() -> Any:
    library = _library()

    def matches(_validator: Any, text: str, value: object, _schema: object) -> Iterator[Any]:
        # A pattern that is not anchored takes time by the square of the length.
        if isinstance(value, str) and (len(value) > _LONGEST_MATCHED or not _compiled(text).search(value)):
            yield library.ValidationError(f"must match {text}")

    def are_unique(_validator: Any, wanted: bool, value: object, _schema: object) -> Iterator[Any]:  # noqa: FBT001 - its signature
        """The library compares each with each, which takes minutes for a megabyte of items."""
        if wanted and isinstance(value, list):
            texts = {json.dumps(item, sort_keys=True) for item in value}
            if len(texts) < len(value):
                yield library.ValidationError("must not contain an item twice")

    return library.validators.extend(
        library.Draft202012Validator, {"pattern": matches, "uniqueItems": are_unique}
    )


@cache
def _compiled(text: str) -> re.Pattern[str]:
    """As in ECMAScript: `$` is the end of the text, not also the line break before it; classes are ASCII."""
    return re.compile(_ENDS.sub(r"\1\\Z", text), re.ASCII)


@cache
def _no_registry() -> Any:
    """Nothing is ever fetched."""
    from referencing import Registry  # noqa: PLC0415 - an extra

    return Registry()


def schema_mistakes(schema: object) -> tuple[str, ...]:
    """What is wrong with a schema that an author wrote."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return ("it must have `type: object`",)
    if schema.get("$schema", DRAFT).rstrip("#") != DRAFT:
        return (f"its `$schema` must be {DRAFT}",)
    library = _library()
    try:
        library.Draft202012Validator.check_schema(schema)
    except library.SchemaError as error:
        return (f"{pointer(iter(error.absolute_path)) or 'the schema'}: {cut(error.message, 200)}",)
    mistakes = [
        f"`{name}: {cut(text, 100)}` leads out of the schema; only `#…` is allowed"
        for name, text in _references(schema)
        if not text.startswith("#")
    ]
    if schema.get("additionalProperties", False) is not False or "patternProperties" in schema:
        mistakes.append("`properties` must name every variable: `additionalProperties: false` at its top")
    return tuple(mistakes)


def _references(schema: object) -> Iterator[tuple[str, str]]:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from ((name, value[name]) for name in _REFERENCES if isinstance(value.get(name), str))
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


# Messages


def _problems_of(error: Any) -> Iterator[PayloadProblem]:
    path = tuple(error.absolute_path)
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            yield from (_placed((*path, name), "is required") for name in missing)
        case "additionalProperties" | "unevaluatedProperties" if isinstance(error.instance, dict):
            known = error.schema.get("properties", {})
            for name in error.instance:
                if name not in known:
                    near = did_you_mean(name, known)
                    yield _placed((*path, name), f"is not known{f'. {near}' if near else ''}")
        case _:
            yield _placed(path, error.schema.get(MESSAGE) if isinstance(error.schema, dict) else None, error)


def _placed(path: Pointer, message: str | None, error: Any = None) -> PayloadProblem:
    return PayloadProblem(path=pointer(iter(path)), message=message or _message(error))


_MESSAGES: Final = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} keys",
    "maxProperties": "must have at most {} keys",
    "pattern": "must match {}",
    "format": "is not a valid {}",
    "const": "must be {}",
    "uniqueItems": "must not contain an item twice",
    "anyOf": "has none of the allowed forms",
    "oneOf": "must have exactly one of the allowed forms",
    "not": "has a form that is not allowed",
}


def _message(error: Any) -> str:
    wanted = error.validator_value
    match error.validator:
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            return f"must be {_or(names)}, not {_kind(error.instance)}"
        case "enum":
            shown = [json.dumps(value, ensure_ascii=False) for value in wanted[:_SHOWN_CHOICES]]
            return f"must be {_or([*shown, '…'] if len(wanted) > _SHOWN_CHOICES else shown)}"
        case None:
            return "is not allowed here"
        case name if name in _MESSAGES:
            return _MESSAGES[name].format(wanted if isinstance(wanted, str) else json.dumps(wanted))
        case name:
            return f"does not satisfy `{name}` of the schema"


def _or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def closed_schema(schema: JsonSchema) -> JsonSchema:
    """An author's schema, closed: what it does not name is refused."""
    return {"$schema": DRAFT, **schema, "additionalProperties": False}
