"""What a variable of the command line becomes: as in Terraform, by the type that the code declares."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from results_made import stack

from holdfast.config.output_refs import OutputRef
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import UsageError
from holdfast.plans.variables import undeclared_notes, variables_note, with_variables
from holdfast.terraform.argv import PlanOptions, VariableOption

TYPES = {
    "plain": "",
    "text": "string",
    "number": "number",
    "flag": "bool",
    "old": '"string"',
    "list": "list(string)",
    "map": "map(number)",
    "any": "any",
    "object": "object({ a = string, b = optional(list(number)) })",
}
STACK = structs.replace(stack("a"), module=".", variables={"text": "own", "number": 1})


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Code:
    folder: Path = tmp_path_factory.mktemp("code")
    blocks = (
        f'variable "{name}" {{\n{f"type = {type_}" if type_ else ""}\n}}\n' for name, type_ in TYPES.items()
    )
    (folder / "main.tf").write_text("".join(blocks))
    return Code(folder)


@given(text=st.text())
@pytest.mark.parametrize("name", ["plain", "text", "number", "flag", "old"])
def test_text_stays_text(code: Code, name: str, text: str) -> None:
    """Whatever it looks like: Terraform converts it."""
    assert with_variables(code, STACK, [VariableOption(name, text)]).variables[name] == text


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("list", '["a", "b"]', ("a", "b")),
        ("map", "{ a = 1, b = -2 }", {"a": 1, "b": -2}),
        ("any", "3", 3),
        ("any", '"3"', "3"),
        ("any", "null", None),
        ("object", '{\n  a = "x"\n  b = [1]\n}', {"a": "x", "b": (1,)}),
    ],
)
def test_another_type_is_an_expression(code: Code, name: str, text: str, value: object) -> None:
    assert with_variables(code, STACK, [VariableOption(name, text)]).variables[name] == value


@pytest.mark.parametrize(
    "text", ["", "[", "a", "[var.x]", "[file(1)]", "1\nlist = 2", "1\nblock {}", "[1 + 1]"]
)
def test_what_is_not_a_constant_is_refused_without_being_quoted(code: Code, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_variables(code, STACK, [VariableOption("list", text)])
    assert caught.value.problem.code == "HF-USE-26"
    assert caught.value.problem.message.startswith("cannot read -var list: it is ")


def test_the_last_one_wins_over_the_stacks_own(code: Code) -> None:
    options = [
        VariableOption("number", "2"),
        VariableOption("x.tfvars", 'number = 3\ntext = "file"\nelse = 1\n', is_file=True),
        VariableOption("y.tfvars.json", '{"list": ["${a}"]}', is_file=True),
        VariableOption("text", "last"),
    ]
    changed = with_variables(code, STACK, options)
    assert changed.variables == {"text": "last", "number": 3, "list": ("${a}",)}
    assert undeclared_notes(code, [STACK], options) == (
        "-var-file x.tfvars: no selected stack declares `else`",
    )
    [note] = variables_note(options)
    assert note.endswith(": -var number, -var-file x.tfvars, -var-file y.tfvars.json, -var text")


def test_no_value_is_shown() -> None:
    """Options are part of plans and of errors in the program itself."""
    assert "hunter2" not in repr(PlanOptions(variables=(VariableOption("a", "hunter2"),)))


def test_it_wins_over_an_input_from_another_stack(code: Code) -> None:
    """The output need not even exist then."""
    reference = OutputRef(text="network.id")
    stack_ = structs.replace(STACK, inputs={"text": reference, "plain": reference})
    changed = with_variables(code, stack_, [VariableOption("text", "given")])
    assert (changed.variables["text"], set(changed.inputs)) == ("given", {"plain"})
