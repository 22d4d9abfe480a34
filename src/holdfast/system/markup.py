"""Quotes untrusted text for terminals, Markdown, HTML and the logs of CI jobs.

The author of the code under review controls names, values and error texts. In Markdown, names and values
appear as code, where a code host renders no mention, link, image, reference or tag, so only the end of the
code must be escaped. In a sentence, ordinary words are text and everything else is code. Invisible characters
are shown by their number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import cut

BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Printable by their category, but invisible."""
_FIRST_PICTURE = 0x2400
_PICTURE_OF_DELETE = "\u2421"
_CONTROLS = 0x20
_DELETE = 0x7F
_MAX_BACKTICKS = 60
"""Markdown parsers limit the length of a fence (80, 255)."""
_BACKTICKS = pattern("`+")
_LINE_ENDS = pattern(r"\r\n|\r|\n")
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
    return cut(shown, width)


def lines_of(text: str) -> list[str]:
    return [visible(line.replace("\t", "    ")) for line in _LINE_ENDS.split(text)]


def code(text: str, width: int | None = None) -> str:
    """A code span. Its fence has a length that does not occur in the text."""
    shown = _limit_backticks(one_line(text, width)) or _EMPTY
    runs = {len(run) for run in _BACKTICKS.findall(shown)}
    fence = "`" * next(length for length in range(1, len(runs) + 2) if length not in runs)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


_SPAN = pattern(r"`([^`]+)`")
_DASH = "\u2013"
_WORD = pattern(
    r"[(\"']*"
    rf"(?P<core>[^\W_]+(?:'[^\W_]+|-[^\W\d_]+)*|[0-9]+(?:[.,][0-9]+)*|[{_DASH}→·…=&])"
    r"(?P<after>%?[\"')]*[.,:;?!…]*[\"')]*)\Z"
)
_LIKE_A_COMMIT = pattern(r"(?=.*[0-9])(?=.*[^\W\d])\w{7,}\Z")
_AROUND = "\"'.,:;?!…"
_PROGRAMS = ("holdfast", "git", "terraform", "tofu")
_BEFORE_A_COMMAND = (":", "then", "run", "Run")
_AFTER_A_COMMAND = (".", ",", ";", ")")


def prose(text: str, width: int | None = None) -> str:
    """An untrusted sentence. Words are text; names, addresses, options, codes and commands are code spans.

    What counts as a word is listed, not what is dangerous: no such word means anything in Markdown, and no
    host makes a mention, a reference or a link of it.
    """
    parts = _SPAN.split(one_line(text, width) or _EMPTY)
    pieces = [
        piece
        for number, part in enumerate(parts)
        for piece in ([code(part)] if number % 2 else _sentence(part))
    ]
    joined = ""
    for piece in pieces:
        # Two code spans side by side would be read as one.
        joined += f" {piece}" if joined.endswith("`") and piece.startswith("`") else piece
    return joined


def _sentence(text: str) -> Iterator[str]:
    words = text.split(" ")
    number = 0
    while number < len(words):
        yield " " if number else ""
        end = _end_of_command(words, number)
        if end is None:
            yield _word(words[number])
        else:
            command_line = " ".join(words[number:end])
            shown = command_line.rstrip("".join(_AFTER_A_COMMAND))
            yield code(shown) + command_line[len(shown) :]
        number = end or number + 1


def _end_of_command(words: list[str], start: int) -> int | None:
    """Of a command line such as `holdfast plan a --out DIR`; None if none starts here."""
    before = words[start - 1] if start else ":"
    if words[start] not in _PROGRAMS[: None if start else 1] or not before.endswith(_BEFORE_A_COMMAND):
        return None
    ends = range(start + 1, len(words))
    return next(
        (
            end if words[end].startswith("(") else end + 1
            for end in ends
            if words[end].endswith(_AFTER_A_COMMAND) or words[end].startswith("(")
        ),
        len(words),
    )


def _word(word: str) -> str:
    if word == "-":
        return _DASH
    match = _WORD.match(word)
    if not word.strip(f"{_AROUND})") or (match is not None and not _LIKE_A_COMMIT.match(match["core"])):
        # `1.` would begin a list.
        after = match["after"] if match is not None and match["core"].isdigit() else ""
        return f"{word[: -len(after)]}\\{after}" if after.startswith((".", ")")) else word
    start = word.lstrip("\"'(")
    core = start.rstrip(_AROUND if "(" in start else f"{_AROUND})") or word
    before, _, after = word.partition(core)
    return f"{before}{code(core)}{after}"


def cell(text: str, width: int | None = None) -> str:
    """A code span in a table cell, where a look-alike replaces the pipe."""
    return code(text.replace("|", "│"), width)


def html_code(text: str, width: int | None = None) -> str:
    """Code inside an HTML tag, where Markdown is not parsed."""
    import html  # noqa: PLC0415 - only for a report

    return f"<code>{html.escape(one_line(text, width) or _EMPTY)}</code>"


def fenced(lines: list[str], language: str) -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    # GitLab runs a line that starts with `/` as a command, in older versions also in a code block.
    shown = _limit_backticks(
        "\n".join(f" {line}" if line.startswith("/") else line for line in map(visible, lines))
    )
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _limit_backticks(text: str) -> str:
    if any(len(run) > _MAX_BACKTICKS for run in _BACKTICKS.findall(text)):
        return text.replace("`", "'")
    return text


# Commands in the log of a job. GitHub Actions: a line that starts with `::` or contains `##[`. Azure
# Pipelines: a line that contains `##vso[` or `##[`. Those of GitLab need an escape character, never printed.

MAX_ANNOTATIONS = 10
"""Per level and step; GitHub shows no more."""
WIDEST = 2000
_COMMAND = pattern(r"^(\s*):(?=:)")
_OTHER_COMMAND = pattern(r"##(?=(?:vso)?\[)", re.IGNORECASE)


def escape_commands(text: str) -> str:
    return "\n".join(map(escape_line, lines_of(text)))


def escape_line(line: str) -> str:
    return _OTHER_COMMAND.sub("## ", _COMMAND.sub(r"\1: ", line))


def command(level: str, message: str, **properties: str | int | None) -> str:
    """One line, whatever the texts contain."""
    shown = "\n".join(lines_of(message))
    arguments = ",".join(
        f"{name}={_property(one_line(str(value), WIDEST))}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level}{' ' if arguments else ''}{arguments}::{data(cut(shown, WIDEST))}"


def data(text: str) -> str:
    """The message of a command."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return _OTHER_COMMAND.sub("## ", escaped)


def _property(text: str) -> str:
    return data(text).replace(":", "%3A").replace(",", "%2C")
