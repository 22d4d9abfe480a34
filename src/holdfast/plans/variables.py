"""`-var` and `-var-file` of the command line: values that a stack gets in addition to its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from holdfast.hcl.eval.code import Code, Variable
from holdfast.hcl.eval.values import known
from holdfast.hcl.nodes import Literal, Traversal
from holdfast.hcl.reader import read, values
from holdfast.kernel.errors import UsageError
from holdfast.stacks.generated import code_of
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import VariableOption

_PAGE = "docs/plan-and-apply.md, Variables on the command line"


def with_variables(code: Code, stack: Stack, options: Iterable[VariableOption]) -> Stack:
    """The stack with these values instead of its own, the last one winning, as in Terraform.

    Names that the stack does not declare are left out: `undeclared` reports them.
    """
    declared = code_of(code, stack).module(stack.module).variables
    given: dict[str, Any] = {}
    for option in options:
        if option.is_file:
            given.update(_file_values(option))
        elif option.name in declared:
            given[option.name] = _value(option, declared[option.name])
    given = {name: value for name, value in given.items() if name in declared}
    if not given:
        return stack
    return replace(
        stack,
        variables=MappingProxyType({**stack.variables, **given}),
        inputs={name: output for name, output in stack.inputs.items() if name not in given},
    )


def variable_values(options: Iterable[VariableOption]) -> dict[str, object]:
    """By name, the last one winning: for a server, which knows the types."""
    given: dict[str, object] = {}
    for option in options:
        given |= _file_values(option) if option.is_file else {option.name: option.text}
    return given


def _value(option: VariableOption, variable: Variable) -> object:
    """As text for a primitive type or without a type; of any other type it is an expression."""
    match variable.type:
        case (
            None | Traversal(root="string" | "number" | "bool") | Literal(value="string" | "number" | "bool")
        ):
            return option.text
        case _:
            return _values(option, f"value = {option.text}\n", "")["value"]


def _file_values(option: VariableOption) -> Mapping[str, object]:
    return _values(option, option.text, ".json" if option.name.endswith(".json") else "")


def _values(option: VariableOption, text: str, ending: str) -> Mapping[str, object]:
    """Constants only: Terraform allows neither references nor functions here."""
    file = read(text, f"{option.name}.tfvars{ending}")
    assigned = values(file)
    problem = "it is not valid HCL" if file.problems or file.body.blocks else None
    if problem is None and not option.is_file and set(assigned) != {"value"}:
        problem = "it is more than one value"
    if problem is None and (computed := [name for name, value in assigned.items() if not known(value)]):
        problem = f"`{computed[0]}` is not a constant" if option.is_file else "it is not a constant"
    if problem is not None:
        line = next((f", line {item.place.line}" for item in file.problems if item.place), "")
        raise UsageError(
            "HF-USE-26",
            f"cannot read {option}: {problem}{line if option.is_file else ''}",
            hint=f'Write it as in a variables file: -var \'zones=["a", "b"]\' ({_PAGE}).',
        )
    return assigned


def undeclared_notes(
    code: Code, stacks: Iterable[Stack], options: Iterable[VariableOption]
) -> tuple[str, ...]:
    """Notes on stacks that do not declare a variable; an error if none of them does."""
    declared = {stack.name: code_of(code, stack).module(stack.module).variables for stack in stacks}
    notes: list[str] = []
    anywhere = {name for names in declared.values() for name in names}
    for option in options if declared else ():
        if option.is_file:
            unused = sorted(set(_file_values(option)) - anywhere)
            notes += [f"{option}: no selected stack declares `{name}`" for name in unused]
            continue
        missing = sorted(stack for stack, names in declared.items() if option.name not in names)
        if len(missing) == len(declared):
            raise UsageError(
                "HF-USE-27",
                f"no selected stack declares the variable `{option.name}`",
                hint=f'Check its name, or declare it in the code: variable "{option.name}" {{}}',
            )
        if missing:
            notes.append(f"{option} was not passed to {', '.join(missing)}: the code does not declare it")
    return tuple(notes)


def variables_note(options: Iterable[VariableOption]) -> tuple[str, ...]:
    """For results and the run history: which values came from the command line."""
    named = ", ".join(dict.fromkeys(map(str, options)))
    return (f"with values from the command line: {named}",) if named else ()
