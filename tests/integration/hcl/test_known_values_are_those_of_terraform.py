"""Where Holdfast evaluates an expression to a known value, Terraform gives the same value."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest
from hcl_expressions import CALLED, VARIABLES, expressions
from hypothesis import HealthCheck, Phase, given, seed, settings

from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import convert, known, text_of
from holdfast.hcl.reader import constant, read

NUMBER = int(os.environ.get("HCL_EXPRESSIONS", "700"))


ARGUMENTS = (
    *(
        "null",
        "true",
        "0",
        "2",
        "1.5",
        '""',
        '"a"',
        '"a/b/"',
        '"%s-%s"',
        '"//x"',
        '"\\t a\\u001c"',
        "[]",
        "{}",
    ),
    *(
        '["b", "a"]',
        '[1, "a", true]',
        '[null, "", ["x"]]',
        '{ b = 1, a = "x" }',
        "var.set",
        "var.list",
        "var.map",
    ),
)


PARTS_OF_TEXT = tuple(
    f"substr({text}, {offset}, {length})"
    for text in ('""', '"abcd"', '"a\\r\\nb"', '"åßc"', "1234", "true", "null")
    for offset in ("0", "1", '"2"', "4", "9", "-1", "-4", "-9", "0.5", "null")
    for length in ("0", "1", '"3"', "9", "-1", "-2", "1.5", "null")
)


def batch() -> list[str]:
    """Calls with every pair of arguments, and others; the same in every run unless HCL_SEED is set."""
    calls = (
        f"{name}({', '.join(arguments)})"
        for name in CALLED
        for count in (0, 1, 2)
        for arguments in itertools.product(ARGUMENTS, repeat=count)
    )
    found = dict.fromkeys((*calls, *PARTS_OF_TEXT))

    @seed(int(os.environ.get("HCL_SEED", "15")))
    @settings(
        max_examples=NUMBER, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(expressions())
    def collect(text: str) -> None:
        found[text] = None

    collect()
    return list(found)


def by_holdfast(texts: list[str], folder: Path) -> dict[str, object]:
    """The expressions whose value is fully known here."""
    variables = {
        name: convert(variable.type, None if variable.default is None else constant(variable.default))
        for name, variable in Code(folder).module(".").variables.items()
    }
    values: dict[str, object] = {}
    for text in texts:
        file = read(f"x = {text}\n", "main.tf")
        assert file.problems == (), text
        value = evaluate(file.body.attributes[0].expression, Scope(variables=variables))
        if known(value):
            values[text] = value
    return values


def by_terraform(texts: list[str], folder: Path, terraform: Path) -> list[object]:
    """A list with the value, or null where Terraform reports an error."""
    outputs = (
        f'output "o{number}" {{\n  value     = jsonencode(try([{text}], null))\n  sensitive = true\n}}\n'
        for number, text in enumerate(texts)
    )
    (folder / "outputs.tf").write_text("".join(outputs))
    for command in (["init"], ["apply", "-auto-approve"]):
        subprocess.run([terraform, *command, "-no-color"], cwd=folder, check=True, capture_output=True)
    state = json.loads((folder / "terraform.tfstate").read_text())
    values = (state["outputs"][f"o{number}"]["value"] for number in range(len(texts)))
    return [json.loads(value, parse_int=str, parse_float=str) for value in values]


def comparable(value: object) -> object:
    """Both as JSON, and numbers and bools as the strings that Terraform makes of them."""
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    return value if value is None else text_of(value)


def test_a_known_value_is_the_one_that_terraform_gives(tmp_path: Path, terraform_folder: Path) -> None:
    """Random expressions of every operator and function. Code with an error is never run."""
    (tmp_path / "variables.tf").write_text(VARIABLES)
    ours = by_holdfast(batch(), tmp_path)
    assert len(ours) > 1000
    theirs = by_terraform(list(ours), tmp_path, terraform_folder / "terraform")
    different = {
        text: (value, other)
        for (text, value), other in zip(ours.items(), theirs, strict=True)
        if other is not None and comparable((value,)) != comparable(other)
    }
    if different:
        pytest.fail(
            "\n".join(f"{text}: {value!r}, Terraform {other}" for text, (value, other) in different.items())
        )
