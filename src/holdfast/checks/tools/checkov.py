"""Checkov, where it is installed: over the code, and over plans. Its findings keep their own ids.

Checkov ends well where it was given nothing to look at: a missing file, a document that is no plan, an empty
folder. Here each of these is an error, and a file that it passes over is told.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.tools.checkov_report import SEEN, SEEN_CHECK, UNNAMED, Checked, Report, read_report
from holdfast.checks.tools.checkov_settings import FILES, Settings, settings
from holdfast.checks.tools.interface import Asked, Said, child_variables, tool, words
from holdfast.config.checks import Use
from holdfast.kernel.errors import Place
from holdfast.secrets.redact import MASK
from holdfast.system import files, processes
from holdfast.terraform.statefile.sensitive import without_marked
from holdfast.terraform.workdirs.scratch import open_scratch_folder

_SECONDS = 900.0
ALWAYS = (
    *("--output=json", "--compact", "--skip-download", "--skip-results-upload"),
    "--include-all-checkov-policies",
)
"""Nothing is fetched and nothing sent, also where somebody left a key of its makers' platform at home.

Not `--quiet`: that leaves out which files it could not read.
"""
_LEVELS = {
    "CRITICAL": Severity.ERROR,
    "HIGH": Severity.ERROR,
    "MEDIUM": Severity.WARNING,
    "LOW": Severity.NOTE,
    "INFO": Severity.NOTE,
}
_DATA = (".yaml", ".yml", ".json", ".md")
"""What a folder of checks may hold: nothing that is run."""


def look(asked: Asked) -> Iterator[Said]:
    program = asked.program("checkov")
    if program is None:
        hint = "Install it in an environment of its own (pipx install checkov), or say `checkov: auto`."
        yield asked.missing("there is no `checkov` on PATH", hint=hint)
        return
    has_code = any(True for module in asked.checkout.modules for _ in module.resources())
    wanted = _settings(asked.checkout)
    if wanted is None:
        if has_code or asked.plans:
            yield asked.failed("its settings cannot be read", hint=f"Mend {' or '.join(FILES)}.")
        return
    if has_code:
        yield from _left_out(asked, wanted)
        yield from _code(asked, program, wanted)
    for plan in asked.plans.values():
        yield from _plan(asked, program, plan, wanted)


def _settings(checkout: Checkout) -> Settings | None:
    """The first file counts, as with Checkov itself."""
    for file in FILES:
        if (text := checkout.text(file)) is not None:
            return settings(text, file)
    return Settings()


def _left_out(asked: Asked, wanted: Settings) -> Iterator[Said]:
    """What the settings keep from being looked at, or ask for in vain."""
    for id_ in wanted.skipped:
        yield words(id_, id_), Skipped(reason="the settings of Checkov skip it")
    own = words("checkov", "checkov")
    if wanted.checks:
        yield own, Skipped(reason=f"its settings ask for these checks alone: {', '.join(wanted.checks)}")
    for folder in wanted.others:
        if not _is_data(asked.checkout, folder):
            yield own, Skipped(reason=f"checks in {folder} would be run as code, so they were not asked")
    for key in wanted.left_out:
        yield own, Skipped(reason=f"`{key}` of its settings is not passed on")


def _is_data(checkout: Checkout, folder: str) -> bool:
    tree = checkout.code.tree
    inside = tree.inside(".", folder)
    return inside is not None and tree.is_folder(inside) and all(f.endswith(_DATA) for f in tree.walk(inside))


def _code(asked: Asked, program: str, wanted: Settings) -> Iterator[Said]:
    with _prepared(asked, program, wanted) as (folder, argv):
        finished = _run(asked, folder, [*argv, f"--directory={asked.root}", "--framework=terraform"])
    report = read_report(finished)
    if isinstance(report, str):
        yield asked.failed(report)
        return
    modules = asked.checkout.modules
    ours = {file.path for module in modules for file in module.files}
    unread = {_relative(path, asked.root) for path in report.unread}
    for file in sorted(unread):
        if file in ours or file == UNNAMED:
            yield asked.failed(f"could not read {file}")
    seen = {_relative(path, asked.root) for path in report.seen}
    there = {one.block.place.file for module in modules for one in module.resources(mode="managed")}
    if there and not seen:
        yield asked.failed("saw no resource, and the code has some")
        return
    for file in sorted(there - seen - unread):
        yield words("checkov", "checkov"), Skipped(reason="Checkov did not look at this file", file=file)
    yield from _told(asked, report, ours)


def _told(asked: Asked, report: Report, ours: set[str]) -> Iterator[Said]:
    for one in report.failed:
        file = _relative(one.file, asked.root)
        if file in ours:
            line, end = one.lines or (None, None)
            yield _said(asked, one, place=Place(file=file, line=line), end_line=end)
    for one in report.skipped:
        file = _relative(one.file, asked.root)
        if file in ours:
            yield words(one.id, one.title), Skipped(reason=_why(one), file=file)


def _why(one: Checked) -> str:
    return (
        f"a comment in the code skips it: {one.comment}" if one.comment else "a comment in the code skips it"
    )


def _plan(asked: Asked, program: str, plan: CheckedPlan, wanted: Settings) -> Iterator[Said]:
    """Checkov wants a file. What Terraform marks as sensitive does not stand in it."""
    shown = without_marked(json.loads(plan.document), MASK)
    with _prepared(asked, program, wanted) as (folder, argv):
        file = folder / "plan.json"
        files.write(file, json.dumps(shown), durable=False)
        finished = _run(asked, folder, [*argv, f"--file={file}", "--framework=terraform_plan"])
    report = read_report(finished)
    name = plan.stack.name
    if isinstance(report, str):
        yield asked.failed(report, stack=name)
    elif report.unread or (not report.seen and _has_resources(shown)):
        yield asked.failed("could not read the plan", stack=name)
    else:
        for one in report.failed:
            yield _said(asked, one, stack=name)


def _has_resources(plan: Mapping[str, Any]) -> bool:
    """Those that will be there: of what is only deleted Checkov has nothing to say."""

    def inside(module: Mapping[str, Any]) -> bool:
        return bool(module.get("resources")) or any(inside(one) for one in module.get("child_modules") or ())

    return inside((plan.get("planned_values") or {}).get("root_module") or {})


@contextlib.contextmanager
def _prepared(asked: Asked, program: str, wanted: Settings) -> Iterator[tuple[Path, list[str]]]:
    """A folder to run it in, and the command so far.

    Not where the code is: it would take its settings from there by itself.
    """
    with open_scratch_folder() as folder:
        own = folder / "checks"
        own.mkdir(mode=0o700)
        files.write(own / "seen.yaml", SEEN_CHECK, durable=False)
        others = [asked.root / one for one in wanted.others if _is_data(asked.checkout, one)]
        folders = [f"--external-checks-dir={one}" for one in (own, *others)]
        yield folder, [program, *ALWAYS, *folders, *wanted.flags(SEEN)]


def _run(asked: Asked, folder: Path, argv: Sequence[str]) -> processes.Finished:
    return processes.run(
        argv,
        folder=folder,
        environment=child_variables(asked.environment),
        seconds=_SECONDS,
        background=True,
    )


def _said(
    asked: Asked,
    one: Checked,
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


TOOL = tool("checkov", look)
