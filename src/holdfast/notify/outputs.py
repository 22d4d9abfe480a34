"""What later steps of a workflow can ask for: `steps.ID.outputs.verdict` and the like."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.notify.report import GRAVE_FIRST, ChangeReport
from holdfast.notify.verdict import verdict_of
from holdfast.system.markup import one_line

_COUNTS = ("create", "update", "replace", "delete", "forget", "import", "move")
_CHANGED = frozenset({"planned", "applied", "refused", "waiting"})


def outputs_of(report: ChangeReport, *, exit_code: int) -> dict[str, str]:
    """Names are documented in docs/pull-requests.md and only ever added to."""
    statuses, totals = report.statuses, report.totals
    changed = sorted(one.name for one in report.stacks if one.status in _CHANGED)
    return {
        "verdict": str(verdict_of(report)),
        "exit-code": str(exit_code),
        "stacks": str(len(report.stacks)),
        **{status: str(statuses[status]) for status in GRAVE_FIRST},
        **{name: str(totals[name]) for name in _COUNTS},
        "changed-stacks": "\n".join(map(one_line, changed)),
    }


def output_lines(outputs: Mapping[str, str], token: str) -> str:
    """The text that is appended to GITHUB_OUTPUT. No value can hold the end of its own text."""
    end = f"holdfast_{token}"
    if any(end in value for value in outputs.values()):
        raise ValueError("a value holds the random delimiter")
    return "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in outputs.items())
