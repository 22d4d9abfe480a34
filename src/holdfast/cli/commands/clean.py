"""`holdfast clean`: remove old work directories and show what that freed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.config.settings import Work
    from holdfast.terraform.workdirs.gc import GcItem, GcResult


def clean(
    invocation: Invocation,
    everything: Annotated[
        bool, Option("--all", help="Remove them regardless of age, unless in use or with an unsaved state.")
    ] = False,
) -> Exit:
    """Remove old work directories and leftovers of killed runs. Every run does this too."""
    from holdfast.terraform.workdirs.gc import collect_garbage, free_bytes

    home = invocation.environment.home
    cleaned = collect_garbage(home, _limits(invocation), everything=everything)
    free = free_bytes(home)
    document = {
        "version": 1,
        "freed_bytes": cleaned.freed,
        "removed": [_item(item) for item in cleaned.removed],
        "kept": [_item(item) for item in cleaned.kept],
        "repositories": [{"root": root, "bytes": size} for root, size in cleaned.repositories],
        "disk": {"free_bytes": free, "used_bytes": cleaned.used},
    }
    return invocation.answer(document, lambda: _show(invocation, cleaned, free))


def _limits(invocation: Invocation) -> Work:
    """The limits of this repository; the defaults outside of one."""
    from holdfast.config import read as config_read
    from holdfast.config.settings import Work

    if invocation.config is not None:
        return config_read.load(invocation.config).work
    try:
        file = config_read.find(Path.cwd())
    except UsageError:
        return Work()
    return config_read.load(file).work


def _item(item: GcItem) -> dict[str, object]:
    return {"path": str(item.path), "bytes": item.size, "why": item.why}


def _show(invocation: Invocation, cleaned: GcResult, free: int | None) -> None:
    from holdfast.terraform.workdirs.gc_policy import format_size

    console = invocation.console
    for item in cleaned.removed:
        console.say(f" - {item.path}  {format_size(item.size)}  ", (item.why, "dim"))
    for item in cleaned.kept:
        if invocation.verbose or not item.why.startswith("used "):
            console.say(f"   {item.path}  {format_size(item.size)}  ", (f"kept: {item.why}", "dim"))
    console.line(f" freed {format_size(cleaned.freed)}")
    for root, size in cleaned.repositories:
        console.say(f" {root}: {format_size(size)} of work directories")
    free_text = "" if free is None else f", {format_size(free)} free"
    console.line(f" {format_size(cleaned.used)} of work directories in all{free_text}")
