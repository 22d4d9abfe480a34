"""Which stacks a change touches, and which it takes away. Reasons are in words, for people.

`changed` holds paths relative to the root: changed, new and deleted files alike. Selecting a stack does
not select what depends on it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import PathKind
from holdfast.stacks.reads.inputs import InputKind, StackInputs, affecting_change, reason_text
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.stack import RemovedStack, Selected, Stack

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
    """The touched stacks, in the order given.

    `old_stacks` are the stacks, by name, as the configuration gave them before the change; it only matters
    when the configuration changed, and None says that its old version cannot be read: then all are touched.
    """
    found: list[Selected] = []
    for stack in stacks:
        reasons = list(_configured(stack, config_file, old_stacks)) if config_file in changed else []
        reasons.extend(reasons_for(stack_inputs(code, stack, env_variables), changed))
        reasons.extend(_held_against(stack, changed))
        if reasons:
            found.append(Selected(stack=stack, reasons=tuple(dict.fromkeys(reasons))))
    return tuple(found)


def reasons_for(reach: StackInputs, changed: Iterable[str]) -> tuple[str, ...]:
    """One reason for each thing that changed, the most direct first, with the paths that show it."""
    grouped: dict[tuple[InputKind, str], set[str]] = {}
    for path in changed:
        touch = affecting_change(reach, path)
        if touch is None:
            continue
        one_by_one = touch.kind not in (InputKind.MODULE, InputKind.FOLDER, InputKind.EVERYTHING)
        grouped.setdefault((touch.kind, "" if one_by_one else touch.subject), set()).add(path)
    ordered = sorted(grouped.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][1]))
    return tuple(reason_text(kind, subject, paths) for (kind, subject), paths in ordered)


def _configured(stack: Stack, config_file: str, old_stacks: Mapping[str, Stack] | None) -> Iterable[str]:
    if old_stacks is None:
        yield f"{config_file} changed and its old version cannot be read"
        return
    old = old_stacks.get(stack.name)
    if old is None:
        yield f"{config_file} did not give this stack before"
    elif replace(old, place=stack.place) != stack:
        yield f"its part of {config_file} changed"


def _held_against(stack: Stack, changed: frozenset[str]) -> Iterable[str]:
    """No plan reads the contract, but what its outputs are held against has changed."""
    file = posixpath.normpath(stack.contract.schema) if stack.contract is not None else None
    if file in changed:
        yield f"its contract {file} changed"


def removed_stacks(
    stacks: Iterable[Stack],
    changed: frozenset[str],
    code: Code,
    stack_of_path: Callable[[str], Stack | None],
    *,
    config_file: str = "holdfast.yaml",
    old_stacks: Mapping[str, Stack] | None = None,
) -> tuple[RemovedStack, ...]:
    """Stacks that the change took away: their state may still hold resources.

    `stack_of_path` answers which stack a path that is gone would give if it were still there: its own
    variables file, or any code of a folder that was a root module. None when no rule matches it.
    """
    there = {stack.name for stack in stacks}
    found: dict[str, RemovedStack] = {}
    for path in sorted(changed):
        if code.tree.kind(path) is not PathKind.MISSING:
            continue
        gone = stack_of_path(path)
        if gone is None or gone.name in there or gone.name in found:
            continue
        by_file = gone.kind is RuleKind.VARIABLES
        found[gone.name] = RemovedStack(
            stack=(old_stacks or {}).get(gone.name, gone),
            name=gone.name,
            variables=path if by_file else None,
            reason=f"its variables file {path} is gone"
            if by_file
            else f"its folder {gone.module} holds no code any more",
        )
    if config_file in changed:
        for name, old in (old_stacks or {}).items():
            if name not in there and name not in found:
                reason = f"{config_file} does not give it any more"
                found[name] = RemovedStack(stack=old, name=name, variables=old.own_file, reason=reason)
    return tuple(found[name] for name in sorted(found))
