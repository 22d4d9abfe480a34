from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.secrets.redact import SHORTEST, Redactor

letters = st.text(alphabet='abAB+/"\\ \n', max_size=8)
values = st.lists(st.text(alphabet='abAB+/"\\', min_size=SHORTEST, max_size=9), min_size=1, max_size=6)


@given(values, st.lists(letters, min_size=1, max_size=6), st.data())
def test_no_registered_value_is_left(secrets: list[str], around: list[str], draw: st.DataObject) -> None:
    """Wherever registered values stand, side by side or overlapping, none is in the cleaned text."""
    text = "".join(part + draw.draw(st.sampled_from(secrets)) for part in around)
    cleaned = Redactor(secrets).clean(text)
    assert [secret for secret in secrets if secret in cleaned] == []


@given(values, st.text(alphabet="cdef \n", max_size=50))
def test_other_text_is_untouched(secrets: list[str], text: str) -> None:
    """What shares nothing with a secret stays as it is."""
    assert Redactor(secrets).clean(text) == text
