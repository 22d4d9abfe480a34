"""Every tool there is: one line each, the name of its file, which holds a `TOOL`."""

from __future__ import annotations

import importlib
from typing import Final

from holdfast.checks.interface import Tool

TOOLS: Final[tuple[str, ...]] = (
    "checkov",
    "rego",
)


def tools() -> tuple[Tool, ...]:
    return tuple(importlib.import_module(f"holdfast.checks.tools.{name}").TOOL for name in TOOLS)
