"""A format turns a report into text. Each has its own file, named in `FORMATS`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report


class FormatInput(Struct, frozen=True, kw_only=True):
    """A redacted report, and what formatting needs to know."""

    report: Report
    prefix: str = ""
    """The path from the root of the Git repository to ours: `infra/`, or empty."""
    version: str = ""
    """Of Holdfast."""
    fail_on: Severity = Severity.ERROR
    """The severity from which the command fails."""
    verbose: bool = False
    seconds: float | None = None


Format = Callable[[FormatInput], str]
"""The text ends with a line feed."""

FORMATS: Final = ("text", "json", "sarif", "github", "markdown", "junit")


def format_of(name: str) -> Format:
    found: Format = importlib.import_module(f"holdfast.checks.formats.{name}").show
    return found
