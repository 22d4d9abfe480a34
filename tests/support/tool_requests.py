"""What tools of other people's are asked about: a repository of texts, plans, and programs of our own."""

from __future__ import annotations

import os
import stat
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import msgspec
from checkouts import checkout, plan_of

from holdfast.checks.model.interface import Finding, Skipped
from holdfast.checks.tools.interface import CheckFunction, ToolRequest, run_tool
from holdfast.config.checks import Use
from holdfast.system.environment import Environment


def tool_request(
    name: str,
    files: Mapping[str, str],
    *,
    root: Path,
    plans: Mapping[str, bytes] | None = None,
    use: Use = Use.AUTO,
    path: str = "",
) -> ToolRequest:
    """The files are written below `root`, too: a program reads them there."""
    made = checkout(files)
    made.config = msgspec.structs.replace(made.config, root=root)
    for file, text in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(textwrap.dedent(text))
    return ToolRequest(
        name=name,
        use=use,
        checkout=made,
        plans={stack: plan_of(made, document, stack) for stack, document in (plans or {}).items()},
        environment=Environment(variables={"PATH": path, "HOME": str(root), "AWS_SECRET_ACCESS_KEY": "no"}),
    )


def tool_findings(look: CheckFunction, about: ToolRequest) -> list[tuple[str, str]]:
    """Ids and messages of what was found."""
    return [(rule.id, one.message) for rule, one in run_tool(look, about) if isinstance(one, Finding)]


def tool_skips(look: CheckFunction, about: ToolRequest) -> list[tuple[str, str]]:
    return [(rule.id, one.reason) for rule, one in run_tool(look, about) if isinstance(one, Skipped)]


def program(folder: Path, name: str, text: str) -> str:
    """A program in Python with this name; the PATH that has nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return os.pathsep.join([str(folder), "relative/folder"])
