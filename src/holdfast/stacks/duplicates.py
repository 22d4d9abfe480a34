"""What must exist for a stack, and what two must not have in common: their name and their state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from holdfast.config.problems import Problems
from holdfast.config.stack_rules import RuleKind, StackRule
from holdfast.stacks.backend import ReadBackend, state_location, type_mismatch
from holdfast.stacks.listing import Tree, has_file, has_root_module
from holdfast.stacks.stack import Stack


def check_files(stack: Stack, rule: StackRule, tree: Tree, problems: Problems) -> None:
    """A module or a variables file that does not exist."""
    listing = tree.listing(stack.module)
    if not has_root_module(listing):
        what = "does not exist" if listing is None else "contains no Terraform files"
        problems.add(
            "HF-STACK-4",
            f"{stack.name}: the module {stack.module} {what}",
            place=rule.place_of("module"),
            hint="`module:` is the folder of a root module, relative to holdfast.yaml.",
        )
    for path in stack.variables_files:
        if path != stack.own_file and not has_file(tree, path):
            problems.add(
                "HF-STACK-5",
                f"{stack.name}: the variables file {path} does not exist",
                place=rule.place_of("variables_files"),
                hint="Paths are relative to holdfast.yaml.",
            )


def check_names(stacks: Iterable[Stack], problems: Problems) -> None:
    """Two stacks with one name."""
    by_name: defaultdict[str, list[Stack]] = defaultdict(list)
    for stack in stacks:
        by_name[stack.name].append(stack)
    for name, same in by_name.items():
        if len(same) > 1:
            problems.add(
                "HF-STACK-1",
                f"{len(same)} stacks are named {name}: {_first_two(_origin(stack) for stack in same)}",
                place=same[1].place,
                hint="Set a unique `name:` in the entry.",
            )


def check_states(stacks: Iterable[Stack], code_backend: ReadBackend, problems: Problems) -> None:
    """Two stacks with one state, and backends of two types."""
    by_state: defaultdict[object, list[tuple[Stack, str]]] = defaultdict(list)
    for stack in stacks:
        code = code_backend(stack)
        code_type = type_mismatch(stack, code)
        if code_type is not None and stack.backend is not None:
            problems.add(
                "HF-STACK-11",
                f"{stack.name}: holdfast.yaml sets a backend of type {stack.backend.type}, "
                f"but the code in {stack.module} has {code_type}",
                place=stack.place,
                hint="Use the same type in both, or leave out `type`.",
            )
            continue
        location = state_location(stack, code)
        if location is not None:
            by_state[location.identity].append((stack, location.shown))
    for same in by_state.values():
        if len({stack.name for stack, _ in same}) > 1:
            problems.add(
                "HF-STACK-2",
                f"{len(same)} stacks share one state ({same[0][1]}): "
                f"{_first_two(f'{stack.name} ({_origin(stack)})' for stack, _ in same)}",
                place=same[1][0].place,
                hint="Give each stack its own state: a placeholder in the backend's key, or a workspace.",
            )


def _origin(stack: Stack) -> str:
    match stack.kind:
        case RuleKind.VARIABLES:
            return f"{stack.own_file}, entry at {stack.place}"
        case RuleKind.FOLDER:
            return f"folder {stack.module}, entry at {stack.place}"
        case RuleKind.NAMED:
            return f"entry at {stack.place}"


def _first_two(texts: Iterator[str]) -> str:
    first, second, *more = texts
    return f"{first} and {second}" + (f", and {len(more)} more" if more else "")
