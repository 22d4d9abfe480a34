from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secrets import sops

KEY = bytes(range(32))
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def sealed(document: dict[str, object], key: bytes = KEY) -> str:
    return sops.seal(document, data_key=key, recipients={"age1x": "enc"}, modified="2026-01-02T03:04:05Z")


@given(st.dictionaries(texts.filter(lambda key: key != "sops"), values, max_size=4))
def test_what_is_sealed_comes_back(document: dict[str, object]) -> None:
    """With its types, and with nothing in clear."""
    text = sealed(document)
    assert sops.unseal(text, KEY) == document
    assert not list(sops.clear_values(sops.read(text)))


def test_a_file_that_was_changed_is_noticed() -> None:
    """A removed, moved, renamed or changed value, another key, another time."""
    text = sealed({"a": ["x", "y"], "b": "z", "c": ""})
    document = sops.read(text)
    x, y = document["a"]
    changes = (
        text.replace(f'  - "{y}"\n', ""),
        text.replace(x, "?").replace(y, x).replace("?", y),
        text.replace("b:", "bb:", 1),
        text.replace('c: ""', 'c: "clear"'),
        text.replace("03:04:05", "03:04:06"),
        text.replace("type:str", "type:int", 1),
    )
    for changed in changes:
        assert changed != text
        with pytest.raises(sops.SopsError):
            sops.unseal(changed, KEY)
    with pytest.raises(sops.SopsError):
        sops.unseal(text, bytes(32))


@pytest.mark.parametrize("text", ["", "a: 1\n", "[", "sops: 1\n", "- 1\n"])
def test_other_files_are_none_of_sops(text: str) -> None:
    with pytest.raises(sops.SopsError):
        sops.read(text)


@pytest.mark.parametrize("value", [2**63, {"sops": 1}["sops"] << 70, b"bytes"])
def test_what_sops_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(sops.SopsError):
        sealed({"a": value})
    with pytest.raises(sops.SopsError):
        sealed({"sops": 1})
