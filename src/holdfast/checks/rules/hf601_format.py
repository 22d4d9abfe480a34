"""HF601: code that is not in the format that Terraform itself writes."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.formatting import Hunk, hunks
from holdfast.checks.engine.source_lines import names_of
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import EngineSaid
from holdfast.kernel.errors import Place

_SHOWN = 3
_HEREDOC = "<<"


def _look(said: EngineSaid) -> Iterator[Answer]:
    if said.unformatted is not None:
        yield Skipped(reason=said.unformatted)
    for path, formatted in sorted(said.formatted.items()):
        content = said.stack.checkout.content(path)
        if content is None or content == formatted:
            continue
        users = _users(said, path)
        for hunk in hunks(content, formatted):
            place = Place(file=path, line=hunk.line)
            for stack in users:
                yield finding(place, _message(hunk), hint=_hint(hunk), end_line=hunk.end_line, stack=stack)


def _users(said: EngineSaid, path: str) -> tuple[str | None, ...]:
    """The stacks that the file is a part of: the one that Terraform was asked for speaks for others too."""
    checkout = said.stack.checkout
    code = checkout.users.get(path.rpartition("/")[0] or ".", ())
    given = (stack for stack in checkout.stacks if path in stack.stack.variables_files)
    return tuple({stack.name: None for stack in (*code, *given)}) or (None,)


def _message(hunk: Hunk) -> str:
    if not hunk.before:
        return "lines are missing here"
    if not hunk.after:
        return "these lines go"
    count = len(hunk.before)
    return "this line is not formatted" if count == 1 else f"these {count} lines are not formatted"


def _hint(hunk: Hunk) -> str | None:
    """What they become, by their names: a value may be a secret. Else the rule's own words."""
    if not 0 < len(hunk.after) <= _SHOWN or any(_HEREDOC in line for line in hunk.after):
        return None
    lines = [shown for line in hunk.after if (shown := names_of(line.strip())) is not None]
    return f"It becomes: {' ⏎ '.join(lines)}" if len(lines) == len(hunk.after) else None


RULE = Rule(
    id="HF601",
    title="Code that is not formatted",
    why="Where everybody formats as they like, changes of form hide changes of meaning in every diff.",
    fix="`holdfast check --engine --fix` writes the format back, as `terraform fmt` would.",
    severity=Severity.WARNING,
    engine=_look,
    more="The format is that of the engine that runs the stack: `fmt` works on a copy, and the result is "
    "compared byte for byte, line ends included. Variables files of the stack count, too.",
)
