"""Which work directories to remove: by age, then by total size with the oldest first. Pure.

A directory that is in use, that holds a state that could not be saved, or that a recently killed run left is
always kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.config.settings import Work


class WorkdirUsage(Struct, frozen=True, kw_only=True):
    """One work directory and how it is used."""

    path: Path
    used: float
    """When a run last used it, in seconds since the epoch."""
    size: int = 0
    in_use: bool = False
    unsaved: bool = False
    """It holds an `errored.tfstate`: perhaps the only copy of the state."""
    unfinished: bool = False
    """It holds the plan of a killed run, whose processes may still use it."""
    error: str | None = None
    """Why it could not be removed."""


class GcPlan(Struct, frozen=True, kw_only=True):
    """Each work directory with the reason."""

    remove: list[tuple[WorkdirUsage, str]]
    """Oldest first."""
    keep: list[tuple[WorkdirUsage, str]]


def decide(entries: Iterable[WorkdirUsage], limits: Work, *, now: float, everything: bool = False) -> GcPlan:
    """`everything` ignores age and size only."""
    plan = GcPlan(remove=[], keep=[])
    candidates: list[WorkdirUsage] = []
    total = 0
    for entry in sorted(entries, key=lambda entry: (entry.used, str(entry.path))):
        if reason := keep_reason(entry, limits, now=now):
            plan.keep.append((entry, reason))
            total += entry.size
        elif everything:
            plan.remove.append((entry, "--all"))
        elif now - entry.used > limits.max_age:
            plan.remove.append((entry, f"not used for {ago(entry, now)}"))
        else:
            candidates.append(entry)
            total += entry.size
    for entry in candidates:
        if total > limits.max_size and entry.size:
            plan.remove.append((entry, f"work directories exceed {format_size(limits.max_size)}"))
            total -= entry.size
        else:
            plan.keep.append((entry, f"used {ago(entry, now)} ago"))
    return plan


def keep_reason(entry: WorkdirUsage, limits: Work, *, now: float) -> str | None:
    """Why it is always kept, or None."""
    if entry.in_use:
        return "in use"
    if entry.unsaved:
        return "holds a state that could not be saved"
    if entry.error is not None:
        return f"cannot be removed: {entry.error}"
    if entry.unfinished and now - entry.used <= limits.max_age:
        return f"its run was killed {ago(entry, now)} ago"
    return None


def ago(entry: WorkdirUsage, now: float) -> str:
    """How long ago it was used, in the largest unit that fits."""
    passed = max(0, int(now - entry.used))
    for length, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if passed >= 2 * length:
            return f"{passed // length} {unit}"
    return f"{passed} s"


_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))


def format_size(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} B"
