"""A payload is accepted, or every problem is named with its place and without its value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.fleet.payload import (
    MOST_BYTES,
    MOST_LEVELS,
    MOST_PROBLEMS,
    file_content,
    payload_problems,
    schema_mistakes,
)

ANYTHING: dict[str, Any] = {
    "type": "object", "properties": {"x": {}}, "required": ["x"], "additionalProperties": False,
}  # fmt: skip


def of(**rules: Any) -> dict[str, Any]:
    return {**ANYTHING, "properties": {"x": rules}}


def problems(schema: dict[str, Any], payload: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.message) for problem in payload_problems(schema, payload)]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("schema", "payload", "expected"),
    [
        (ANYTHING, {}, [("/x", "is required")]),
        (ANYTHING, {"x": 1, "xs": 2}, [("/xs", "is not known. Did you mean `x`?")]),
        (ANYTHING, [], [("", "must be object, not an array")]),
        (of(type="string"), {"x": 5}, [("/x", "must be string, not a number")]),
        (of(type="number"), {"x": "5"}, [("/x", "must be number, not a string")]),
        (of(type="number"), {"x": True}, [("/x", "must be number, not a boolean")]),
        (of(enum=["a", "b"]), {"x": "c"}, [("/x", 'must be "a" or "b"')]),
        (of(pattern="^a$"), {"x": "a\n"}, [("/x", "must match ^a$")]),
        (of(pattern="a"), {"x": "a" * 5000}, [("/x", "must match a")]),
        (of(maximum=3, **{"x-error": "At most three."}), {"x": 4}, [("/x", "At most three.")]),
        (
            of(uniqueItems=True),
            {"x": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]},
            [("/x", "must not contain an item twice")],
        ),
        (
            of(type="object", additionalProperties={"type": "string"}),
            {"x": {"a/b~c": 1}},
            [("/x/a~1b~0c", "must be string, not a number")],
        ),
        (ANYTHING, {"x": "a\x00"}, [("/x", "contains NUL or half of a surrogate pair")]),
        (
            ANYTHING,
            {"x": {"\ud800": 1}},
            [("/x", "has a name that contains NUL or half of a surrogate pair")],
        ),
        (ANYTHING, {"x": "e\u0301"}, [("/x", "is not in Unicode normalization form C (NFC)")]),
        (ANYTHING, {"x": float("inf")}, [("/x", "is not a finite number")]),
        (ANYTHING, {"x": 2**600}, [("/x", "has more digits than Terraform can represent")]),
        (ANYTHING, {"x": "é" * (MOST_BYTES // 2)}, [("", "is larger than 1,000,000 bytes")]),
    ],
)
def test_each_problem_has_its_place(
    schema: dict[str, Any], payload: Any, expected: list[tuple[str, str]]
) -> None:
    assert problems(schema, payload) == expected


def test_nesting_has_a_limit() -> None:
    """However deep it is: without recursion."""
    assert problems(ANYTHING, {"x": nested(MOST_LEVELS - 1)}) == []
    for levels in (MOST_LEVELS, 100_000):
        ((path, message),) = problems(ANYTHING, {"x": nested(levels)})
        assert message == "is nested more than 64 levels deep"
        assert len(path) <= 501


def test_no_more_problems_than_can_be_read() -> None:
    found = problems(of(items={"type": "string"}), {"x": list(range(500))})
    assert len(found) == MOST_PROBLEMS
    assert found[-1] == ("", "has 401 more problems")


@pytest.mark.parametrize(
    "text", ['${file("/etc/passwd")}', "%{ for x in y }", '"}\nresource "x" "y" {}', "\u202e", "<<EOF\n"]
)  # fmt: skip
def test_text_that_looks_like_code_is_a_value(text: str) -> None:
    assert problems(of(type="string"), {"x": text}) == []
    assert json.loads(file_content({"x": text})) == {"x": text}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
        max_leaves=20,
    )
)
def test_any_payload_is_written_as_it_is_or_refused(value: Any) -> None:
    """Never an error, and what is accepted is the same after it was written."""
    if problems(ANYTHING, {"x": value}) == []:
        assert json.loads(file_content({"x": value})) == {"x": value}


@given(st.text("abcdefgh", min_size=12, max_size=40))
def test_a_message_does_not_repeat_the_value(secret: str) -> None:
    """The payload may contain a pre-shared key."""
    rules: tuple[dict[str, Any], ...] = (
        {"type": "number"}, {"maxLength": 1}, {"pattern": "^[0-9]$"}, {"enum": ["z"]}, {"const": "z"},
        {"format": "ipv4"}, {"not": {}}, {"anyOf": [{"type": "number"}]}, {"type": "array"},
    )  # fmt: skip
    for rule in rules:
        found = problems(of(**rule), {"x": secret})
        assert found
        assert all(secret not in message for _, message in found)


@pytest.mark.parametrize(
    ("schema", "mistake"),
    [
        ([], "type: object"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "$schema"),
        ({"type": "object", "properties": {"x": {"type": "text"}}}, "/properties/x/type"),
        ({"type": "object", "properties": {"x": {"$ref": "file:///etc/passwd"}}}, "leads out of the schema"),
        ({"type": "object", "additionalProperties": {}}, "additionalProperties"),
        ({"type": "object", "patternProperties": {}}, "additionalProperties"),
    ],
)
def test_mistakes_of_a_schema(schema: Any, mistake: str) -> None:
    (found,) = schema_mistakes(schema)
    assert mistake in found
