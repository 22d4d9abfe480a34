"""Outputs for later steps of a workflow: `steps.ID.outputs.verdict` and others."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.notify.report import BY_SEVERITY, ChangeReport
from holdfast.notify.verdict import verdict_of
from holdfast.system.markup import one_line

_COUNTS = ("create", "update", "replace", "delete", "forget", "import", "move")
_CHANGED = frozenset({"planned", "applied", "refused", "waiting"})


def outputs_of(report: ChangeReport, *, exit_code: int) -> dict[str, str]:
    """Documented in docs/pull-requests.md; names are only added."""
    statuses, totals = report.statuses, report.totals
    changed = sorted(stack.name for stack in report.stacks if stack.status in _CHANGED)
    return {
        "verdict": str(verdict_of(report)),
        "exit-code": str(exit_code),
        "stacks": str(len(report.stacks)),
        **{status: str(statuses[status]) for status in BY_SEVERITY},
        **{name: str(totals[name]) for name in _COUNTS},
        "changed-stacks": "\n".join(map(one_line, changed)),
    }


def output_lines(outputs: Mapping[str, str], token: str) -> str:
    """The text for GITHUB_OUTPUT. No value can contain its own delimiter."""
    end = f"holdfast_{token}"
    if any(end in value for value in outputs.values()):
        raise ValueError("a value contains the random delimiter")
    return "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in outputs.items())
