"""Whatever a payload contains, Terraform gets it as a value: nothing in it is evaluated, changed or lost."""

from __future__ import annotations

import json
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from holdfast.fleet.payload import FILE_NAME, file_content, payload_problems
from holdfast.fleet.variable_schema import schema_of_variables
from holdfast.hcl.eval.code import Code

CODE = """
variable "payload" {
  type = any
}
output "payload" {
  value = var.payload
}
"""
HOSTILE = (
    '${file("/etc/passwd")}', "$${x}", "%{ if true }x%{ endif }", "%%{", "${", "${var.payload}", "}", "{{x}}",
    '"', "\\", '\\"', "'", "`", "<<EOF\nx\nEOF", '"}\nresource "null_resource" "x" {}', "#", "//", "/*",
    "a\nb\r\n\t", "\x01\x1f\x7f\x85\u2028\u2029", "é", "日本語", "😀", "\u202e", "\ufeff", "\uffff",
    "__proto__", "", " ", "null", "true", "1e5", "../../etc", "-var=x=y", "x" * 100_000,
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**500), max_value=2**500)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(HOSTILE)
    | st.text(st.characters(codec="utf-8"), max_size=20)
)
NAMES = st.sampled_from(HOSTILE) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def nested(levels: int) -> Any:
    value: Any = "${deep}"
    for _ in range(levels):
        value = {"${x}": [value]}
    return value


def values() -> list[Any]:
    """Alike in every run."""
    found: list[Any] = [*HOSTILE, *({text: text} for text in HOSTILE), nested(30), "🚀${x}\n" * 60_000]

    @seed(7)
    @settings(
        max_examples=400, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(VALUES)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


@pytest.fixture
def module(tmp_path: Path, terraform_folder: Path) -> Path:
    (tmp_path / "main.tf").write_text(CODE)
    run(tmp_path, terraform_folder, "init")
    return tmp_path


def run(folder: Path, terraform_folder: Path, *arguments: str) -> str:
    return subprocess.run(
        [str(terraform_folder / "terraform"), *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "CHECKPOINT_DISABLE": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def exact(text: str | bytes) -> Any:
    """Numbers as they are written."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def test_every_accepted_value_arrives_as_it_is(module: Path, terraform_folder: Path) -> None:
    """Texts with templates, quotes, line breaks and any Unicode; numbers; names; deep and large values."""
    schema = schema_of_variables(Code(module).module("."))
    accepted = [value for value in values() if not payload_problems(schema, {"payload": value})]
    assert len(accepted) > 300
    for start in range(0, len(accepted), 100):
        part = accepted[start : start + 100]
        (module / FILE_NAME).write_bytes(file_content({"payload": part}))
        run(module, terraform_folder, "apply", "-auto-approve", "-input=false")
        outputs = exact(run(module, terraform_folder, "output", "-json"))
        sent_values = exact(file_content({"payload": part}))["payload"]
        for sent, received in zip(sent_values, outputs["payload"]["value"], strict=True):
            assert received == sent


@pytest.mark.parametrize(
    "text", ["e\u0301", "a\u037eb", "\u1fef", "\u212a"], ids=["accent", "semicolon", "backtick", "kelvin"]
)
def test_text_that_terraform_would_change_is_refused(module: Path, terraform_folder: Path, text: str) -> None:
    """Terraform normalizes text to NFC: a sign that a schema forbids could be written as another one."""
    schema = schema_of_variables(Code(module).module("."))
    for payload in ({"payload": text}, {"payload": {text: 1}}):
        (problem,) = payload_problems(schema, payload)
        assert "NFC" in problem.message
    (module / FILE_NAME).write_bytes(file_content({"payload": text}))
    run(module, terraform_folder, "apply", "-auto-approve", "-input=false")
    assert json.loads(run(module, terraform_folder, "output", "-json"))["payload"]["value"] != text
