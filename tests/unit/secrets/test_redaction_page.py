"""If a user can see it, it is documented."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.secrets.entropy import BITS, SHORTEST_VALUE
from holdfast.secrets.redact import layers

PAGE = (Path(__file__).parent.parent.parent.parent / "docs/redaction.md").read_text("utf-8")


def test_every_layer_is_documented_and_no_other() -> None:
    """Its id and its words, as the program has them."""
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(layer.id, layer.what) for layer in layers()]


def test_the_thresholds_are_the_ones_in_the_code() -> None:
    """A number on the page is a promise."""
    assert f"at least **{SHORTEST_VALUE}** characters, and at least **{BITS}** bits" in PAGE
