"""The baseline of a repository: as it is, and as far as it counts in the review of a change."""

from __future__ import annotations

from holdfast.checks.model.baseline import BASELINE, BaselineEntry, common_entries, read_baseline
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import PathKind
from holdfast.kernel.errors import UsageError
from holdfast.plans.base_rules import BaseRules


def baseline_of(code: Code) -> tuple[BaselineEntry, ...] | None:
    """None if there is none."""
    content = code.content(BASELINE)
    if content is not None:
        return read_baseline(content)
    if code.tree.kind(BASELINE) is PathKind.MISSING and not code.tree.leads_outside(BASELINE):
        return None
    raise UsageError(
        "HF-CHECK-7",
        f"{BASELINE} cannot be read",
        hint="It must be a file of the repository. Write it again: holdfast check --baseline write",
    )


def counting_baseline(code: Code, base: BaseRules | None) -> tuple[BaselineEntry, ...] | None:
    """Without the entries that the change itself adds."""
    entries = baseline_of(code)
    if entries is None or base is None:
        return entries
    return common_entries(entries, lenient_baseline(base.code))


def lenient_baseline(code: Code) -> tuple[BaselineEntry, ...]:
    """Empty if it is missing or invalid: then nothing is known."""
    try:
        return baseline_of(code) or ()
    except UsageError:
        return ()
