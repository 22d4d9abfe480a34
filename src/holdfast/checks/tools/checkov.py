"""Checkov, where it is installed: over the code, and over plans. Its findings keep their own ids.

Checkov ends well where it was given nothing to look at: a missing file, a document that is no plan, an empty
folder. Here each of these is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.checks.interface import Finding, Rule, Severity
from holdfast.checks.subjects import CheckedPlan
from holdfast.checks.tools.interface import Asked, Said, child_variables, how_it_ended, tool
from holdfast.config.check_valid import Use
from holdfast.doors import files, processes
from holdfast.doors.processes import Finished
from holdfast.kernel.errors import Place
from holdfast.kernel.values import dataclass
from holdfast.secrets.redact import MASK
from holdfast.terraform.scratch import scratch_folder
from holdfast.terraform.sensitive import without_marked

_SECONDS = 900.0
ALWAYS = ("--output=json", "--compact", "--skip-download")
"""Nothing is fetched and nothing sent: `--skip-download` keeps it off the network.

Not `--quiet`: that leaves out which files it could not read.
"""
_UNNAMED = "a file that it does not name"
_LEVELS = {
    "CRITICAL": Severity.ERROR,
    "HIGH": Severity.ERROR,
    "MEDIUM": Severity.WARNING,
    "LOW": Severity.NOTE,
    "INFO": Severity.NOTE,
}
_ENDS = (0, 1)
"""Nothing failed, and something did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A check of Checkov's that failed, as its report says."""

    id: str
    title: str
    file: str
    lines: tuple[int, int] | None
    resource: str
    guideline: str | None
    severity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    failed: tuple[Failed, ...]
    unread: tuple[str, ...]
    resources: int
    """How many it saw: none where there are some is no answer."""


def look(asked: Asked) -> Iterator[Said]:
    program = asked.program("checkov")
    if program is None:
        hint = "Install it in an environment of its own (pipx install checkov), or say `checkov: auto`."
        yield asked.missing("there is no `checkov` on PATH", hint=hint)
        return
    if any(True for module in asked.checkout.modules for _ in module.resources()):
        yield from _code(asked, program)
    for plan in asked.plans.values():
        yield from _plan(asked, program, plan)


def _code(asked: Asked, program: str) -> Iterator[Said]:
    finished = _run(asked, [program, "--directory=.", "--framework=terraform", *ALWAYS])
    report = read_report(finished)
    if isinstance(report, str):
        yield asked.failed(report)
        return
    ours = {file.path for module in asked.checkout.modules for file in module.files}
    for path in report.unread:
        if (file := _relative(path, asked.root)) in ours or path == _UNNAMED:
            yield asked.failed(f"could not read {file}")
    if report.resources == 0:
        yield asked.failed("saw no resource, and the code has some")
    for one in report.failed:
        file = _relative(one.file, asked.root)
        if file in ours:
            line, end = one.lines or (None, None)
            yield _said(asked, one, place=Place(file=file, line=line), end_line=end)


def _plan(asked: Asked, program: str, plan: CheckedPlan) -> Iterator[Said]:
    """Checkov wants a file. What Terraform marks as sensitive does not stand in it."""
    shown = without_marked(json.loads(plan.document), MASK)
    with scratch_folder() as folder:
        file = folder / "plan.json"
        files.write(file, json.dumps(shown), durable=False)
        finished = _run(asked, [program, f"--file={file}", "--framework=terraform_plan", *ALWAYS])
    report = read_report(finished)
    name = plan.stack.name
    if isinstance(report, str):
        yield asked.failed(report, stack=name)
    elif report.unread or (report.resources == 0 and _has_resources(shown)):
        yield asked.failed("could not read the plan", stack=name)
    else:
        for one in report.failed:
            yield _said(asked, one, stack=name)


def _has_resources(plan: Mapping[str, Any]) -> bool:
    """Those that will be there: of what is only deleted Checkov has nothing to say."""

    def inside(module: Mapping[str, Any]) -> bool:
        return bool(module.get("resources")) or any(inside(one) for one in module.get("child_modules") or ())

    return inside((plan.get("planned_values") or {}).get("root_module") or {})


def _run(asked: Asked, argv: Sequence[str]) -> Finished:
    return processes.run(
        argv, folder=asked.root, environment=child_variables(asked.environment), seconds=_SECONDS
    )


def _said(
    asked: Asked,
    one: Failed,
    *,
    place: Place | None = None,
    end_line: int | None = None,
    stack: str | None = None,
) -> Said:
    """Offline it knows no severities: what was asked for is an error, what merely is there a warning."""
    own = Severity.ERROR if asked.use is Use.ON else Severity.WARNING
    rule = Rule(
        id=one.id,
        title=one.title,
        why="Checkov says so; its documentation has the reason.",
        fix=f"See {one.guideline}" if one.guideline else "",
        severity=own,
    )
    severity = _LEVELS.get(one.severity.upper(), own) if one.severity is not None else None
    return rule, Finding(
        message=one.title,
        place=place,
        end_line=end_line,
        address=one.resource or None,
        stack=stack,
        severity=severity,
    )


def _relative(path: str, root: Path) -> str:
    """`/a/main.tf` from the folder that was looked at, or an absolute path: both occur."""
    whole = str(root)
    return path.removeprefix(whole).lstrip("/")


def read_report(finished: Finished) -> Report | str:
    """What it found, or why that cannot be believed."""
    if finished.code not in _ENDS:
        return f"ended with {how_it_ended(finished)}"
    try:
        said = json.loads(finished.out)
        parts = said if isinstance(said, list) else [said]
        return _report(parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"printed no report: {how_it_ended(finished)}"


def _report(parts: Sequence[Mapping[str, Any]]) -> Report:
    failed: list[Failed] = []
    unread: list[str] = []
    resources = 0
    for part in parts:
        if "check_type" not in part:
            # The flat object that it prints where it looked at nothing.
            continue
        results = part["results"]
        named = [str(path) for path in results.get("parsing_errors") or ()]
        missing = int(part["summary"].get("parsing_errors") or 0) > len(named)
        unread += named or ([_UNNAMED] if missing else [])
        resources += int(part["summary"]["resource_count"])
        failed += [_failed(one) for one in results.get("failed_checks") or ()]
    return Report(failed=tuple(failed), unread=tuple(unread), resources=resources)


def _failed(one: Mapping[str, Any]) -> Failed:
    lines = one.get("file_line_range") or (0, 0)
    first, last = int(lines[0]), int(lines[1])
    return Failed(
        id=str(one["check_id"]),
        title=str(one.get("check_name") or one["check_id"]),
        file=str(one.get("file_path") or ""),
        lines=(first, max(first, last)) if first > 0 else None,
        resource=str(one.get("resource") or ""),
        guideline=one.get("guideline"),
        severity=one.get("severity"),
    )


TOOL = tool("checkov", look)
