"""What a line of output says to GitHub Actions: annotations, folds, and how to say nothing to it.

The runner takes a line for a command if it begins with `::`, or holds `##[` anywhere. Text from elsewhere
that is printed must do neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from holdfast.notify.quoting import lines_of, one_line, visible
from holdfast.notify.report import ChangeReport, StackReport, Trouble
from holdfast.notify.verdict import Verdict, verdict_of_stack

MOST_OF_A_LEVEL = 10
"""GitHub shows no more annotations of one level from one step."""
_WIDEST = 2000
_ERRORS = frozenset({Verdict.UNKNOWN, Verdict.FAILED, Verdict.REFUSED, Verdict.LOCKED})
_WARNINGS = frozenset({Verdict.APPROVAL, Verdict.CAREFUL})
_AT_START = re.compile(r"^(\s*):(?=:)")
_ANYWHERE = re.compile(r"##(?=\[)")
_TOKEN = re.compile(r"[0-9a-f]{16,}\Z")


def harmless(text: str) -> str:
    """The same text, in which no line is a command."""
    return "\n".join(map(_harmless_line, lines_of(text)))


def _harmless_line(line: str) -> str:
    return _ANYWHERE.sub("## ", _AT_START.sub(r"\1: ", line))


def annotation_lines(report: ChangeReport, prefix: str = "") -> list[str]:
    """`::error` and `::warning` lines, the gravest first. `prefix` leads from the workspace to our files."""
    errors: list[str] = [_of_trouble("error", one, prefix, "Holdfast") for one in report.troubles]
    warnings: list[str] = []
    for stack in report.ordered:
        verdict = verdict_of_stack(stack)
        if verdict in _ERRORS:
            errors += _of_stack("error", stack, prefix)
        elif verdict in _WARNINGS:
            warnings += _of_stack("warning", stack, prefix)
    return [*_at_most("error", errors), *_at_most("warning", warnings)]


def _of_stack(level: str, stack: StackReport, prefix: str) -> Iterator[str]:
    """One for each error that has a place, and one for all the rest."""
    title = f"{stack.name} {stack.status}"
    texts = []
    for trouble in stack.troubles:
        if trouble.file is None:
            texts.append(f"{trouble.code} {trouble.message}")
        else:
            yield _of_trouble(level, trouble, prefix, title)
    texts += [f"{rule.code} {rule.message}" for rule in stack.rules]
    texts += [f"{risk.address} {risk.what}" for risk in stack.risks]
    texts += [] if stack.troubles else list(stack.notes)
    if texts or not stack.troubles:
        yield command(level, "\n".join(texts) or stack.status, title=title)


def _of_trouble(level: str, trouble: Trouble, prefix: str, title: str) -> str:
    file = f"{prefix}{trouble.file}" if trouble.file is not None else None
    words = f"{trouble.code} {trouble.message}"
    return command(level, words, file=file, line=trouble.line if file else None, title=title)


def _at_most(level: str, found: list[str]) -> list[str]:
    if len(found) <= MOST_OF_A_LEVEL:
        return found
    shown = found[: MOST_OF_A_LEVEL - 1]
    rest = command(level, f"{len(found) - len(shown)} more: see the job summary", title="Holdfast")
    return [*shown, rest]


def command(level: str, message: str, **properties: str | int | None) -> str:
    """One line for the runner, whatever the texts hold."""
    shown = "\n".join(lines_of(message))
    cut = shown if len(shown) <= _WIDEST else f"{shown[: _WIDEST - 1]}…"
    given = ",".join(
        f"{name}={_property(one_line(str(value), _WIDEST))}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level}{' ' if given else ''}{given}::{_data(cut)}"


def folded(title: str, lines: Iterable[str], token: str) -> list[str]:
    """A fold in the log. Between the lines with the token the runner listens to nothing but that token."""
    if not _TOKEN.match(token):
        raise ValueError("the token must be hard to guess")
    inside = (_harmless_line(visible(line)) for line in lines)
    head = _data(one_line(title, _WIDEST))
    return [f"::group::{head}", f"::stop-commands::{token}", *inside, f"::{token}::", "::endgroup::"]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A").replace("##[", "## [")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
