"""The templates of generated files: `@{name}` is a value, and on a line of its own a block of lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from textwrap import indent
from typing import Final

_PLACEHOLDER: Final = re.compile(r"@\{([a-z_]+)\}")


def template(path: str) -> str:
    return (resources.files("holdfast.scaffold") / "templates" / path).read_text(encoding="utf-8")


def fill(text: str, values: Mapping[str, str]) -> str:
    """A block is indented like its placeholder; an empty one leaves no line. Unknown names are a KeyError."""
    return "".join(_line(line, values) for line in text.splitlines(keepends=True))


def _line(line: str, values: Mapping[str, str]) -> str:
    alone = _PLACEHOLDER.fullmatch(line.strip())
    if alone is None:
        return _PLACEHOLDER.sub(lambda match: values[match[1]], line)
    block = values[alone[1]]
    return indent(f"{block}\n", line[: len(line) - len(line.lstrip())]) if block else ""
