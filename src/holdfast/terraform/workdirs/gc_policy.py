"""Which work directories to take away: by age, then by size with the oldest first. A pure decision.

What is in use, what holds a state that could not be saved and what a killed run left a short while ago stays,
whatever is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.config.settings import Work


class WorkdirUsage(Struct, frozen=True, kw_only=True):
    """One work directory as it was found."""

    path: Path
    used: float
    """When a run last took it, in seconds since the epoch."""
    size: int = 0
    in_use: bool = False
    unsaved: bool = False
    """It holds a state that Terraform could not save: perhaps the only copy."""
    unfinished: bool = False
    """It holds the plan of a run that was killed: what that run started may still be at work in it."""
    resists: str | None = None
    """What the system said when it was to be removed."""


class GcDecision(Struct, frozen=True, kw_only=True):
    entry: WorkdirUsage
    why: str


class GcPlan(Struct, frozen=True, kw_only=True):
    remove: tuple[GcDecision, ...]
    """The oldest first."""
    keep: tuple[GcDecision, ...]


def decide(entries: Iterable[WorkdirUsage], limits: Work, *, now: float, everything: bool = False) -> GcPlan:
    """`everything` ignores age and size, and nothing else."""
    remove: list[GcDecision] = []
    keep: list[GcDecision] = []
    may_go: list[WorkdirUsage] = []
    total = 0
    for entry in sorted(entries, key=lambda one: (one.used, str(one.path))):
        if reason := protected(entry, limits, now=now):
            keep.append(GcDecision(entry=entry, why=reason))
            total += entry.size
        elif everything:
            remove.append(GcDecision(entry=entry, why="everything was asked for"))
        elif now - entry.used > limits.max_age:
            remove.append(GcDecision(entry=entry, why=f"not used for {ago(entry, now)}"))
        else:
            may_go.append(entry)
            total += entry.size
    for entry in may_go:
        if total > limits.max_size and entry.size:
            remove.append(GcDecision(entry=entry, why=f"together more than {size_in_words(limits.max_size)}"))
            total -= entry.size
        else:
            keep.append(GcDecision(entry=entry, why=f"used {ago(entry, now)} ago"))
    return GcPlan(remove=tuple(remove), keep=tuple(keep))


def protected(entry: WorkdirUsage, limits: Work, *, now: float) -> str | None:
    """Why it stays whatever is asked, or None."""
    if entry.in_use:
        return "in use"
    if entry.unsaved:
        return "holds a state that could not be saved"
    if entry.resists is not None:
        return f"cannot be removed: {entry.resists}"
    if entry.unfinished and now - entry.used <= limits.max_age:
        return f"its run was killed {ago(entry, now)} ago"
    return None


def ago(entry: WorkdirUsage, now: float) -> str:
    """How long ago it was used, to the largest unit that says it."""
    passed = max(0, int(now - entry.used))
    for length, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if passed >= 2 * length:
            return f"{passed // length} {unit}"
    return f"{passed} s"


_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))


def size_in_words(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"
