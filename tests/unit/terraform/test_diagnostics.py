from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.kernel.errors import EngineError
from holdfast.terraform.diagnostics import read_validation

STREAMS = Path(__file__).parent / "streams"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_valid_configuration_has_no_diagnostics(engine: str) -> None:
    """A good answer of `validate` is valid and without findings."""
    found = read_validation((STREAMS / f"{engine}-validate-good.json").read_bytes())
    assert found.valid
    assert found.diagnostics == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mistake_is_read_with_its_place(engine: str) -> None:
    """The user sees file, line and column."""
    found = read_validation((STREAMS / f"{engine}-validate-bad.json").read_bytes())
    assert not found.valid
    (mistake,) = found.diagnostics
    assert mistake.is_error
    assert mistake.summary == "Unsupported argument"
    assert "inptu" in mistake.detail
    assert str(mistake.place) == "main.tf:2:3"


def test_a_place_may_be_missing() -> None:
    """Some diagnostics have no place at all."""
    document = {
        "format_version": "1.0",
        "valid": True,
        "diagnostics": [
            {
                "severity": "warning",
                "summary": "s",
                "snippet": {
                    "context": None,
                    "code": "c",
                    "values": [{"traversal": "var.a", "statement": "is 3"}],
                },
            }
        ],
    }
    (found,) = read_validation(json.dumps(document).encode()).diagnostics
    assert not found.is_error
    assert found.place is None


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "HF-PLAN-3"),
        (b"Error: no", "HF-PLAN-3"),
        (b"{}", "HF-PLAN-3"),
        (b'{"valid": "yes"}', "HF-PLAN-3"),
        (b'{"format_version": "2.0", "valid": true}', "HF-PLAN-4"),
    ],
)
def test_an_answer_that_cannot_be_believed_is_an_error(data: bytes, code: str) -> None:
    """Nonsense is never "valid"."""
    with pytest.raises(EngineError) as caught:
        read_validation(data)
    assert caught.value.problem.code == code
