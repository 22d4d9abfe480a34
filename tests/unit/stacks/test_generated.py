"""Templates of `generate`: no value adds code, and what a stack gets is what Holdfast reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from results_made import stack

from holdfast.config.placeholders import MalformedError
from holdfast.hcl.eval.code import Code
from holdfast.hcl.reader import constant, read
from holdfast.stacks.generated import code_of, escape, render
from holdfast.stacks.reads.walk import module_instances, stack_inputs
from holdfast.stacks.stack import GeneratedFile

TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('"\\\n${%}@')))


@given(value=TEXT)
def test_a_value_is_that_text_in_a_string_of_hcl(value: str) -> None:
    file = read(f'a = "{escape(value)}"\n', "x.tf")
    [attribute] = file.body.attributes
    assert (file.problems, file.body.blocks, constant(attribute.expression)) == ((), (), value)


@given(value=TEXT.filter(lambda text: "${" not in text and "%{" not in text))
def test_and_in_a_string_of_json(value: str) -> None:
    """Except for `${` and `%{`, which Terraform's JSON reads as templates too."""
    assert json.loads(f'"{escape(value)}"') == value


def test_placeholders_are_filled_in() -> None:
    values = {"region": 'e"u', "values.a.b": "1"}
    assert render("@{region} @@{region} ${x} {y} @{values.a.b} @x", values.__getitem__) == (
        'e\\"u @{region} ${x} {y} 1 @x'
    )
    with pytest.raises(KeyError):
        render("@{other}", values.__getitem__)


@given(
    values=st.lists(TEXT, min_size=1, max_size=3), between=st.sampled_from(["", "$", "%", "{", "a", "$a{"])
)
def test_neither_does_a_value_with_what_is_beside_it(values: list[str], between: str) -> None:
    template = between.join(f"@{{v{number}}}" for number in range(len(values)))
    wanted = between.join(values)
    try:
        text = render(template, lambda name: values[int(name[1:])])
    except MalformedError:
        assert "${" in wanted or "%{" in wanted
    else:
        [attribute] = read(f'a = "{text}"\n', "x.tf").body.attributes
        assert constant(attribute.expression) == wanted


@pytest.mark.parametrize("template", ["@{", "@{a", "@{a b}", "@{}", "@{a\n}", "@{{a}}"])
def test_what_is_not_a_placeholder_is_refused(template: str) -> None:
    with pytest.raises(MalformedError):
        render(template, lambda name: name)


def test_stacks_of_one_module_have_their_own_files(tmp_path: Path) -> None:
    """Everything else is read once for all of them."""
    (tmp_path / "app").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "app/main.tf").write_text('module "o" {\n  source = "../other"\n  x = local.where\n}\n')
    (tmp_path / "other/main.tf").write_text('variable "x" {}\n')
    plain = structs.replace(stack("a"), module="app", variables_files=())
    code = Code(tmp_path)

    def generated(where: str) -> dict[str, GeneratedFile]:
        content = f'locals {{\n  where = "{where}"\n}}\n'
        return {"where.tf": GeneratedFile(content=content, template="t/where.tf")}

    one, two = (structs.replace(plain, generate=generated(where)) for where in ("one", "two"))
    assert [list(module_instances(code, it))[1].scope.variables["x"] for it in (one, two)] == ["one", "two"]
    assert code_of(code, plain) is code
    assert code_of(code_of(code, one), one) is code_of(code, one)
    assert code_of(code, one).module("other") is code.module("other")
    assert code_of(code, one).file("app/main.tf") is code.file("app/main.tf")
    assert not code.module("app").locals
    assert "t/where.tf" in stack_inputs(code, one).reads
