"""What the reader accepts as a duration or a size is what the JSON Schema's pattern accepts."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.config import shapes as quantities

DURATIONS = st.from_regex(quantities.DURATION, fullmatch=True) | st.text("0123456789dhms. ", max_size=12)
SIZES = st.from_regex(quantities.SIZE, fullmatch=True) | st.text("0123456789.KMGTiB ", max_size=12)


@given(DURATIONS)
@example("")
@example("1h30m")
@example("30m1h")
@example("٣s")
def test_durations(text: str) -> None:
    """And every duration can be written back."""
    seconds = quantities.seconds(text)
    assert (seconds is not None) == bool(re.fullmatch(quantities.DURATION, text, re.ASCII))
    if seconds is not None:
        assert quantities.seconds(quantities.duration_text(seconds)) in {seconds, None}


@given(SIZES)
@example("")
@example("1.5GB")
@example("1.GB")
@example("5iB")
def test_sizes(text: str) -> None:
    """Plain bytes, decimal and binary units."""
    size = quantities.size_in_bytes(text)
    assert (size is not None) == bool(re.fullmatch(quantities.SIZE, text, re.ASCII))
