"""The steps of a run or a change that read several blobs: a server is asked once for all of a step."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """Of a run, or of a change. Each reads several blobs."""

    PLAN = "plan"
    FIRST = "first"
    """The plan of a stack that is not known: it may be another one under a new name."""
    DECIDE = "decide"
    PREPARE = "prepare"
    """After the claim, before Terraform starts."""
    RECORD = "record"
    REPORT = "report"
