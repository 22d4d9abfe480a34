"""Which stacks a change affects, with the reasons, and which it removes.

`changed` contains paths relative to the root: changed, new and deleted files. Selecting a stack does not
select its dependents.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import PathKind
from holdfast.kernel.errors import internal_error
from holdfast.stacks.reads.inputs import InputChange, InputKind, StackInputs, affecting_change, reason_text
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.stack import RemovedStack, Selected, Stack, may_be

_ORDER = tuple(InputKind)


def select(
    stacks: Iterable[Stack],
    changed: frozenset[str],
    code: Code,
    *,
    config_file: str = "holdfast.yaml",
    old_stacks: Mapping[str, Stack] | None = None,
    env_variables: frozenset[str] = frozenset(),
) -> tuple[Selected, ...]:
    """The affected stacks, in the given order.

    `old_stacks` are the stacks by name before the change. They only matter if the configuration changed;
    None means that its old version cannot be read, and then every stack is affected.
    """
    selected: list[Selected] = []
    for stack in stacks:
        reasons = list(_config_reasons(stack, config_file, old_stacks)) if config_file in changed else []
        try:
            reasons.extend(reasons_for(stack_inputs(code, stack, env_variables), changed))
        except Exception as error:  # noqa: BLE001 - it must not hide what the change affects besides
            failed = internal_error(error, f"reading the code of {stack.name}")
            reasons.append("its code cannot be followed, so every change counts")
            stack = replace(stack, problems=(*stack.problems, failed.problem))  # noqa: PLW2901
        reasons.extend(_file_reasons(stack, changed))
        if stack.is_unknown:
            reasons.append("its matrix cannot be read, so every change counts")
        if reasons:
            selected.append(Selected(stack=stack, reasons=tuple(dict.fromkeys(reasons))))
    return tuple(selected)


def reasons_for(inputs: StackInputs, changed: Iterable[str]) -> tuple[str, ...]:
    """One reason per kind of input that changed, the most direct first, with the changed paths."""
    grouped: dict[InputChange, set[str]] = {}
    for path in changed:
        if (change := affecting_change(inputs, path)) is not None:
            grouped.setdefault(change, set()).add(path)
    ordered = sorted(grouped.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][1]))
    return tuple(reason_text(kind, subject, paths) for (kind, subject), paths in ordered)


def ignored_changes(
    stacks: Iterable[Stack],
    changed: frozenset[str],
    code: Code,
    env_variables: frozenset[str] = frozenset(),
) -> dict[str, tuple[str, ...]]:
    """By name of a stack: the changed files that would affect it if `ignores` did not match them."""
    ignored: dict[str, tuple[str, ...]] = {}
    for stack in stacks:
        if not stack.ignores:
            continue
        inputs = stack_inputs(code, stack, env_variables)
        counting = (path for path in sorted(changed) if affecting_change(inputs, path, with_ignored=True))
        if paths := tuple(path for path in counting if affecting_change(inputs, path) is None):
            ignored[stack.name] = paths
    return ignored


def _config_reasons(stack: Stack, config_file: str, old_stacks: Mapping[str, Stack] | None) -> Iterable[str]:
    if old_stacks is None:
        yield f"{config_file} is new, or its old version cannot be read"
        return
    old = old_stacks.get(stack.name)
    if old is None:
        yield f"new in {config_file}"
    elif _own_part(old) != _own_part(stack):
        yield f"its part of {config_file} changed"


def _own_part(stack: Stack) -> Stack:
    """Without the dependencies that follow from code."""
    from_code = {derived.stack for derived in stack.derived if derived.output is None}
    own = tuple(name for name in stack.depends_on if name not in from_code)
    return replace(stack, derived=(), depends_on=own)


def _file_reasons(stack: Stack, changed: frozenset[str]) -> Iterable[str]:
    """Files that are no part of the code. A plan does not read the contract; the outputs must meet it."""
    file = posixpath.normpath(stack.contract.schema) if stack.contract is not None else None
    if file in changed:
        yield f"its contract {file} changed"
    for path in stack.backend.files if stack.backend is not None else ():
        if path in changed:
            yield f"its backend file {path} changed"
    for path in stack.sources:
        below = path != stack.module and any(name.startswith(f"{path}/") for name in changed)
        if below or path in changed:
            yield f"its matrix takes values from {path}, which changed"


def removed_stacks(
    stacks: Iterable[Stack],
    changed: frozenset[str],
    code: Code,
    stack_of_path: Callable[[str], Stack | None],
    *,
    config_file: str = "holdfast.yaml",
    old_stacks: Mapping[str, Stack] | None = None,
) -> tuple[RemovedStack, ...]:
    """Stacks that the change removed: their state may still contain resources.

    `stack_of_path` returns the stack that a deleted path would define if it still existed: its own variables
    file, or any code of a folder that was a root module. None if no entry matches it.
    """
    existing = {stack.name for stack in stacks}
    removed: dict[str, RemovedStack] = {}
    for path in sorted(changed):
        if code.tree.kind(path) is not PathKind.MISSING:
            continue
        stack = stack_of_path(path)
        if stack is None or stack.name in existing or stack.name in removed:
            continue
        by_file = stack.kind is RuleKind.VARIABLES
        removed[stack.name] = RemovedStack(
            stack=(old_stacks or {}).get(stack.name),
            name=stack.name,
            variables=path if by_file else None,
            reason=f"its variables file {path} was deleted"
            if by_file
            else f"its folder {stack.module} no longer contains code",
        )
    for name, old in (old_stacks or {}).items():
        unknown = any(may_be(entry, name) for entry in existing)
        if name not in existing and name not in removed and not unknown:
            reason = f"it is no longer in {config_file}"
            if config_file not in changed:
                reason = f"no entry of {config_file} finds it any more"
            removed[name] = RemovedStack(stack=old, name=name, variables=old.own_file, reason=reason)
    return tuple(removed[name] for name in sorted(removed))
