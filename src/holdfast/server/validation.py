"""What is wrong with a request, in words: every field at once, and no regular expressions. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import ValidationError, convert

from holdfast.identity.roles import GRANTABLE, Role
from holdfast.server.problems import FieldProblem

_ID: Final = "must be letters, digits and hyphens, at most 64"
_PRINTABLE: Final = "must not be empty or contain control characters"
_REVISION: Final = "must be a branch, a tag or a commit: letters, digits and _ / + @ - ., without `..`"
WORDS: Final = {
    r"^[^\x00-\x1f\x7f]+\Z": _PRINTABLE,
    r"^[\x21-\x7e]+\Z": "must be ASCII characters without spaces",
    r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?\Z": "must be lower-case letters, digits, `.`, `_` and `-`",
    r"^[0-9A-Za-z-]{1,64}\Z": _ID,
    r"^[0-9a-f]{64}\Z": "must be a SHA-256 digest: 64 hexadecimal digits in lower case",
    r"^[0-9A-Za-z_](?:[0-9A-Za-z_/+@-]|\.(?!\.)){0,199}\Z": _REVISION,
    r"^[0-9A-Za-z][0-9A-Za-z._/-]*\Z": "must be letters, digits, `.`, `_`, `/` and `-`",
    r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._/-]*)?\Z": "must be an address such as https://git.example.com",
    r"^[A-Za-z0-9_.@+-]{1,200}\Z": "must be the name of a user of the code host",
    r"^[0-9A-Za-z.]{1,40}\Z": "must be letters, digits and dots, at most 40",
    r"^[0-9]{1,20}\Z": "must be a number",
}
"""By the pattern of a field. A test compares it with all routes; long ones say it at the field."""
_NAMED: Final = re.compile(r"(unknown|required) field `([^`]+)`")
_PATTERN: Final = re.compile(r"Expected `str` matching regex (.+)$", re.DOTALL)
_TYPES: Final = re.compile(r"Expected `(.+)`, got `(.+)`$")
_LENGTH: Final = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)$")
_RANGE: Final = re.compile(r"Expected `\w+` (>=|<=) (\S+)$")
_PLACE: Final = re.compile(r"^(?P<message>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_TYPE_WORDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
    "float": "a number",
}


def body_problems(type_: Any, document: object) -> tuple[FieldProblem, ...]:
    """Of a body that is to become a value of this type."""
    try:
        convert(document, type_, strict=False, str_keys=True)
    except ValidationError as error:
        return tuple(_problems(type_, document, "")) or (field_problem(str(error), type_=type_),)
    return ()


def parameter_problems(types: Mapping[str, Any], given: Iterable[tuple[str, str]]) -> Iterator[FieldProblem]:
    """Of the parameters in an address, by the types of those that the route knows."""
    for name, value in given:
        if name not in types:
            known = f"; the parameters are {', '.join(types)}" if types else ""
            yield FieldProblem(path=pointer([name]), message=f"there is no parameter `{name}`{known}")
        elif _enum_values(types[name]):
            yield from _problems(types[name], value, pointer([name]))


def field_problem(text: str, prefix: str = "", type_: Any = None) -> FieldProblem:
    """From a message of msgspec, which ends with the place."""
    found = _PLACE.match(text)
    assert found is not None  # noqa: S101 - it matches everything
    parts = [part for part in re.split(r"[.\[\]]+", found["path"] or "") if part]
    message = found["message"]
    if (named := _NAMED.search(message)) is not None:
        parts.append(named[2])
        message = f"`{named[2]}` is missing" if named[1] == "required" else f"there is no field `{named[2]}`"
    return FieldProblem(path=prefix + pointer(parts), message=in_words(message, type_))


def in_words(message: str, type_: Any = None) -> str:
    """One sentence, without the words of the library."""
    if (pattern := _PATTERN.match(message)) is not None:
        words = {repr(known): text for known, text in WORDS.items()}
        return words.get(pattern[1]) or _description(type_) or "is not in the expected form"
    if (length := _LENGTH.match(message)) is not None:
        unit = "characters" if length[1] == "str" else "items"
        bound = f"must have at {'least' if length[2] == '>=' else 'most'} {length[3]} {unit}"
        return "must not be empty" if (length[2], length[3]) == (">=", "1") else bound
    if (limit := _RANGE.match(message)) is not None:
        return f"must be at {'least' if limit[1] == '>=' else 'most'} {limit[2]}"
    if message.startswith("Invalid enum value") and (values := _enum_values(type_)):
        given = message.removeprefix("Invalid enum value ").replace("'", "`")
        return f"{given} is not one of {', '.join(values)}"
    if (types := _TYPES.match(message)) is not None:
        expected = " or ".join(_TYPE_WORDS.get(name, name) for name in types[1].split(" | "))
        return f"must be {expected}, not {_TYPE_WORDS.get(types[2], types[2])}"
    return message


def pointer(parts: Iterable[str]) -> str:
    """A JSON pointer."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _problems(type_: Any, document: object, prefix: str) -> Iterator[FieldProblem]:
    """Only the first one is in an error of msgspec, so each field is read by itself."""
    info = _struct_of(type_)
    if info is None or not isinstance(document, dict):
        try:
            convert(document, type_, strict=False, str_keys=True)
        except ValidationError as error:
            yield field_problem(str(error), prefix, type_)
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(info)}
    for name in document:
        if name not in fields and info.__struct_config__.forbid_unknown_fields:
            yield FieldProblem(path=prefix + pointer([str(name)]), message=f"there is no field `{name}`")
    for name, field in fields.items():
        place = prefix + pointer([name])
        if name in document:
            yield from _problems(field.type, document[name], place)
        elif field.required:
            yield FieldProblem(path=place, message=f"`{name}` is missing")


def _struct_of(type_: Any) -> Any:
    """The only struct of `X`, `X | None` or an annotated one."""
    kinds = [kind for kind in _alternatives(type_) if msgspec.inspect.is_struct_type(kind)]
    return kinds[0] if len(kinds) == 1 else None


def _enum_values(type_: Any) -> list[str]:
    for kind in _alternatives(type_):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return [str(value.value) for value in (GRANTABLE if kind is Role else kind)]
    return []


def _description(type_: Any) -> str | None:
    metas = (
        meta
        for kind in (type_, *getattr(type_, "__args__", ()))
        for meta in getattr(kind, "__metadata__", ())
    )
    return next((meta.description for meta in metas if getattr(meta, "description", None)), None)


def _alternatives(type_: Any) -> Iterator[Any]:
    """Without annotations; also of the items of a list."""
    inner = getattr(type_, "__origin__", None) if hasattr(type_, "__metadata__") else None
    if inner is not None:
        yield from _alternatives(inner)
    elif arguments := getattr(type_, "__args__", ()):
        for argument in arguments:
            yield from _alternatives(argument)
    else:
        yield type_
