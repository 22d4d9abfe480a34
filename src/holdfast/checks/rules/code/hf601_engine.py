"""Terraform's own `fmt` and `validate`."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.engine.source_lines import mask_values
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import EngineOutput
from holdfast.kernel.errors import Place

_SHOWN = 3
_HEREDOC = "<<"


def _check_format(output: EngineOutput) -> Iterator[CheckResult]:
    if output.fmt_skipped is not None:
        yield Skipped(reason=output.fmt_skipped)
    for path, formatted in sorted(output.formatted.items()):
        content = output.stack.checkout.content(path)
        if content is None or content == formatted:
            continue
        users = _users(output, path)
        for hunk in hunks(content, formatted):
            place = Place(file=path, line=hunk.line)
            for stack in users:
                yield finding(place, _message(hunk), hint=_hint(hunk), end_line=hunk.end_line, stack=stack)


def _users(output: EngineOutput, path: str) -> tuple[str | None, ...]:
    """The stacks that use the file; Terraform formats it for one of them on behalf of all."""
    checkout = output.stack.checkout
    code = checkout.users.get(path.rpartition("/")[0] or ".", ())
    variables = (stack for stack in checkout.stacks if path in stack.stack.variables_files)
    return tuple({stack.name: None for stack in (*code, *variables)}) or (None,)


def _message(hunk: Hunk) -> str:
    if not hunk.before:
        return "lines are missing here"
    if not hunk.after:
        return "these lines are removed"
    count = len(hunk.before)
    return "this line is not formatted" if count == 1 else f"these {count} lines are not formatted"


def _hint(hunk: Hunk) -> str | None:
    """The formatted lines without values, which may be secrets; None: the rule's own hint."""
    if not 0 < len(hunk.after) <= _SHOWN or any(_HEREDOC in line for line in hunk.after):
        return None
    lines = [masked for line in hunk.after if (masked := mask_values(line.strip())) is not None]
    return f"Formatted: {' ⏎ '.join(lines)}" if len(lines) == len(hunk.after) else None


HF601 = Rule(
    id="HF601",
    title="Code that is not formatted",
    fix="Run `holdfast check --engine --fix`, which writes the same format as `terraform fmt`.",
    severity=Severity.WARNING,
    engine=_check_format,
)


def _check_validity(output: EngineOutput) -> Iterator[CheckResult]:
    if output.validate_skipped is not None:
        yield Skipped(reason=output.validate_skipped)
    for folder in output.unused_folders:
        yield Skipped(reason="no stack uses this code, so it was not validated", file=folder)
    for severity, problems in ((None, output.problems), (Severity.WARNING, output.warnings)):
        for problem in problems:
            yield Finding(message=problem.message, place=problem.place, hint=problem.hint, severity=severity)


HF602 = Rule(
    id="HF602",
    title="Code that Terraform rejects",
    fix="Fix what Terraform reports.",
    severity=Severity.ERROR,
    engine=_check_validity,
)


class Hunk(Struct, frozen=True, kw_only=True):
    """Consecutive lines that are replaced."""

    line: int
    """The first line, counting from one; for added lines, the line they are inserted before."""
    end_line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(before: bytes, after: bytes) -> Iterator[Hunk]:
    old, new = _lines(before), _lines(after)
    for kind, first, last, new_first, new_last in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            yield Hunk(
                line=min(first + 1, max(len(old), 1)),
                end_line=max(last, min(first + 1, max(len(old), 1))),
                before=tuple(old[first:last]),
                after=tuple(new[new_first:new_last]),
            )


def _lines(content: bytes) -> list[str]:
    """With line endings, which are part of the format. As in HCL, only a line feed ends a line."""
    return io.StringIO(content.decode(errors="surrogateescape"), newline="\n").readlines()
