"""The schema of a payload follows from the variables, as docs/blueprints.md promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.fleet.blueprint import load_blueprint
from holdfast.fleet.variable_schema import TERRAFORM_CHECKS, schema_of_variables
from holdfast.hcl.eval.code import Code
from holdfast.system.environment import Environment

PAGE = Path(__file__).parents[3] / "docs/blueprints.md"


def schema(folder: Path, code: str, **options: Any) -> dict[str, Any]:
    (folder / "main.tf").write_text(code)
    return schema_of_variables(Code(folder).module("."), **options)


def of(folder: Path, body: str) -> dict[str, Any]:
    """The schema of one variable, named `x`."""
    found: dict[str, Any] = schema(folder, f'variable "x" {{\n{body}\n}}\n')["properties"]["x"]
    return found


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("string", {"type": "string"}),
        ("number", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("any", {}),
        ("list(string)", {"type": "array", "items": {"type": "string"}}),
        ("set(number)", {"type": "array", "items": {"type": "number"}}),
        ("map(bool)", {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (
            "tuple([string, number])",
            {
                "type": "array", "minItems": 2, "maxItems": 2, "items": False,
                "prefixItems": [{"type": "string"}, {"type": "number"}],
            },
        ),
        (
            "object({ a = string, b = optional(number, 1), c = optional(list(any)) })",
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": ["number", "null"], "default": 1},
                    "c": {"type": ["array", "null"], "items": {}},
                },
                "additionalProperties": False,
                "required": ["a"],
            },
        ),
    ],
)  # fmt: skip
def test_types(tmp_path: Path, type_: str, expected: dict[str, Any]) -> None:
    assert of(tmp_path, f"type = {type_}") == expected


def test_what_is_required_allowed_and_shown(tmp_path: Path) -> None:
    code = """
    variable "needed" { type = string }
    variable "has_default" {
      description = "With a default."
      type        = number
      default     = 5
    }
    variable "may_be_null" {
      type     = string
      nullable = true
    }
    variable "hidden" {
      type      = string
      default   = "s3cret"
      sensitive = true
    }
    variable "fixed" { type = string }
    """
    found = schema(tmp_path, code, fixed={"fixed"})
    assert (found["required"], found["additionalProperties"]) == (["may_be_null", "needed"], False)
    assert found["properties"] == {
        "needed": {"type": "string"},
        "has_default": {"description": "With a default.", "type": ["number", "null"], "default": 5},
        "may_be_null": {"type": ["string", "null"]},
        "hidden": {"type": ["string", "null"], "writeOnly": True},
    }


@pytest.mark.parametrize(
    ("type_", "condition", "rule"),
    [
        ("string", 'can(regex("^a+$", var.x))', {"pattern": "^a+$"}),
        ("string", 'contains(["a", "b"], var.x)', {"enum": ["a", "b"]}),
        ("number", "var.x >= 1 && 9 > var.x", {"minimum": 1, "exclusiveMaximum": 9}),
        ("number", "var.x == 3", {"const": 3}),
        ("number", "floor(var.x) == var.x", {"multipleOf": 1}),
        ("string", "length(var.x) <= 5", {"maxLength": 5}),
        ("list(string)", "length(var.x) > 0", {"minItems": 1}),
        ("map(string)", "length(var.x) == 2", {"minProperties": 2, "maxProperties": 2}),
        ("string", 'var.x != ""', {"minLength": 1}),
        ("string", 'var.x == null || contains(["a"], var.x)', {"enum": ["a", None]}),
    ],
)
def test_validations(tmp_path: Path, type_: str, condition: str, rule: dict[str, Any]) -> None:
    validation = f'validation {{\n condition = {condition}\n error_message = "No."\n }}'
    found = of(tmp_path, f"type = {type_}\n{validation}")
    assert found["allOf"] == [{**rule, "x-error": "No."}]
    assert "$comment" not in found


@pytest.mark.parametrize(
    "condition",
    [
        "alltrue([for each in var.x : each != 1])",
        'can(regex("(a+)+$", var.x))',
        'can(regex("[[:alpha:]]", var.x))',
        "var.x != var.y",
        'length(var.x) > 1 || var.x == ""',
        'can(regex("^a$", lower(var.x)))',
    ],
)
def test_what_json_schema_cannot_express_is_left_to_terraform(tmp_path: Path, condition: str) -> None:
    """And the schema says so: it must not seem complete."""
    found = of(
        tmp_path, f'type = string\nvalidation {{\n condition = {condition}\n error_message = "No."\n }}'
    )
    assert found == {"type": "string", "$comment": f"{TERRAFORM_CHECKS}No."}


def test_a_part_of_a_condition_is_better_than_none(tmp_path: Path) -> None:
    condition = "length(var.x) < 9 && var.x != upper(var.x)"
    found = of(
        tmp_path, f'type = string\nvalidation {{\n condition = {condition}\n error_message = "No."\n }}'
    )
    assert found["allOf"] == [{"maxLength": 8, "x-error": "No."}]
    assert found["$comment"].endswith("No.")


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    """Also the line of the page that says what a client may send."""
    blocks = re.findall(r"```(?:hcl|yaml)\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == ["variables.tf", "main.tf", "blueprint.yaml"]
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    blueprint = load_blueprint(tmp_path, Environment(variables={"HOME": str(tmp_path)}))
    assert list(blueprint.schema["properties"]) == ["peer_asn", "site_name"]
    assert (blueprint.credentials_key, blueprint.concurrency, blueprint.parallelism) == ("sdwan", 1, 1)
