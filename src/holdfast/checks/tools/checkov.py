"""Runs Checkov on the code and on plans, if it is installed. Its findings keep their ids.

Checkov succeeds if there is nothing to check: a missing file, a document that is not a plan, an empty folder.
Here each of these is an error, and a file that Checkov ignores is reported as a skip.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.tools.checkov_report import (
    SEEN,
    SEEN_CHECK,
    UNNAMED,
    CheckovCheck,
    CheckovReport,
    read_report,
)
from holdfast.checks.tools.interface import (
    ToolRequest,
    ToolResult,
    child_variables,
    run_program,
    tool,
    tool_rule,
)
from holdfast.config import yaml
from holdfast.config.checks import Use
from holdfast.config.problems import Problems
from holdfast.kernel.errors import Place
from holdfast.secrets.redact import MASK
from holdfast.system import files
from holdfast.terraform.statefile.sensitive import without_marked
from holdfast.terraform.workdirs.scratch import open_scratch_folder

_SECONDS = 900.0
ALWAYS = (
    *("--output=json", "--compact", "--skip-download", "--skip-results-upload"),
    "--include-all-checkov-policies",
)
"""Nothing is downloaded or uploaded, even if an API key of Checkov's platform is configured.

Without `--quiet`, which hides the files that could not be read.
"""
_LEVELS = {
    "CRITICAL": Severity.ERROR,
    "HIGH": Severity.ERROR,
    "MEDIUM": Severity.WARNING,
    "LOW": Severity.NOTE,
    "INFO": Severity.NOTE,
}
_DATA = (".yaml", ".yml", ".json", ".md")
"""Suffixes of files that Checkov does not execute."""


def check(request: ToolRequest) -> Iterator[ToolResult]:
    program = request.program("checkov")
    if program is None:
        hint = "Install it with `pipx install checkov`, or set `checks.tools.checkov` to `auto`."
        yield request.missing("`checkov` is not on PATH", hint=hint)
        return
    has_code = any(True for module in request.checkout.modules for _ in module.resources())
    settings = _settings(request.checkout)
    if settings is None:
        if has_code or request.plans:
            yield request.failed("its settings are not valid YAML", hint=f"Fix {' or '.join(FILES)}.")
        return
    if has_code:
        yield from _report_left_out(request, settings)
        yield from _check_code(request, program, settings)
    for plan in request.plans.values():
        yield from _check_plan(request, program, plan, settings)


def _settings(checkout: Checkout) -> CheckovSettings | None:
    """Of the first file that exists, as in Checkov itself."""
    for file in FILES:
        if (text := checkout.text(file)) is not None:
            return read_settings(text, file)
    return CheckovSettings()


def _report_left_out(request: ToolRequest, settings: CheckovSettings) -> Iterator[ToolResult]:
    """Checks that the settings skip, and settings that are not passed on."""
    for id_ in settings.skipped:
        yield tool_rule(id_), Skipped(reason="skipped in the settings of Checkov")
    own = tool_rule("checkov")
    if settings.checks:
        yield own, Skipped(reason=f"its settings select only these checks: {', '.join(settings.checks)}")
    for folder in settings.others:
        if not _is_data(request.checkout, folder):
            yield own, Skipped(reason=f"the checks in {folder} are not run: the folder contains code")
    if generated := sorted({path for stack in request.checkout.stacks for path in stack.stack.generated}):
        reason = "generated files are only checked in plans"
        yield own, Skipped(reason=f"{reason}: {', '.join(generated)}", file=generated[0])
    for key in settings.left_out:
        yield own, Skipped(reason=f"its setting `{key}` is ignored")


def _is_data(checkout: Checkout, folder: str) -> bool:
    tree = checkout.code.tree
    inside = tree.inside(".", folder)
    return inside is not None and tree.is_folder(inside) and all(f.endswith(_DATA) for f in tree.walk(inside))


def _check_code(request: ToolRequest, program: str, settings: CheckovSettings) -> Iterator[ToolResult]:
    variables = child_variables(request.environment)
    with _open_command(request, program, settings) as (folder, argv):
        argv += [f"--directory={request.root}", "--framework=terraform"]
        finished = run_program(argv, folder, variables, _SECONDS)
    report = read_report(finished)
    if isinstance(report, str):
        yield request.failed(report)
        return
    modules = request.checkout.modules
    ours = {file.path for module in modules for file in module.files}
    unread = {_relative(path, request.root) for path in report.unread}
    for file in sorted(unread):
        if file in ours or file == UNNAMED:
            yield request.failed(f"could not read {file}")
    read = {_relative(path, request.root) for path in report.seen}
    expected = {
        resource.block.place.file for module in modules for resource in module.resources(mode="managed")
    }
    if expected and not read:
        yield request.failed("found no resources, although the code has some")
        return
    for file in sorted(expected - read - unread):
        yield tool_rule("checkov"), Skipped(reason="Checkov did not check this file", file=file)
    yield from _code_results(request, report, ours)


def _code_results(request: ToolRequest, report: CheckovReport, ours: set[str]) -> Iterator[ToolResult]:
    for check in report.failed:
        file = _relative(check.file, request.root)
        if file in ours:
            line, end = check.lines or (None, None)
            yield _tool_result(request, check, place=Place(file=file, line=line), end_line=end)
    for check in report.skipped:
        file = _relative(check.file, request.root)
        if file in ours:
            reason = "skipped by a comment in the code"
            reason = f"{reason}: {check.comment}" if check.comment else reason
            yield tool_rule(check.id, check.title), Skipped(reason=reason, file=file)


def _check_plan(
    request: ToolRequest, program: str, plan: CheckedPlan, settings: CheckovSettings
) -> Iterator[ToolResult]:
    """Checkov needs a file: it is written without the values that Terraform marks as sensitive."""
    masked = without_marked(json.loads(plan.document), MASK)
    variables = child_variables(request.environment)
    with _open_command(request, program, settings) as (folder, argv):
        file = folder / "plan.json"
        files.write(file, json.dumps(masked), durable=False)
        argv += [f"--file={file}", "--framework=terraform_plan"]
        finished = run_program(argv, folder, variables, _SECONDS)
    report = read_report(finished)
    name = plan.stack.name
    if isinstance(report, str):
        yield request.failed(report, stack=name)
    elif report.unread or (not report.seen and _has_resources(masked)):
        yield request.failed("could not read the plan", stack=name)
    else:
        for check in report.failed:
            yield _tool_result(request, check, stack=name)


def _has_resources(plan: Mapping[str, Any]) -> bool:
    """Planned resources. Checkov reports nothing about deleted ones."""

    def any_in(module: Mapping[str, Any]) -> bool:
        return bool(module.get("resources")) or any(map(any_in, module.get("child_modules") or ()))

    return any_in((plan.get("planned_values") or {}).get("root_module") or {})


@contextlib.contextmanager
def _open_command(
    request: ToolRequest, program: str, settings: CheckovSettings
) -> Iterator[tuple[Path, list[str]]]:
    """A working directory and the start of the command.

    Not in the repository, from where Checkov would read its settings itself.
    """
    with open_scratch_folder() as folder:
        own = folder / "checks"
        own.mkdir(mode=0o700)
        files.write(own / "seen.yaml", SEEN_CHECK, durable=False)
        others = [request.root / path for path in settings.others if _is_data(request.checkout, path)]
        folders = [f"--external-checks-dir={path}" for path in (own, *others)]
        yield folder, [program, *ALWAYS, *folders, *settings.flags(SEEN)]


def _tool_result(
    request: ToolRequest,
    check: CheckovCheck,
    *,
    place: Place | None = None,
    end_line: int | None = None,
    stack: str | None = None,
) -> ToolResult:
    """Offline, Checkov has no severities: a finding is an error if the tool is `on`, else a warning."""
    own = Severity.ERROR if request.use is Use.ON else Severity.WARNING
    rule = Rule(
        id=check.id,
        title=check.title,
        why="Checkov reports it; see its documentation.",
        fix=f"See {check.guideline}" if check.guideline else "",
        severity=own,
    )
    severity = _LEVELS.get(check.severity.upper(), own) if check.severity is not None else None
    return rule, Finding(
        message=check.title,
        place=place,
        end_line=end_line,
        address=check.resource or None,
        stack=stack,
        severity=severity,
    )


def _relative(path: str, root: Path) -> str:
    """Of an absolute path, or of one from the checked folder (`/a/main.tf`): both occur."""
    return path.removeprefix(str(root)).lstrip("/")


TOOL = tool("checkov", check)


# Settings in `.checkov.yaml`. Checkov itself would follow all of them: Python code to run, a file or a URL
# for its report. Settings that select checks are passed on; what they leave out is reported. Settings for the
# exit code or the output have no effect here.


FILES: Final = (".checkov.yaml", ".checkov.yml")
_CHECK, _SKIP, _PATHS, _OTHERS = "check", "skip-check", "skip-path", "external-checks-dir"
_NO_EFFECT: Final = frozenset(
    (
        *("branch", "compact", "create-baseline", "directory", "evaluate-variables", "file", "framework"),
        *("hard-fail-on", "mask", "no-fail-on-crash", "no-guide", "output", "output-file-path", "quiet"),
        *("repo-id", "skip-download", "skip-framework", "skip-resources-without-violations", "soft-fail"),
        *("soft-fail-on", "summary-position"),
    )
)


class CheckovSettings(NamedTuple):
    checks: tuple[str, ...] = ()
    """Only these; empty: all."""
    skipped: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Folders with the repository's own checks."""
    left_out: tuple[str, ...] = ()
    """Settings that are not passed on."""

    def flags(self, own: str) -> Iterator[str]:
        """`own` is a check of Holdfast, which always runs."""
        if self.checks:
            yield f"--check={','.join((*self.checks, own))}"
        if self.skipped:
            yield f"--skip-check={','.join(self.skipped)}"
        yield from (f"--skip-path={path}" for path in self.paths)


def read_settings(text: str, file: str) -> CheckovSettings | None:
    """None if the file is not valid."""
    problems = Problems()
    node = yaml.read(text, file=file, problems=problems)
    if len(problems) or not isinstance(node, yaml.MapNode):
        return CheckovSettings() if not len(problems) and _is_empty(node) else None
    values = {entry.key.replace("_", "-"): tuple(_texts(entry.value)) for entry in node.entries}
    known = _NO_EFFECT | {_CHECK, _SKIP, _PATHS, _OTHERS}
    return CheckovSettings(
        checks=_split_lists(values.get(_CHECK, ())),
        skipped=_split_lists(values.get(_SKIP, ())),
        paths=values.get(_PATHS, ()),
        others=values.get(_OTHERS, ()),
        left_out=tuple(sorted(key for key in values if key not in known)),
    )


def _is_empty(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value is None


def _texts(node: yaml.Node) -> Iterator[str]:
    match node:
        case yaml.ScalarNode():
            yield node.text
        case yaml.ListNode():
            for item in node.items:
                yield from _texts(item)
        case _:
            return


def _split_lists(texts: tuple[str, ...]) -> tuple[str, ...]:
    """`A,B` is two."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
