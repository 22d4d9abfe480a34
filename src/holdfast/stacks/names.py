"""What a stack may be called: names become paths, arguments and keys, so they are kept plain."""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 200
_ALLOWED: Final = re.compile(r"[A-Za-z0-9._/@+-]")
_USUAL: Final = re.compile(
    r"(?:(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._@+][A-Za-z0-9._@+-]*)(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._@+-]+)*"
)
_SUFFIXES: Final = (".tfvars.json", ".tfvars")


def fault(name: str) -> str | None:
    """What is wrong with the name, or None."""
    if len(name) <= LONGEST and _USUAL.fullmatch(name):
        return None
    strange = sorted({character for character in name if not _ALLOWED.fullmatch(character)})
    shown = " ".join(printable(repr(character)) for character in strange)
    parts = name.split("/")
    faults = (
        (not name, "it is empty"),
        (len(name) > LONGEST, f"it is longer than {LONGEST} characters"),
        (bool(strange), f"it holds {shown}; allowed are letters, digits and . _ / @ + -"),
        (name.startswith("-"), "it starts with -"),
        ("" in parts, "it has an empty part: a / at its start or end, or two in a row"),
        ("." in parts or ".." in parts, "a part of it is . or .."),
    )
    return next((text for wrong, text in faults if wrong), None)


def without_suffix(path: str) -> str:
    """The name of a stack found by its variables file."""
    return next((path.removesuffix(suffix) for suffix in _SUFFIXES if path.endswith(suffix)), path)


def printable(text: str) -> str:
    """A file's name need not be text at all; a message always is."""
    return text.encode("utf-8", "backslashreplace").decode()
