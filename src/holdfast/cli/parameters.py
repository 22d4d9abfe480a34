"""Options that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Stacks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="STACK",
        help="Names or globs, or env:, account:, region:, target: filters. Without: all.",
    ),
]
OneStack = Annotated[str, typer.Argument(metavar="STACK", help="The stack's name.")]
Changed = Annotated[
    list[str] | None,
    typer.Option(
        "--changed",
        metavar="FILE",
        help="Only what this changed file touches; repeatable; `-` reads names from standard input.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="REF", help="Only what changed since the merge-base with REF."),
]
Destroy = Annotated[bool, typer.Option("--destroy", help="Plan the end of everything in the stack.")]
Targets = Annotated[
    list[str] | None, typer.Option("--target", metavar="ADDR", help="Only this address; repeatable.")
]
Replace = Annotated[
    list[str] | None, typer.Option("--replace", metavar="ADDR", help="Replace this object; repeatable.")
]
RefreshOnly = Annotated[
    bool, typer.Option("--refresh-only", help="Only bring the state up to what is really there.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write a sealed bundle per stack, to apply later.")
]
