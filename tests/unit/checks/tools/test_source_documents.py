"""Files of code as policies see them."""

from __future__ import annotations

import textwrap

from holdfast.checks.tools.source_documents import document_from_source


def seen(text: str) -> dict[str, object]:
    return document_from_source(textwrap.dedent(text).encode(), "main.tf")


def test_blocks_are_lists_under_their_labels() -> None:
    """As Conftest gives them: two blocks of one type are two rows."""
    found = seen("""
        resource "aws_x" "a" {
          rule { port = 1 }
          rule { port = 2 }
        }
        locals { a = [1, "b", null, true, -2] }
        """)
    assert found == {
        "resource": {"aws_x": {"a": [{"rule": [{"port": 1}, {"port": 2}]}]}},
        "locals": [{"a": [1, "b", None, True, -2]}],
    }


def test_what_is_computed_is_its_text() -> None:
    """In `${…}`, so that no policy takes it for a value."""
    found = seen("""
        a = var.x
        b = "p-${var.x}-${local.y[0].z}"
        c = f(1, "s", var.l...)
        d = var.x == null ? 1 : !true
        e = [for k, v in var.m : upper(v) if v != ""]
        f = { (var.k) = 1, plain = { deep = var.x } }
        """)
    assert found == {
        "a": "${var.x}",
        "b": "p-${var.x}-${local.y[0].z}",
        "c": '${f(1, "s", var.l...)}',
        "d": "${var.x == null ? 1 : !true}",
        "e": '${[for k, v in var.m : upper(v) if v != ""]}',
        "f": {"${(var.k)}": 1, "plain": {"deep": "${var.x}"}},
    }


def test_a_computed_text_keeps_its_source() -> None:
    """White space, parentheses and comments included: a policy may look for them."""
    found = seen("""
        a = (1 +  2) * 3
        b = jsonencode({
          x = 1 # one
        })
        c = var.a[*].id
        d = "${var.x}"
        e = -(1)
        """)
    assert found == {
        "a": "${(1 +  2) * 3}",
        "b": "${jsonencode({\n  x = 1 # one\n})}",
        "c": "${var.a[*].id}",
        "d": "${var.x}",
        "e": "${-(1)}",
    }


def test_what_only_looks_computed_keeps_its_second_sign() -> None:
    """Else a policy would take a text for a reference."""
    assert seen('a = "$${x} %%{y} ${var.z}"\nb = "$${x}"\n') == {
        "a": "$${x} %%{y} ${var.z}",
        "b": "$${x}",
    }


def test_templates_are_their_text() -> None:
    """Heredocs, directives, markers that take white space away."""
    found = seen("""
        a = <<-EOT
          one ${var.x}
            "two" \\n
        EOT
        b = "%{ if var.a ~} yes%{ else }no%{ endif }z"
        c = "%{ for k, v in var.m }${v},%{ endfor }"
        d = "a ${~ var.x ~} b"
        e = "a ${var.x ? 1 : "n"}"
        f = "${"inner"}${1}"
        g = "${[1, var.x]}"
        """)
    assert found == {
        "a": 'one ${var.x}\n  "two" \\n\n',
        "b": "%{if var.a}yes%{else}no%{endif}z",
        "c": "%{for k, v in var.m}${v},%{endfor}",
        "d": "a${var.x}b",
        "e": "a %{if var.x}1%{else}n%{endif}",
        "f": "inner1",
        "g": [1, "${var.x}"],
    }


def test_keys_are_texts() -> None:
    """Whatever they are written as."""
    found = seen('a = { b = 1, "c d" = 2, 3 = 4, true = 5, null = 6, "${var.k}-x" = 7, e.f = 8 }\n')
    assert found == {"a": {"b": 1, "c d": 2, "3": 4, "true": 5, "null": 6, "${var.k}-x": 7, "e.f": 8}}


def test_json_is_used_as_it_is() -> None:
    """As Conftest reads it; a mark at its beginning is none of its text."""
    assert document_from_source(b'\xef\xbb\xbf{"resource": {"aws_x": {"a": {}}}}', "main.tf.json") == {
        "resource": {"aws_x": {"a": {}}}
    }
    assert document_from_source(b"[]", "main.tf.json") == {}
