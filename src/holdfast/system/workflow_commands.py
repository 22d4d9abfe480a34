"""What a line of output says to GitHub Actions, and how text from elsewhere says nothing to it.

The runner takes a line for a command if it begins with `::`, or holds `##[` anywhere.
"""

from __future__ import annotations

import re

from holdfast.system.markup import lines_of, one_line

MOST_OF_A_LEVEL = 10
"""GitHub shows no more annotations of one level from one step."""
WIDEST = 2000
_AT_START = re.compile(r"^(\s*):(?=:)")
_ANYWHERE = re.compile(r"##(?=\[)")


def harmless(text: str) -> str:
    """The same text, in which no line is a command."""
    return "\n".join(map(harmless_line, lines_of(text)))


def harmless_line(line: str) -> str:
    return _ANYWHERE.sub("## ", _AT_START.sub(r"\1: ", line))


def command(level: str, message: str, **properties: str | int | None) -> str:
    """One line for the runner, whatever the texts hold."""
    shown = "\n".join(lines_of(message))
    cut = shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"
    given = ",".join(
        f"{name}={_property(one_line(str(value), WIDEST))}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level}{' ' if given else ''}{given}::{data(cut)}"


def data(text: str) -> str:
    """What stands behind a command's second `::`."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace("##[", "## [")


def _property(text: str) -> str:
    return data(text).replace(":", "%3A").replace(",", "%2C")
