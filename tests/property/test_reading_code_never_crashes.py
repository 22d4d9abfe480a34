"""Whatever a file contains: it is read, or each mistake has a code and a place in it."""

from __future__ import annotations

import pytest
from hcl_expressions import VARIABLES, expressions
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.native import read_native
from holdfast.hcl.nodes import Block, Body, File, walk
from holdfast.hcl.reader import read, values

NATIVE = (
    VARIABLES
    + """\
# größe
resource "aws_x" "y" {
  for_each = { for k, v in var.map : k => v... if v != "ü" }
  name     = "a-${each.key}-%{ if var.flag }b%{ endif }"
  policy   = <<-EOT
    {"a": "${jsonencode([1.5, -2, null])}"}
    %{~ for x in var.list ~}
    ${x}
    %{~ endfor ~}
  EOT
  dynamic "z" {
    for_each = var.list[*].id
    content {
      a = (1 + 2) * 3 >= 4 && !false ? z.value : try(local.b["c"][0].d, "e")
    }
  }
}
locals { a = provider::x::y([1, 2]...) }
"""
)
JSON = """\
{"variable": {"größe": {"default": [1, -2.5e3, null, {"a": "${var.b}"}]}},
 "locals": [{"a": "%{if a}b%{endif}"}],
 "resource": {"aws_x": {"y": [{"name": "${local.a}", "//": "c", "dynamic": {"z": {"content": {}}}}]}}}
"""
PIECES = st.sampled_from(
    (
        *(b'"', b"${", b"%{", b"~}", b"{", b"}", b"[", b"]", b"(", b")", b"<<EOF\n", b"<<-A\n", b"/*", b"#"),
        *(b"=", b",", b"[*]", b".*", b"...", b"\\", b"\\u12", b"\\ud800", b"::", b"? ", b" : ", b"=>", b"\0"),
        *(
            b"\xff",
            b"\xc3",
            b"\xef\xbb\xbf",
            b"\r",
            b"\xe2\x80\xa8",
            b"1e999",
            b"9" * 5000,
            b"for x in ",
            b"-",
        ),
        *(b"[" * 300, b"{" * 300, b"a {\n" * 300, b"!" * 600, b" + 1" * 600, b'"${' * 300),
    )
)


@st.composite
def wounded(draw: st.DrawFn, text: bytes) -> bytes:
    """A valid file with pieces cut out, put in and repeated."""
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        match draw(st.integers(0, 2)):
            case 0:
                text = text[:start] + text[min(end, start + 30) :]
            case 1:
                text = text[:start] + draw(PIECES) + text[start:]
            case _:
                text = text[:end] + text[start:]
    return text


def follow(body: Body) -> None:
    """Build everything that is built on first use, and evaluate it."""
    for attribute in body.attributes:
        for _ in walk(attribute.expression):
            pass
        evaluate(attribute.expression, Scope())
    for block in body.blocks:
        assert isinstance(block, Block)
        follow(block.body)


def check(file: File, data: bytes) -> None:
    follow(file.body)
    values(file)
    lines = data.count(b"\n") + 1
    for problem in file.problems:
        assert problem.code.startswith("HF-HCL-")
        assert problem.hint
        assert problem.place is not None
        assert problem.place.file == file.path
        assert 1 <= (problem.place.line or 0) <= lines + 1


@settings(max_examples=250)
@given(wounded(NATIVE.encode()), st.sampled_from(("main.tf", "x.tfvars")))
def test_native_syntax(data: bytes, path: str) -> None:
    """Code that somebody is in the middle of editing, and worse."""
    check(read(data, path), data)


@settings(max_examples=150)
@given(wounded(JSON.encode()), st.sampled_from(("main.tf.json", "x.tfvars.json")))
def test_json_syntax(data: bytes, path: str) -> None:
    """The same in JSON, whose strings are templates."""
    check(read(data, path), data)


@settings(max_examples=100)
@given(st.lists(expressions("each.key", "aws_x.y.z"), min_size=1, max_size=5))
def test_valid_code_has_no_mistake(texts: list[str]) -> None:
    """What Terraform accepts is read without a problem."""
    file = read("".join(f"a{number} = {text}\n" for number, text in enumerate(texts)), "main.tf")
    assert file.problems == ()
    assert len(file.body.attributes) == len(texts)


@pytest.mark.parametrize(
    "text", [b'"', b"a = b = ", b"x = a::", b"[", b"a {", b'"${', b"%{", b"/*", b"<<A\n"]
)
def test_no_text_takes_long(text: bytes) -> None:
    """Some of these cost the parser quadratic time: reading stops with an error."""
    data = text * (100_000 // len(text))
    file = read_native(data, "main.tf", seconds=-0.2)
    assert file.problems
    check(file, data)
