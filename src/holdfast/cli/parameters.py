"""Options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from holdfast.cli.command import Argument, Option

CI_WAIT = 1800.0
"""Seconds. Nobody sits before a CI job to try again, so there a lock is waited for."""

Stacks = Annotated[
    list[str] | None,
    Argument(
        metavar="STACK",
        help="Names or globs, or env:, account:, region:, target: filters. Without: all.",
    ),
]
OneStack = Annotated[str, Argument(metavar="STACK", help="The stack's name.")]
Changed = Annotated[
    list[str] | None,
    Option(
        "--changed",
        metavar="FILE",
        help="Only what this changed file touches; repeatable; `-` reads names from standard input.",
    ),
]
Since = Annotated[
    str | None,
    Option("--since", metavar="REF", help="Only what changed since the merge-base with REF."),
]
Destroy = Annotated[bool, Option("--destroy", help="Plan the end of everything in the stack.")]
Targets = Annotated[
    list[str] | None, Option("--target", metavar="ADDR", help="Only this address; repeatable.")
]
Replace = Annotated[
    list[str] | None, Option("--replace", metavar="ADDR", help="Replace this object; repeatable.")
]
RefreshOnly = Annotated[
    bool, Option("--refresh-only", help="Only bring the state up to what is really there.")
]
Out = Annotated[
    Path | None, Option("--out", metavar="DIR", help="Write a sealed bundle per stack, to apply later.")
]
