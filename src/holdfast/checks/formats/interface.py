"""A format turns a report into text. Each has its own file; `catalogue.py` lists them."""

from __future__ import annotations

from collections.abc import Callable

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
