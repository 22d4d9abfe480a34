"""Files of code as policies see them."""

from __future__ import annotations

import textwrap

from holdfast.checks.tools.source_documents import document
from holdfast.hcl.reader import read


def seen(text: str) -> dict[str, object]:
    return document(read(textwrap.dedent(text), "main.tf").body)


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
        "f": {"${var.k}": 1, "plain": {"deep": "${var.x}"}},
    }
