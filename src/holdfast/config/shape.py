"""The words in which the shape of a configuration is described: once, for the reader and for the JSON Schema.

A shape says nothing about how it is read; `reading.py` and `schema.py` both walk the same description, so an
editor and the program never disagree about a key.
"""

from __future__ import annotations

from holdfast.kernel.values import dataclass

WRONG_VALUE = "HF-CONF-6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text. A number without quotes is taken as it is written, unless `numbers` says otherwise."""

    says: str = "text"
    pattern: str | None = None
    """A regular expression (Python and ECMA alike) that the whole text must match."""
    code: str = WRONG_VALUE
    numbers: bool = True
    flags: bool = False
    """`true` and `false` without quotes are taken as they are written, too."""
    fill: bool = False
    """May hold placeholders."""
    secret: bool = False
    """May be a secret reference instead."""
    path: bool = False
    """A path: kept in its shortest form, so that `./a//b/` is `a/b`."""
    most: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number that need not be whole."""

    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The version of the file's own format."""

    known: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """`90d`, `1h30m`, `90s`, or plain seconds."""

    least: float = 1.0
    most: float = 365 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """`5GB`, `1GiB`, or plain bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretOnly:
    """A value that must never stand in the file itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anything:
    """Text, number, true or false, list, mapping, or a secret reference; text may hold placeholders."""

    null: bool = False
    nested: bool = True
    as_text: bool = False
    """Numbers, true and false become the text that was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Names that cannot be given, and why."""

    pattern: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """A mapping whose keys are names of the user's choice."""

    value: Shape
    pattern: str
    says: str
    code: str = WRONG_VALUE
    refused: tuple[Refusal, ...] = ()
    refused_code: str = WRONG_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    item: Shape
    single: bool = False
    """One value may stand without its list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """Text or mapping, told apart by what is written."""

    text: Text
    mapping: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    name: str
    shape: Shape
    doc: str
    required: bool = False
    default: str | float | bool | None = None
    """What holds when the key is absent, for the schema and the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One of several kinds of a record, told by the first key of these that is there."""

    kind: str
    key: str
    text: bool = False
    """The key counts only when its value is text."""
    without: str | None = None
    why: str = ""
    """Why `without` cannot stand beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A mapping with these keys and no other."""

    keys: tuple[Key, ...]
    forms: tuple[Form, ...] = ()
    at_least_one: bool = False

    def key(self, name: str) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)


Shape = (
    Text
    | Choice
    | Flag
    | Whole
    | Number
    | Version
    | Duration
    | Size
    | SecretOnly
    | Anything
    | Names
    | ListOf
    | Either
    | Record
)


def paths(shape: Shape, prefix: str = "") -> tuple[str, ...]:
    """Every key as the page of the configuration writes it: `engine.time_limits.init`, `stacks[].name`."""
    match shape:
        case Record():
            found: list[str] = []
            for key in shape.keys:
                path = f"{prefix}.{key.name}" if prefix else key.name
                found += [path, *paths(key.shape, path)]
            return tuple(found)
        case Names():
            return paths(shape.value, f"{prefix}.*")
        case ListOf():
            return paths(shape.item, f"{prefix}[]")
        case Either():
            return paths(shape.mapping, prefix)
        case _:
            return ()
