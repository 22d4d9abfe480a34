from __future__ import annotations

import pytest

from holdfast.server.state_protocol import LONGEST_NAME, state_name
from holdfast.store.server_states.locks import StateRefusal


@pytest.mark.parametrize(
    ("raw_path", "name"),
    [
        (b"/state/net", "net"),
        (b"/state/net/prod", "net/prod"),
        (b"/state/net%2Fprod", "net/prod"),
        (b"/state/a%252Fb", "a%2Fb"),
        (b"/state/state/x", "state/x"),
        (b"/state/%C3%BC", "ü"),
        (b"/state/net?ID=1", "net"),
        (b"/proxied/state/net", "net"),
    ],
)
def test_a_name_is_decoded_once(raw_path: bytes, name: str) -> None:
    assert state_name(raw_path) == name


@pytest.mark.parametrize(
    "quoted",
    [
        b"",
        b"a//b",
        b"a/",
        b"/a",
        b"..",
        b"a/../b",
        b"%2e%2e",
        b".",
        b"a%00b",
        b"a%0Ab",
        b"%ff",
        b"%2F",
        b"x" * (LONGEST_NAME + 1),
    ],
)
def test_what_is_not_a_name_is_refused(quoted: bytes) -> None:
    with pytest.raises(StateRefusal) as refusal:
        state_name(b"/state/" + quoted)
    assert (refusal.value.status, refusal.value.code) == (400, "HF-STATE-40")
