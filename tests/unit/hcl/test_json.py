from __future__ import annotations

import pytest

from holdfast.hcl.nodes import Literal, Object, Template, references
from holdfast.hcl.reader import read, values


def test_blocks_of_the_json_syntax() -> None:
    """The JSON syntax gives the same blocks as the native one, with places."""
    text = """{
  "//": "a comment",
  "resource": { "aws_vpc": { "main": { "a": "b", "provisioner": [{ "local-exec": { "command": "x" } }] } } },
  "locals": [{ "a": 1 }, { "b": 2 }],
  "terraform": { "backend": { "s3": { "bucket": "b" } } }
}"""
    file = read(text, "main.tf.json")
    assert file.problems == ()
    shown = [(block.type, block.labels, block.place.line) for block in file.body.blocks]
    assert shown == [
        ("resource", ("aws_vpc", "main"), 3),
        ("locals", (), 4),
        ("locals", (), 4),
        ("terraform", (), 5),
    ]
    resource, *_, settings = file.body.blocks
    assert [(inner.type, inner.labels) for inner in resource.body.blocks] == [
        ("provisioner", ("local-exec",))
    ]
    assert [(inner.type, inner.labels) for inner in settings.body.blocks] == [("backend", ("s3",))]


def test_strings_of_code_are_templates() -> None:
    """In code, a string of the JSON syntax may hold an interpolation."""
    file = read('{"locals": {"a": "${var.x}/${file(\\"y\\")}", "b": {"c": ["$${z}", 1.0]}}}', "x.tf.json")
    a, b = file.body.blocks[0].body.attributes
    assert isinstance(a.expression, Template)
    assert len(a.expression.pieces) == 3
    assert {(piece.line, piece.column) for piece in a.expression.pieces} == {(1, 18)}
    assert [reference.names for reference in references(a.expression)] == [("var", "x")]
    assert isinstance(b.expression, Object)
    key, value = b.expression.items[0]
    assert isinstance(key, Literal)
    assert [item.value for item in value.parts() if isinstance(item, Literal)] == ["${z}", 1]


def test_strings_of_variables_are_plain() -> None:
    """In a variables file nothing is a template."""
    file = read('{"a": "${x}", "b": [true, null, {"c": 1.5}]}', "x.tfvars.json")
    assert values(file) == {"a": "${x}", "b": (True, None, {"c": 1.5})}


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('{\n  "a": 1,\n  b\n}', "HF-HCL-3", "x.tf.json:3:3"),
        ('{"a": [1 2]}', "HF-HCL-3", "x.tf.json:1:10"),
        ('{"a": 1} x', "HF-HCL-3", "x.tf.json:1:10"),
        ('{"a": "open', "HF-HCL-3", "x.tf.json:1:7"),
        ("", "HF-HCL-3", "x.tf.json:1:1"),
        ("[1]", "HF-HCL-4", "x.tf.json:1:1"),
        ("[" * 5000, "HF-HCL-3", "x.tf.json:1:102"),
    ],
)
def test_broken_json_has_a_place(text: str, code: str, place: str) -> None:
    """JSON that cannot be read is a problem with line and column, never an exception."""
    file = read(text, "x.tf.json")
    assert [(problem.code, str(problem.place)) for problem in file.problems] == [(code, place)]
