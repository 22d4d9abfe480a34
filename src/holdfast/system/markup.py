"""Text from elsewhere, made harmless for the place where it is shown.

Names, values and error texts are written by whoever wrote the code under review. In Markdown they stand
inside code only: there GitHub makes no mention, link, image, reference or tag of them, whatever they hold. So
there is nothing to escape but the way out of the code. What cannot be seen is shown by its number.
"""

from __future__ import annotations

import re
import unicodedata

_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Count as letters or marks and leave no trace on a screen."""
_FIRST_PICTURE = 0x2400
_PICTURE_OF_DELETE = "\u2421"
_CONTROLS = 0x20
_DELETE = 0x7F
_MOST_BACKTICKS = 60
"""Readers of Markdown stop counting backticks somewhere (at 80, at 255): no text may take us there."""
_BACKTICKS = re.compile("`+")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_NOTHING = "(nothing)"


def visible(text: str) -> str:
    """Every character shows, in the order in which it stands: no escape code, no change of direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char.isprintable() and char not in _BLANK_LETTERS:
        return char
    number = ord(char)
    if unicodedata.category(char) == "Zs":
        return " "
    if number < _CONTROLS:
        return chr(_FIRST_PICTURE + number)
    return _PICTURE_OF_DELETE if number == _DELETE else f"\\u{number:04x}"


def one_line(text: str, width: int | None = None) -> str:
    """On one line, with every character visible, cut to `width`."""
    # Of a line of megabytes no more is looked at than may be shown: two characters become one at most.
    kept = text.strip()[: None if width is None else 2 * width + 2]
    shown = visible(_LINE_ENDS.sub(" ", kept).replace("\t", " "))
    return shown if width is None or len(shown) <= width else f"{shown[: width - 1]}…"


def lines_of(text: str) -> list[str]:
    return [visible(line.replace("\t", "    ")) for line in _LINE_ENDS.split(text)]


def code(text: str, width: int | None = None) -> str:
    """A code span. Its fence is a run of backticks of a length that does not stand in the text."""
    shown = _tamed(one_line(text, width)) or _NOTHING
    runs = {len(run) for run in _BACKTICKS.findall(shown)}
    fence = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def said(text: str, width: int | None = None) -> str:
    """A sentence from elsewhere: code too, with plain quotes where it has backticks."""
    return code(text.replace("`", "'"), width)


def cell(text: str, width: int | None = None) -> str:
    """A code span inside a table, where a pipe would end the cell: a look-alike stands in for it."""
    return code(text.replace("|", "│"), width)


def html_code(text: str, width: int | None = None) -> str:
    """Code inside a tag, where Markdown is not read."""
    import html  # noqa: PLC0415 - only where a report is made

    return f"<code>{html.escape(one_line(text, width) or _NOTHING)}</code>"


def fenced(lines: list[str], language: str) -> str:
    """A block of code whose fence is longer than any run of backticks in it."""
    shown = _tamed("\n".join(visible(line) for line in lines))
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _tamed(text: str) -> str:
    if any(len(run) > _MOST_BACKTICKS for run in _BACKTICKS.findall(text)):
        return text.replace("`", "'")
    return text
