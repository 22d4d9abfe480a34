"""Any request to the state backend gets an answer below 500, and never changes a state that it may not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_made import MadePostgres
from state_backend_made import KEY, authenticate, lock_info, state

from holdfast.database.database import Database
from holdfast.server.state_protocol import StateProtocol
from holdfast.store.server_states.changes import Author, StateKey
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller, lock_request
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import read_new_state

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ID", "version", "serial", "lineage", "resources", "x"]), inner, max_size=5
        )
    ),
    max_leaves=12,
)
_STATES = st.fixed_dictionaries(
    {
        "version": st.just(4) | _JSON,
        "serial": st.integers(0, 2**65) | _JSON,
        "lineage": st.text(max_size=5) | _JSON,
    },
    optional={"resources": st.lists(_JSON, max_size=2) | _JSON, "outputs": _JSON, "encrypted_data": _JSON},
)
_BODIES = st.one_of(
    st.binary(max_size=60),
    st.builds(lambda value: json.dumps(value).encode(), _JSON | _STATES),
    st.sampled_from([b"", state(1), state(3), lock_info("mine"), lock_info("held")]),
)
_NAMES = st.one_of(
    st.binary(max_size=20).map(lambda raw: b"".join(b"%%%02x" % byte for byte in raw)),
    st.sampled_from([b"net", b"net/", b"a/../net", b"%2e%2e/net", b"net%00", b"%6eet", b"other"]),
    st.binary(max_size=20),
)
_FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b"content-md5", b"content-length", b"content-type", b"transfer-encoding", b"x"]),
        st.binary(max_size=30),
    ),
    max_size=3,
)
_QUERIES = st.one_of(
    st.sampled_from(
        [b"", b"ID=mine", b"ID=held", b"ID=", b"ID=a&ID=b", b"fence=1", b"fence=x&ID=held", b"ID=%ff"]
    ),
    st.binary(max_size=20),
)


@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "LOCK", "UNLOCK", "DELETE", "PUT", "BREW", ""]),
    name=_NAMES,
    query=_QUERIES,
    fields=_FIELDS,
    body=_BODIES,
    right_md5=st.booleans(),
    token=st.sampled_from(
        [b"Bearer me", b"Bearer viewer", b"Basic bTpt", b"Bearer wrong", b"", b"Bearer me@other"]
    ),
)
@settings(max_examples=150)
def _survives(
    app: StateProtocol,
    rows: StateRows,
    *,
    method: str,
    name: bytes,
    query: bytes,
    fields: list[tuple[bytes, bytes]],
    body: bytes,
    right_md5: bool,
    token: bytes,
) -> None:
    headers = [*fields, (b"authorization", token)]
    if right_md5:
        headers.append((b"content-md5", base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest())))
    scope = {
        "type": "http",
        "method": method,
        "raw_path": b"/state/" + name,
        "query_string": query,
        "headers": headers,
    }
    sent = asyncio.run(_call(app, scope, body))
    status = sent[0]["status"]
    assert 200 <= status < 500, (status, sent)
    if status >= 400 and status != 423:
        document = json.loads(sent[1]["body"] or b'{"status":0}')
        assert method == "HEAD" or document["status"] == status
    if b"held" not in query and b"held" not in body:
        stored = rows.read(_KEY)
        assert stored is not None
        assert stored.content == state(2)


def test_the_protocol_survives_anything(postgres: MadePostgres) -> None:
    with postgres.new_database() as address, Database.open(address, size=4) as database:
        rows = StateRows(database, StateCipher([KEY]))
        another = Caller(who="another")
        rows.lock(_KEY, lock_request(lock_info("held"), another))
        new = read_new_state(state(2))
        rows.write(_KEY, new, Author(who="another", why="test"), another, lock="held")
        _survives(StateProtocol(rows, authenticate), rows)


_KEY = StateKey("default", "net")


async def _call(app: StateProtocol, scope: dict[str, Any], body: bytes) -> list[Any]:
    half, sent = len(body) // 2, list[Any]()
    messages = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:], "more_body": False},
    ]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent
