"""All report formats: one line each, the name of the file."""

from __future__ import annotations

import importlib
from typing import Final

from holdfast.checks.formats.interface import Format

FORMATS: Final = ("text", "json", "sarif", "github", "markdown", "junit")


def format_of(name: str) -> Format:
    found: Format = importlib.import_module(f"holdfast.checks.formats.{name}").show
    return found
