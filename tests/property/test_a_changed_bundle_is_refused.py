"""Nothing is applied whose bytes are not the ones that were written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from bundle_made import KEY, bundle, written
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.kernel.errors import Refused
from holdfast.plans import saved_plan as bundles


@settings(max_examples=40, deadline=None)
@given(
    places=st.lists(st.floats(min_value=0, max_value=1, exclude_max=True), min_size=1, max_size=3),
    mask=st.integers(min_value=1, max_value=255),
)
def test_any_bit_of_any_byte_counts(places: list[float], mask: int) -> None:
    """Flip any bits of any bytes of any file: the change is refused, and nothing else happens."""
    with tempfile.TemporaryDirectory() as folder:
        out = written(Path(folder) / "out", bundle("team/a"))
        files = [path for path in out.rglob("*") if path.is_file()]
        assert files
        for file in files:
            content = file.read_bytes()
            changed = bytearray(content)
            for place in {int(place * len(content)) for place in places}:
                changed[place] ^= mask
            file.write_bytes(changed)
            with pytest.raises(Refused) as refused:
                bundles.load(out, KEY)
            assert refused.value.problem.code in {"HF-BUND-3", "HF-BUND-10"}
            assert refused.value.problem.message.isprintable()
            file.write_bytes(content)
