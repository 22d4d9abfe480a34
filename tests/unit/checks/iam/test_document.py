"""Documents as they are written: positions, doubles, holes, sizes."""

from __future__ import annotations

import pytest

from holdfast.checks.iam.document import (
    HOLE,
    Malformed,
    Node,
    encode_json,
    is_fully_known,
    node_from_value,
    policy_size,
    read_document,
)
from holdfast.hcl.reader import UNKNOWN


def read(text: str) -> Node:
    found = read_document(text)
    assert isinstance(found, Node)
    return found


def test_every_value_knows_its_place() -> None:
    """Lines and columns are counted from one."""
    action = read('{\n  "Statement": [\n    {"Action": "s3:*"}\n  ]\n}').fields.get("Statement")
    assert action is not None
    found = action.items[0].fields.get("Action")
    assert found == Node("s3:*", 3, 16)


def test_a_document_inside_a_file_counts_from_where_it_begins() -> None:
    """The lines of a heredoc are those of the file."""
    found = read_document('{\n"a": 1}', line=10, columns=False)
    assert isinstance(found, Node)
    assert found.fields.get("a") == Node(1, 11, 0)


def test_what_is_no_json_has_a_place() -> None:
    """Not a stop."""
    assert read_document('{\n  "a": 1,,\n}') == Malformed("expecting a key in double quotes", 2, 10)


def test_nesting_without_end_is_no_stop() -> None:
    """However deep."""
    assert isinstance(read_document("[" * 100_000), Malformed)


def test_a_hole_outside_quotes_is_a_value_that_is_not_known() -> None:
    """`"Action": ${jsonencode(var.actions)}`."""
    found = read(f'{{"Action": {HOLE}, "Resource": "arn:{HOLE}"}}')
    assert found.fields.get("Action") == Node(UNKNOWN, 1, 12)
    resource = found.fields.get("Resource")
    assert resource is not None
    assert resource.text is None
    assert not is_fully_known(found)


def test_a_key_with_a_hole_may_be_any_key() -> None:
    """Then nobody can say that a key is missing."""
    fields = read(f'{{"{HOLE}:sub": "a", "b": 1}}').fields
    assert fields.more
    assert [key.content for key, _ in fields.pairs] == ["b"]


@pytest.mark.parametrize(("text", "counted"), [("{ }", 2), ('{"a": "b c"}', 10), (f'"{HOLE}x"\r\n\t', 3)])
def test_white_space_does_not_count(text: str, counted: int) -> None:
    """Nor does what is not known."""
    assert policy_size(text) == counted


def test_compact_is_what_jsonencode_writes() -> None:
    """Without white space, and with other letters as they are."""
    made = node_from_value({"a": ("é", 1, True, None, UNKNOWN), "b": {"c": 1.5}})
    assert encode_json(made) == '{"a":["é",1,true,null,],"b":{"c":1.5}}'
