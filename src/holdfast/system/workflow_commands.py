"""Workflow commands of GitHub Actions, and text that the runner does not take for one.

The runner takes a line for a command if it starts with `::` or contains `##[`.
"""

from __future__ import annotations

import re

from holdfast.system.markup import lines_of, one_line

MAX_ANNOTATIONS = 10
"""Per level and step; GitHub shows no more."""
WIDEST = 2000
_AT_START = re.compile(r"^(\s*):(?=:)")
_ANYWHERE = re.compile(r"##(?=\[)")


def escape_commands(text: str) -> str:
    return "\n".join(map(escape_line, lines_of(text)))


def escape_line(line: str) -> str:
    return _ANYWHERE.sub("## ", _AT_START.sub(r"\1: ", line))


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
