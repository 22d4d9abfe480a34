"""Values as text, so that two different values never look alike. Pure; linear in the size of the values.

Strings are quoted, characters that are invisible are written as escapes. A long value is shown around its
first difference, a text of several lines by its changed lines.
"""

from __future__ import annotations

import decimal
import difflib
import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import cut
from holdfast.system.markup import BLANK_LETTERS

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_DECODER = msgspec.json.Decoder(float_hook=decimal.Decimal)
_CONTEXT_LINES = 2
_MOST_MATCHES = 100_000
"""Pairs of equal elements that are compared to align two sequences; with more, they are not aligned."""
_LAST_SHORT_CODE = 0xFFFF
_BACKTICKS = pattern("`{20,}")
_NEWLINE_AT_END = "(newline at the end)"
Opcode = tuple[str, int, int, int, int]


def read_json(raw: msgspec.Raw | bytes | str) -> Any:
    """Numbers keep every digit."""
    return _DECODER.decode(raw)


def encode(value: Any) -> bytes:
    return _ENCODER.encode(value)


class TextLine(NamedTuple):
    """A line in the difference of two texts. The sign is `+`, `-`, a space (equal on both sides) or `@`."""

    sign: str
    text: str


def value_text(value: Any, *, ascii_only: bool = False) -> str:
    """As JSON on one line."""
    return escape(_ENCODER.encode(value).decode(), ascii_only=ascii_only)


def escape(text: str, *, ascii_only: bool = False) -> str:
    """Every character is visible. Backslashes do not change."""
    if text.isascii() and text.isprintable() and "`" not in text:
        return text
    shown = "".join(
        char
        if char.isprintable() and char not in BLANK_LETTERS and not (ascii_only and not char.isascii())
        else _escape_character(char)
        for char in text
    )
    # In Markdown, long runs of backticks are written with other characters.
    return _BACKTICKS.sub(lambda run: "\\u0060" * len(run[0]), shown)


def _escape_character(char: str) -> str:
    code = ord(char)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    return short or (f"\\u{code:04x}" if code <= _LAST_SHORT_CODE else f"\\U{code:08x}")


def pair_text(before: Any, after: Any, width: int | None) -> tuple[str, str]:
    """Two different values; each is at most about `width` characters around their first difference."""
    texts = value_text(before), value_text(after)
    if _look_alike(*texts):
        texts = value_text(before, ascii_only=True), value_text(after, ascii_only=True)
    return _around_difference(*texts, width)


def _around_difference(before: str, after: str, width: int | None) -> tuple[str, str]:
    if width is None or max(len(before), len(after)) <= width:
        return before, after
    start = max(0, common_prefix(before, after) - width // 3)
    start = start if start > 1 else 0
    return _window(before, start, width), _window(after, start, width)


def _window(text: str, start: int, width: int) -> str:
    end = start + width
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def common_prefix(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many elements are equal at the start. Slices are compared: strings of megabytes are no problem."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _look_alike(before: str, after: str) -> bool:
    """Whether two different texts may look the same: accents, letters of another alphabet."""
    if before.isascii() and after.isascii():
        return False
    if _skeleton(before) == _skeleton(after):
        return True
    different = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
    return len(before) == len(after) and all(old.isascii() != new.isascii() for old, new in different)


def _skeleton(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.category(char).startswith(("M", "C")))


# Texts of several lines


def line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


class TextDiff(NamedTuple):
    lines: tuple[TextLine, ...]
    hidden: int
    """How many more lines there are."""


def text_diff(before: str | None, after: str | None, *, width: int | None, at_most: int | None) -> TextDiff:
    """What differs line by line, each place with its line number and a few lines around it."""
    every = _changed_lines(before, after)
    raw = tuple(itertools.islice(every, at_most))
    paired = _counterparts(raw)
    styles: tuple[Callable[[int], str], ...] = (
        lambda number: _line(raw[number].text, paired.get(number), width),
        lambda number: _line(raw[number].text, None, None),
        lambda number: value_text(raw[number].text, ascii_only=True),
    )
    shown: tuple[TextLine, ...] = ()
    for style in styles:
        shown = tuple(
            TextLine(line.sign, style(number) if line.text != "\n" else _NEWLINE_AT_END)
            if line.sign != "@"
            else line
            for number, line in enumerate(raw)
        )
        if len({_skeleton(line.text) for line in shown if line.sign in "+-"}) == len(
            {line.text for line in raw if line.sign in "+-"}
        ):
            break
    return TextDiff(shown, sum(1 for _ in every))


def _line(text: str, other: str | None, width: int | None) -> str:
    shown = escape(text)
    if text.endswith(" "):
        shown = f"{shown[:-1]}\\u0020"
    return cut(shown, width) if other is None else _around_difference(shown, escape(other), width)[0]


def _counterparts(lines: tuple[TextLine, ...]) -> dict[int, str]:
    """For each removed or added line, the line it is compared with: by position in its block."""
    pairs: dict[int, str] = {}
    for changed, block in itertools.groupby(enumerate(lines), key=lambda item: item[1].sign in "+-"):
        if not changed:
            continue
        numbered = list(block)
        removed = [(number, line.text) for number, line in numbered if line.sign == "-"]
        added = [(number, line.text) for number, line in numbered if line.sign == "+"]
        for (old, old_text), (new, new_text) in zip(removed, added, strict=False):
            pairs |= {old: new_text, new: old_text}
    return pairs


def _changed_lines(before: str | None, after: str | None) -> Iterator[TextLine]:
    if before is None or after is None:
        sign, text = ("+", after) if before is None else ("-", before)
        yield from (TextLine(sign, line) for line in _lines(text or ""))
        return
    old, new = _lines(before), _lines(after)
    blocks = opcodes(old, new)
    for number, (tag, old_start, old_end, new_start, new_end) in enumerate(blocks):
        if tag != "equal":
            yield from [TextLine("@", "line 1")] if number == 0 else ()
            yield from (TextLine("-", line) for line in old[old_start:old_end])
            yield from (TextLine("+", line) for line in new[new_start:new_end])
            continue
        # The lines after the change before this block, and those before the change after it.
        after_change = min(new_start + _CONTEXT_LINES, new_end) if number else new_start
        before_change = max(new_end - _CONTEXT_LINES, after_change) if number + 1 < len(blocks) else new_end
        yield from (TextLine(" ", line) for line in new[new_start:after_change])
        if before_change < new_end and (number == 0 or before_change > after_change):
            yield TextLine("@", f"line {before_change + 1}")
        yield from (TextLine(" ", line) for line in new[before_change:new_end])
    if before.endswith("\n") != after.endswith("\n"):
        yield TextLine("-" if before.endswith("\n") else "+", "\n")


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def opcodes(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Opcode]:
    """As `difflib` gives them, in bounded time: where too many are equal, all between is one block."""
    start = common_prefix(before, after)
    end = min(common_prefix(before[::-1], after[::-1]), len(before) - start, len(after) - start)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    in_new = Counter(new)
    if sum(in_new[element] for element in old) <= _MOST_MATCHES:
        middle = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    else:
        middle = [("replace", 0, len(old), 0, len(new))]
    moved: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    moved += [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in middle]
    if end:
        moved.append(("equal", len(before) - end, len(before), len(after) - end, len(after)))
    return moved
