"""The kinds of single values a key can take, and how each is read.

`declarations.py` has the containers and the sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.config.problems import did_you_mean, listed
from holdfast.config.yaml import ScalarNode

DURATION: Final = r"(?=[0-9])(?:[0-9]{1,6}d)?(?:[0-9]{1,9}h)?(?:[0-9]{1,9}m)?(?:[0-9]{1,9}s)?|[0-9]{1,9}"
SIZE: Final = r"[0-9]{1,12}(?:\.[0-9]{1,6})?(?:[KMGT]i?)?B|[0-9]{1,18}"
"""The same grammars for JSON Schema."""

_TIME_UNITS: Final = (("d", 86400, 6), ("h", 3600, 9), ("m", 60, 9), ("s", 1, 9))
"""Each unit, its seconds, and how many digits its number may have."""
_SIZE_UNITS: Final = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
}


def seconds(text: str) -> float | None:
    """None if the text is not a duration."""
    if _is_number(text, 9):
        return float(text)
    total, rest = 0, text
    for unit, factor, digits in _TIME_UNITS:
        number, present, after = rest.partition(unit)
        if present:
            if not _is_number(number, digits):
                return None
            total, rest = total + int(number) * factor, after
    return float(total) if text and not rest else None


def size_in_bytes(text: str) -> int | None:
    """None if the text is not a size."""
    if _is_number(text, 18):
        return int(text)
    number = text.rstrip("KMGTiB")
    factor = _SIZE_UNITS.get(text[len(number) :])
    whole, dot, fraction = number.partition(".")
    if factor is None or not _is_number(whole, 12) or (dot and not _is_number(fraction, 6)):
        return None
    return int(float(number) * factor) if dot else int(number) * factor


def _is_number(text: str, digits: int) -> bool:
    return len(text) <= digits and text.isascii() and text.isdigit()


def duration_text(amount: float) -> str:
    """Seconds as they would be written in the file."""
    parts, rest = "", int(amount)
    for unit, factor, _ in _TIME_UNITS:
        number, rest = divmod(rest, factor)
        parts += f"{number}{unit}" if number else ""
    return parts or "0s"


WRONG_VALUE: Final = "HF-CONF-6"
OUT_OF_BOUNDS: Final = "HF-CONF-21"


class MistakeError(Exception):
    """Why a value is refused. The message continues a sentence that starts with the key."""

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class WrongKindError(Exception):
    """A value of another kind than the key takes; the reader names the kind that it expects."""


class Text(Struct, frozen=True):
    """Text. A number without quotes counts as the text that was written, unless `numbers` is false."""

    expected: str = "text"
    pattern: str | None = None
    """A regular expression (Python and ECMA alike) that the whole text must match."""
    code: str = WRONG_VALUE
    numbers: bool = True
    flags: bool = False
    """`true` and `false` without quotes count as text, too."""
    fill: bool = False
    """May contain placeholders."""
    secret: bool = False
    """May be a secret reference instead."""
    max_length: int = 1000
    convert: Callable[[str], Any] | None = None
    """Turns the text into the value; may raise MistakeError."""

    def parse(self, node: ScalarNode) -> Any:
        match node.value:
            case bool():
                right = self.flags
            case int() | float():
                right = self.numbers
            case value:
                right = value is not None
        if not right:
            raise WrongKindError
        text = node.text
        if not text or len(text) > self.max_length:
            what = "is empty" if not text else f"is longer than {self.max_length} characters"
            raise MistakeError(self.code, what, hint=f"Give {self.expected}.")
        if self.pattern is not None and not re.fullmatch(self.pattern, text):
            raise MistakeError(self.code, f"is `{text}`; it must be {self.expected}")
        return self.convert(text) if self.convert else text


class Choice(Struct, frozen=True):
    """One of a few texts; the value is the item of `values` itself, so an enum's member stays one."""

    values: tuple[str, ...]

    @property
    def expected(self) -> str:
        return listed(self.values)

    def parse(self, node: ScalarNode) -> str:
        if not isinstance(node.value, str):
            raise WrongKindError
        for value in self.values:
            if value == node.value:
                return value
        hint = did_you_mean(node.value, self.values) or f"Use {self.expected}."
        raise MistakeError("HF-CONF-7", f"cannot be `{node.value}`", hint=hint)


class Flag(Struct, frozen=True):
    expected: str = "true or false"

    def parse(self, node: ScalarNode) -> bool:
        if not isinstance(node.value, bool):
            raise WrongKindError
        return node.value


class Number(Struct, frozen=True):
    minimum: float
    maximum: float

    @property
    def expected(self) -> str:
        return f"a number from {self.minimum:g} to {self.maximum:g}"

    def parse(self, node: ScalarNode) -> float:
        if not isinstance(node.value, int | float) or isinstance(node.value, bool):
            raise WrongKindError
        if not self.minimum <= node.value <= self.maximum:
            raise MistakeError(OUT_OF_BOUNDS, f"is {node.value}; it must be {self.expected}")
        return node.value


class Integer(Number, frozen=True):
    @property
    def expected(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def parse(self, node: ScalarNode) -> float:
        if not isinstance(node.value, int):
            raise WrongKindError
        return Number.parse(self, node)


class FormatVersion(Struct, frozen=True):
    """The version of the file's own format."""

    known: int = 1

    @property
    def expected(self) -> str:
        return str(self.known)

    def parse(self, node: ScalarNode) -> int:
        if type(node.value) is not int or node.value != self.known:
            raise MistakeError(
                "HF-CONF-12",
                f"is `{node.text}`, which this version of Holdfast does not support",
                hint=f"Write `version: {self.known}`, or use the Holdfast that the file was written for.",
            )
        return self.known


class Duration(Struct, frozen=True):
    """`90d`, `1h30m`, `90s`, or plain seconds."""

    minimum: float = 1.0
    maximum: float = 365 * 86400.0

    @property
    def expected(self) -> str:
        low, high = duration_text(self.minimum), duration_text(self.maximum)
        return f"a duration from {low} to {high}, such as `30m`"

    def parse(self, node: ScalarNode) -> float:
        amount = seconds(_amount_text(node))
        if amount is not None and self.minimum <= amount <= self.maximum:
            return amount
        hint = "Write it as 90s, 30m, 24h, 1h30m, 90d, or in plain seconds."
        raise MistakeError(OUT_OF_BOUNDS, f"is `{node.text}`; it must be {self.expected}", hint=hint)


class Size(Struct, frozen=True):
    """`5GB`, `1GiB`, or plain bytes."""

    expected: str = "a size such as `5GB`"

    def parse(self, node: ScalarNode) -> int:
        amount = size_in_bytes(_amount_text(node))
        if amount:
            return amount
        hint = "Write it as 500MB, 5GB, 1GiB, or in plain bytes."
        raise MistakeError(OUT_OF_BOUNDS, f"is `{node.text}`; it must be {self.expected}", hint=hint)


def _amount_text(node: ScalarNode) -> str:
    if isinstance(node.value, bool) or node.value is None:
        raise WrongKindError
    return node.text


class SecretOnly(Struct, frozen=True):
    """A secret reference; the value itself is refused."""


class AnyValue(Struct, frozen=True):
    """Text, number, true or false, list, mapping, or a secret reference; text may contain placeholders."""

    null: bool = False
    nested: bool = True
    as_text: bool = False
    """Numbers, true and false become the text that was written."""
    outputs: bool = False
    """May be an output of another stack instead."""


class Verbatim(Struct, frozen=True):
    """A mapping in another language, such as JSON Schema: nothing in it is a reference or a placeholder."""


Scalar = Text | Choice | Flag | Integer | Number | FormatVersion | Duration | Size


# Texts that several keys take


def shortest_path(path: str) -> str:
    """`./a//b/` is `a/b`; the root itself is `.`."""
    return "/".join(part for part in path.split("/") if part not in {"", "."}) or "."


NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._@+-]*"
NAME_EXPECTED: Final = "a name of letters, digits and . _ @ + -, starting with a letter or digit"
NAME: Final = Text(NAME_EXPECTED, NAME_PATTERN, max_length=100)
MAX_EIGHT_STARS: Final = r"(?!(?:[^*]*\*){9})"
TYPE_GLOB: Final = MAX_EIGHT_STARS + r"[A-Za-z_*][A-Za-z0-9_*-]*"
INSIDE: Final = r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\\\x00-\x1f]+"
INSIDE_EXPECTED: Final = "a path inside the repository, relative to holdfast.yaml, without `..`"
FILLED: Final = Text(fill=True)
LABEL: Final = r"[A-Za-z0-9][A-Za-z0-9_./-]{0,62}"
"""Name and value of a label of a worker."""


def path_text(expected: str = INSIDE_EXPECTED, pattern: str = INSIDE, *, fill: bool = False) -> Text:
    """A path inside the repository, kept in its shortest form."""
    return Text(expected, pattern, code="HF-CONF-16", numbers=False, fill=fill, convert=shortest_path)
