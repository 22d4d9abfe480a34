"""What a format is: from a report to text. Each stands in a file of its own; `catalogue.py` names them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report


class Shown(Struct, frozen=True, kw_only=True):
    """A report, and what its showing needs to know. Nothing in it is secret any more."""

    report: Report
    prefix: str = ""
    """Leads from the root of the Git repository to ours: `infra/`, or nothing."""
    version: str = ""
    """Of Holdfast."""
    fail_on: Severity = Severity.ERROR
    """From which severity on the command fails."""
    verbose: bool = False
    seconds: float | None = None


Format = Callable[[Shown], str]
"""Ends with a line end."""
