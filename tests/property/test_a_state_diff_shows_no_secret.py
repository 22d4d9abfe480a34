"""Whatever two states hold and mark as sensitive: no marked text is in what is shown of their difference."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secrets.redact import Redactor
from holdfast.terraform.statefile.diff import diff_states
from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

SECRETS = tuple(f"s3cret-{word}-{number}" for number, word in enumerate(("apple", "brick", "cloud", "delta")))
NAMES = ("a", "b", "c")
values = st.recursive(
    st.sampled_from((*SECRETS, "plain", 1, None, True)),
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)


def secrets_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {text for one in value.values() for text in secrets_in(one)}
    if isinstance(value, list):
        return {text for one in value for text in secrets_in(one)}
    return {value} if value in SECRETS else set()


@st.composite
def states(draw: st.DrawFn) -> tuple[bytes, set[str]]:
    attributes = draw(st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
    marked = draw(st.sets(st.sampled_from(NAMES)))
    hidden = draw(st.booleans())
    output = draw(values)
    instance = {
        "attributes": attributes,
        "sensitive_attributes": [[{"type": "get_attr", "value": name}] for name in sorted(marked)],
    }
    document = {
        "version": 4,
        "terraform_version": "1.15.5",
        "serial": 1,
        "lineage": "l",
        "outputs": {"o": {"value": output, "sensitive": hidden}},
        "resources": [
            {"mode": "managed", "type": "t", "name": "n", "provider": "p", "instances": [instance]}
        ],
    }
    secret = {text for name in marked for text in secrets_in(attributes.get(name))}
    return json.dumps(document).encode(), secret | (secrets_in(output) if hidden else set())


@given(states(), states())
def test_no_marked_text_is_shown(old: tuple[bytes, set[str]], new: tuple[bytes, set[str]]) -> None:
    """Marked before or after, in an attribute or an output: it is hidden wherever it stands."""
    before, after = read_state(old[0]), read_state(new[0])
    redactor = Redactor(sensitive_in_state(before) | sensitive_in_state(after))
    found = diff_states(before, after, clean=redactor.clean_field)
    assert found is not None
    shown = msgspec.json.encode(found).decode()
    assert [text for text in old[1] | new[1] if text in shown] == []
