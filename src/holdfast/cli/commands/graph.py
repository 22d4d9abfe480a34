"""`holdfast graph`: stacks and their dependencies, as text or as a drawing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option, fields
from holdfast.cli.parameters import Changed, Since, Stacks
from holdfast.kernel.errors import Exit, Problem, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.cli.console import Console
    from holdfast.stacks.graph import StackGraph

_FORMATS = ("text", "dot", "svg", "mermaid")


def graph(
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    format_: Annotated[
        str | None, Option("--format", metavar="|".join(_FORMATS), help="Output format. Default: text.")
    ] = None,
) -> Exit:
    """Show stacks and what they depend on. Selected stacks are marked, if not all are selected."""
    from holdfast.changes.repository import open_repository
    from holdfast.runs.document import error_document
    from holdfast.stacks import graph_formats
    from holdfast.stacks.graph import stack_graph
    from holdfast.stacks.unreadable import unreadable_files

    chosen = format_ or "text"
    if chosen not in _FORMATS:
        raise UsageError(
            "HF-USE-22", f"--format {chosen}: choose one of {', '.join(_FORMATS)}", hint="Or use --json."
        )
    repository = open_repository(invocation.config, invocation.environment)
    repository.tune(invocation.console.redactor)
    selection = repository.select(stacks or [], changed or [], since)
    selected = {chosen.stack.name for chosen in selection.selected}
    drawn = stack_graph(repository.stacks, selected)
    shown = (repository.by_name[node.name] for wave in drawn.waves for node in wave)
    errors = {stack.name: found for stack in shown if (found := unreadable_files(repository.code, stack))}
    document = {
        "version": 1,
        "stacks": [
            {
                **fields(node, "name", "environment", "production"),
                "depends_on": list(node.depends_on),
                "wave": number,
                "selected": node.name in selected,
                "error": error_document(errors[node.name][0]) if node.name in errors else None,
            }
            for number, wave in enumerate(drawn.waves, start=1)
            for node in wave
        ],
    }

    def show() -> None:
        if chosen == "text":
            _show(invocation.console, drawn, errors)
        else:
            sys.stdout.write(graph_formats.FORMATS[chosen](drawn))

    return invocation.answer(document, show, exit_code=Exit.FAILED if errors else Exit.DONE)


def _show(console: Console, drawn: StackGraph, errors: Mapping[str, tuple[Problem, ...]]) -> None:
    """By wave: a stack is applied after those of earlier waves that it depends on."""
    nodes = [node for wave in drawn.waves for node in wave]
    some = any(map(drawn.marks, nodes))
    count = f"; {len(drawn.selected)} selected (→)" if some else ""
    console.say(f" {plural(len(nodes), 'stack')} in {plural(len(drawn.waves), 'wave')}{count}")
    width = min(max((len(node.name) for node in nodes), default=0), 60)
    for number, wave in enumerate(drawn.waves, start=1):
        console.line("")
        console.line((f" wave {number}", "bold"))
        for node in wave:
            marked = drawn.marks(node)
            needs = f"  needs {', '.join(node.depends_on)}" if node.depends_on else ""
            name = f"{node.name:<{width}}" if needs else node.name
            console.line(("   → " if marked else "     ", "green"), (name, "bold" if marked else ""), needs)
            console.stack_problems(errors.get(node.name, ()))
