"""Quotes untrusted text for terminals, Markdown, HTML and the logs of GitHub Actions.

The author of the code under review controls names, values and error texts. In Markdown they appear only as
code, where GitHub renders no mention, link, image, reference or tag, so only the end of the code must be
escaped. Invisible characters are shown by their number.
"""

from __future__ import annotations

import re
import unicodedata

BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Printable by their category, but invisible."""
_FIRST_PICTURE = 0x2400
_PICTURE_OF_DELETE = "\u2421"
_CONTROLS = 0x20
_DELETE = 0x7F
_MAX_BACKTICKS = 60
"""Markdown parsers limit the length of a fence (80, 255)."""
_BACKTICKS = re.compile("`+")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_EMPTY = "(empty)"


def visible(text: str) -> str:
    """Every character is visible and in order: no escape codes, no change of text direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    if char.isprintable() and char not in BLANK_LETTERS:
        return char
    number = ord(char)
    if unicodedata.category(char) == "Zs":
        return " "
    if number < _CONTROLS:
        return chr(_FIRST_PICTURE + number)
    return _PICTURE_OF_DELETE if number == _DELETE else f"\\u{number:04x}"


def one_line(text: str, width: int | None = None) -> str:
    """On one line, with every character visible, cut to `width`."""
    # Cut before the conversion, which at most turns two characters into one.
    start = text.strip()[: None if width is None else 2 * width + 2]
    shown = visible(_LINE_ENDS.sub(" ", start).replace("\t", " "))
    return shown if width is None or len(shown) <= width else f"{shown[: width - 1]}…"


def lines_of(text: str) -> list[str]:
    return [visible(line.replace("\t", "    ")) for line in _LINE_ENDS.split(text)]


def code(text: str, width: int | None = None) -> str:
    """A code span. Its fence has a length that does not occur in the text."""
    shown = _limit_backticks(one_line(text, width)) or _EMPTY
    runs = {len(run) for run in _BACKTICKS.findall(shown)}
    fence = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def quoted(text: str, width: int | None = None) -> str:
    """An untrusted sentence: a code span with plain quotes for its backticks."""
    return code(text.replace("`", "'"), width)


def cell(text: str, width: int | None = None) -> str:
    """A code span in a table cell, where a look-alike replaces the pipe."""
    return code(text.replace("|", "│"), width)


def html_code(text: str, width: int | None = None) -> str:
    """Code inside an HTML tag, where Markdown is not parsed."""
    import html  # noqa: PLC0415 - only for a report

    return f"<code>{html.escape(one_line(text, width) or _EMPTY)}</code>"


def fenced(lines: list[str], language: str) -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    shown = _limit_backticks("\n".join(visible(line) for line in lines))
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _limit_backticks(text: str) -> str:
    if any(len(run) > _MAX_BACKTICKS for run in _BACKTICKS.findall(text)):
        return text.replace("`", "'")
    return text


# Workflow commands of GitHub Actions: a line that starts with `::` or contains `##[`

MAX_ANNOTATIONS = 10
"""Per level and step; GitHub shows no more."""
WIDEST = 2000
_COMMAND = re.compile(r"^(\s*):(?=:)")
_OLD_COMMAND = re.compile(r"##(?=\[)")


def escape_commands(text: str) -> str:
    return "\n".join(map(escape_line, lines_of(text)))


def escape_line(line: str) -> str:
    return _OLD_COMMAND.sub("## ", _COMMAND.sub(r"\1: ", line))


def command(level: str, message: str, **properties: str | int | None) -> str:
    """One line, whatever the texts contain."""
    shown = "\n".join(lines_of(message))
    cut = shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"
    arguments = ",".join(
        f"{name}={_property(one_line(str(value), WIDEST))}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level}{' ' if arguments else ''}{arguments}::{data(cut)}"


def data(text: str) -> str:
    """The message of a command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace("##[", "## [")


def _property(text: str) -> str:
    return data(text).replace(":", "%3A").replace(",", "%2C")
