"""`holdfast stacks`: which stacks there are, and which ones a change affects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation, fields
from holdfast.cli.parameters import Changed, Dependencies, Dependents, Since, Stacks
from holdfast.kernel.errors import Exit, HoldfastError, Problem

if TYPE_CHECKING:
    from holdfast.changes.removed_stacks import RemovedStackReport
    from holdfast.changes.repository import Repository
    from holdfast.changes.selection import Selection
    from holdfast.stacks.stack import Selected, Stack


def stacks(
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    dependents: Dependents = False,
    dependencies: Dependencies = False,
) -> Exit:
    """List stacks: all, the named ones, or those a change affects. Shows the reasons."""
    from holdfast.changes.repository import open_repository
    from holdfast.stacks.unreadable import unreadable_files

    repository = open_repository(invocation.config, invocation.environment)
    repository.tune(invocation.console.redactor)
    selection = repository.select(
        stacks or [], changed or [], since, dependents=dependents, dependencies=dependencies
    )
    removed: tuple[RemovedStackReport, ...] = ()
    if selection.removed:
        from holdfast.changes.removed_stacks import inspect_removed
        from holdfast.cli.context import CommandContext

        removed = CommandContext(invocation).run(lambda context: inspect_removed(context, selection.removed))
    errors = {
        selected.stack.name: unreadable_files(repository.code, selected.stack)
        for selected in selection.selected
    }
    if invocation.as_json:
        invocation.document(
            {
                "version": 1,
                "stacks": [
                    _document(repository, selected, errors[selected.stack.name])
                    for selected in selection.selected
                ],
                "removed": [stack.document() for stack in removed],
                "ignored": [
                    {"stack": name, "files": list(files)}
                    for name, files in repository.ignored_changes(selection).items()
                ],
            }
        )
    else:
        _show(invocation, selection, removed, errors)
        for name, files in repository.ignored_changes(selection).items() if invocation.verbose else ():
            ignored = f"{name}  not counted, because `ignores` matches: {', '.join(files)}"
            invocation.console.line(("  - ", ""), (ignored, "dim"))
    if repository.held_back is not None:
        invocation.console.warn(repository.held_back)
    return Exit.FAILED if any(errors.values()) else Exit.DONE


def _document(repository: Repository, selected: Selected, errors: tuple[Problem, ...]) -> dict[str, object]:
    from holdfast.runs.document import error_document

    stack = selected.stack
    return {
        **fields(stack, "name", "environment", "production", "account", "region"),
        "target": stack.target.name if stack.target is not None else None,
        "module": stack.module,
        "variables": list(stack.variables_files),
        "backend": {"type": repository.backend_type(stack)},
        "engine": _engine(repository, stack),
        "depends_on": list(stack.depends_on),
        "derived": [
            {
                "stack": derived.stack,
                "source": derived.source,
                "file": derived.place.file,
                "line": derived.place.line,
            }
            for derived in stack.derived
        ],
        "reasons": [*selected.reasons, *([stack.environment_reason] if stack.environment_reason else [])],
        **fields(stack, "lane", "workspace"),
        "error": error_document(errors[0]) if errors else None,
    }


def _engine(repository: Repository, stack: Stack) -> dict[str, object] | None:
    try:
        engine = repository.choose(stack).engine
    except HoldfastError:
        return None
    return {"kind": engine.kind.value, "product": engine.product.value, "version": engine.version}


def _show(
    invocation: Invocation,
    selection: Selection,
    removed: tuple[RemovedStackReport, ...],
    errors: Mapping[str, tuple[Problem, ...]],
) -> None:
    console = invocation.console
    console.say(f" {selection.headline()}")
    if selection.selected:
        console.say("")
    width = min(max((len(selected.stack.name) for selected in selection.selected), default=0), 60)
    for selected in selection.selected:
        stack = selected.stack
        environment = (stack.environment or "no environment") + (" *" if stack.production else "")
        module = "" if stack.module == "." else stack.module
        console.line(f"  {stack.name:<{width}}  {environment:<16} {module}".rstrip())
        if selection.changed is not None or selection.added or invocation.verbose:
            for reason in selected.reasons:
                console.line(("      ", ""), (reason, "dim"))
        for dependency in _dependencies(stack) if invocation.verbose else ():
            console.line(("      ", ""), (dependency, "dim"))
        if stack.environment_unclear or invocation.verbose:
            style = "yellow" if stack.environment_unclear else "dim"
            console.line(("      ", ""), (stack.environment_reason, style))
        console.stack_problems(errors[stack.name])
    if any(selected.stack.production for selected in selection.selected):
        console.say("")
        console.say((" * counts as production", "dim"))
    for report in removed:
        console.line(("  ? ", "yellow"), f"{report.removed.name}  removed: {report.reason}")
        for address in report.resources or ():
            console.line(f"      {address}")


def _dependencies(stack: Stack) -> Iterator[str]:
    """Each with what it follows from."""
    for name in stack.depends_on:
        sources = [f"{derived.source}, {derived.place}" for derived in stack.derived if derived.stack == name]
        yield f"depends on {name} ({'; '.join(sources) or 'depends_on'})"
