"""The rules of the local state backend: what may be read, locked, saved and given back."""

from __future__ import annotations

import json

import pytest
from memory_backend import LINEAGE, MINE, OTHER, MemoryBackend, info, state

from holdfast.terraform.backend.rules import StateRules, read_header
from holdfast.terraform.backend.server import Refusal, variables
from holdfast.terraform.statefile.model import State, read_state

ANOTHER_LINE = "99999999-2222-3333-4444-555555555555"


def encrypted(serial: int, *, lineage: str = LINEAGE, data: object = "c2VhbGVk") -> bytes:
    """What OpenTofu sends of a state that it encrypts itself."""
    return json.dumps(
        {
            "serial": serial,
            "lineage": lineage,
            "meta": {},
            "encrypted_data": data,
            "encryption_version": "v0",
        }
    ).encode()


def ask(rules: StateRules, method: str, body: bytes = b"", lock: str | None = None) -> tuple[int, bytes]:
    try:
        answer = rules.answer(method, lock, body)
    except Refusal as refusal:
        return refusal.status, refusal.message.encode() if refusal.body is None else refusal.body
    return answer.status, answer.body


def locked(backend: MemoryBackend) -> StateRules:
    rules = StateRules(backend)
    assert ask(rules, "LOCK", info())[0] == 200
    return rules


def save(backend: MemoryBackend, body: bytes) -> int:
    return ask(locked(backend), "POST", body, MINE)[0]


# Reading


def test_a_state_is_given_as_it_was_written() -> None:
    """Byte for byte, and without a lock: Terraform reads before it locks."""
    kept = state(3)
    assert ask(StateRules(MemoryBackend(state(2), kept)), "GET") == (200, kept)


def test_only_where_there_is_none_is_there_none() -> None:
    """404 means that there really is no state."""
    assert ask(StateRules(MemoryBackend()), "GET")[0] == 404


@pytest.mark.parametrize("kept", [b"", b" \n"])
def test_an_empty_state_is_a_fault(kept: bytes) -> None:
    """Terraform would take an empty answer for "no state" and make everything again."""
    assert ask(StateRules(MemoryBackend(kept)), "GET")[0] == 500
    backend = MemoryBackend(kept)
    assert save(backend, state(1)) == 500
    assert backend.versions == [kept]


@pytest.mark.parametrize("status", [404, 204, 200, 302, 100, 700])
def test_a_refusal_never_looks_like_a_missing_state(status: int) -> None:
    """Whatever status a backend refuses with, Terraform gets an error."""
    assert Refusal(status, "no").status == 500
    assert Refusal(409, "no").status == 409


# Locking


def test_a_free_lock_is_taken() -> None:
    """The backend gets the whole LockInfo, and keeps it."""
    backend = MemoryBackend()
    locked(backend)
    assert backend.holder == info()


def test_a_lock_of_another_is_answered_with_its_holder() -> None:
    """The whole LockInfo: without an ID in it Terraform would not wait."""
    theirs = info(OTHER, who="bob@laptop")
    assert ask(StateRules(MemoryBackend(holder=theirs)), "LOCK", info()) == (423, theirs)


@pytest.mark.parametrize("holder", [b"", b"somebody", b"[]", b'{"Who": "bob"}', b'{"ID": ""}', b'{"ID": 7}'])
def test_an_unknown_holder_still_has_an_id(holder: bytes) -> None:
    """A backend that cannot say who holds the lock must not make Terraform give up at once."""
    status, body = ask(StateRules(MemoryBackend(holder=holder)), "LOCK", info())
    assert status == 423
    assert set(json.loads(body)) == set(json.loads(info()))
    assert json.loads(body)["ID"]


def test_a_holder_may_request_its_lock_twice() -> None:
    """Terraform repeats LOCK after a fault, with the same ID; the backend need not be asked again."""
    backend = MemoryBackend()
    rules = locked(backend)
    assert ask(rules, "LOCK", info())[0] == 200
    assert backend.calls == ["lock"]


def test_a_lock_whose_answer_was_lost_is_ours() -> None:
    """The backend stored it and then failed: asked again, it names us as the holder."""
    backend = MemoryBackend(holder=info())
    rules = locked(backend)
    assert ask(rules, "POST", state(1), MINE)[0] == 200


def test_two_locks_at_once_are_refused() -> None:
    """One command, one lock; also where the backend would let a second one pass."""
    rules = locked(MemoryBackend())
    assert ask(rules, "LOCK", info(OTHER)) == (423, info())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"ID": ""}', b'{"ID": 3}', b"\xff"])
def test_a_lock_request_without_an_id_is_refused(body: bytes) -> None:
    """A lock request without an id never reaches the backend."""
    backend = MemoryBackend()
    assert ask(StateRules(backend), "LOCK", body)[0] == 400
    assert backend.calls == []


def test_a_lock_is_named_by_its_holder_in_a_sentence() -> None:
    """The refusal names the holder, in one line whatever the name contains."""
    with pytest.raises(Refusal) as caught:
        StateRules(MemoryBackend(holder=info(OTHER, who="bob\x1b[2J\n@laptop"))).answer("LOCK", None, info())
    assert caught.value.message == (
        "the state is locked by bob?[2J?@laptop, OperationTypeApply, 2026-01-02T03:04:05Z"
    )


# Giving back


def test_a_lock_is_given_back_once_or_twice() -> None:
    """Terraform repeats UNLOCK after a fault: the ID released last is answered with 200 again."""
    backend = MemoryBackend()
    rules = locked(backend)
    assert [ask(rules, "UNLOCK", info())[0] for _ in range(2)] == [200, 200]
    assert backend.holder is None
    assert backend.calls == ["lock", "unlock"]


def test_a_lock_given_back_no_longer_saves() -> None:
    """After UNLOCK the same ID opens nothing."""
    backend = MemoryBackend()
    rules = locked(backend)
    ask(rules, "UNLOCK", info())
    assert ask(rules, "POST", state(1), MINE)[0] == 409
    assert backend.versions == []


def test_a_lock_can_be_taken_again_after_its_release() -> None:
    """A second lock of one command is a lock like the first; a late UNLOCK of the first does not harm it."""
    backend = MemoryBackend()
    rules = locked(backend)
    ask(rules, "UNLOCK", info())
    assert ask(rules, "LOCK", info(OTHER))[0] == 200
    assert ask(rules, "POST", state(1), OTHER)[0] == 200
    assert ask(rules, "UNLOCK", info())[0] == 200
    assert backend.holder == info(OTHER)


@pytest.mark.parametrize(("body", "status"), [(b"", 409), (b"\n", 409), (info(OTHER), 409), (b"{", 400)])
def test_a_lock_is_not_forced(body: bytes, status: int) -> None:
    """`force-unlock` sends no body, or an ID that was not taken here: the lock stays."""
    backend = MemoryBackend()
    rules = locked(backend)
    assert ask(rules, "UNLOCK", body)[0] == status
    assert backend.holder == info()
    assert ask(rules, "POST", state(1), MINE)[0] == 200


@pytest.mark.parametrize("done", [False, True])
def test_a_lock_that_could_not_be_given_back_is_given_back_later(*, done: bool) -> None:
    """Whether the store did it before it failed or not: the next try ends it; nothing is saved between."""
    backend = MemoryBackend()
    rules = locked(backend)

    def fault(name: str) -> None:
        backend.before = backend.after = lambda _: None
        raise OSError(name)

    if done:
        backend.after = fault
    else:
        backend.before = fault
    with pytest.raises(OSError, match="unlock"):
        rules.answer("UNLOCK", None, info())
    assert ask(rules, "POST", state(1), MINE)[0] == 409
    assert ask(rules, "UNLOCK", info())[0] == 200
    assert ask(rules, "UNLOCK", info())[0] == 200
    assert backend.holder is None
    assert backend.calls.count("unlock") == 2


def test_a_lock_whose_release_failed_can_be_taken_again() -> None:
    """By the same ID: then it is held as before."""
    backend = MemoryBackend()
    rules = locked(backend)
    backend.before = lambda name: (_ for _ in ()).throw(OSError(name))
    with pytest.raises(OSError, match="unlock"):
        rules.answer("UNLOCK", None, info())
    backend.before = lambda _: None
    assert ask(rules, "LOCK", info())[0] == 200
    assert ask(rules, "POST", state(1), MINE)[0] == 200


def test_a_lock_that_another_followed_is_not_given_back_any_more() -> None:
    """Its late repetition reaches no backend, and the lock that is held now stays."""
    backend = MemoryBackend()
    rules = locked(backend)
    backend.after = lambda name: (_ for _ in ()).throw(OSError(name))
    with pytest.raises(OSError, match="unlock"):
        rules.answer("UNLOCK", None, info())
    backend.after = lambda _: None
    assert ask(rules, "LOCK", info(OTHER))[0] == 200
    assert ask(rules, "UNLOCK", info())[0] == 409
    assert backend.calls == ["lock", "unlock", "lock"]
    assert ask(rules, "POST", state(1), OTHER)[0] == 200


# Saving


def test_a_first_state_is_saved() -> None:
    """Whatever its serial and lineage; so is the empty one of a plan that was cancelled."""
    for first in (state(1), state(7), state(1, value=None), encrypted(1)):
        backend = MemoryBackend()
        assert save(backend, first) == 200
        assert backend.versions == [first]


@pytest.mark.parametrize("lock", [None, "", OTHER])
def test_without_the_lock_nothing_is_saved(lock: str | None) -> None:
    """Neither without an ID nor with another one; the answer names the holder."""
    backend = MemoryBackend(state(1))
    assert ask(locked(backend), "POST", state(2), lock) == (423, info())
    assert ask(StateRules(MemoryBackend(state(1))), "POST", state(2), lock)[0] == 409
    assert backend.versions == [state(1)]


@pytest.mark.parametrize("serial", [2, 3, 90])
def test_a_later_version_follows(serial: int) -> None:
    """Any greater serial: after a failed save Terraform skips numbers."""
    backend = MemoryBackend(state(1))
    assert save(backend, state(serial)) == 200
    assert len(backend.versions) == 2


def test_the_same_bytes_again_are_not_saved_again() -> None:
    """A repeated POST, whose first answer was lost, is a success and no second version."""
    backend = MemoryBackend(state(4))
    assert save(backend, state(4)) == 200
    assert backend.versions == [state(4)]
    assert "write" not in backend.calls


@pytest.mark.parametrize(
    "body",
    [
        state(5, value="b"),
        state(4),
        state(0),
        state(6, lineage=ANOTHER_LINE),
        state(6, lineage=ANOTHER_LINE, value=None),
        encrypted(5),
        encrypted(6, lineage=ANOTHER_LINE),
    ],
    ids=["same-serial", "older", "oldest", "lineage", "lineage-empty", "sealed-same", "sealed-lineage"],
)
def test_what_does_not_follow_is_refused(body: bytes) -> None:
    """An equal serial with other content, an older one, another lineage: the kept state stays the last."""
    backend = MemoryBackend(state(5))
    assert save(backend, body) == 409
    assert backend.versions == [state(5)]


def test_another_line_may_follow_an_empty_state() -> None:
    """Nothing is lost with a state that holds nothing; but serials only grow."""
    empty = state(5, value=None)
    assert save(MemoryBackend(empty), state(6, lineage=ANOTHER_LINE)) == 200
    assert save(MemoryBackend(empty), state(5, lineage=ANOTHER_LINE)) == 409
    assert save(MemoryBackend(empty), state(2, lineage=ANOTHER_LINE)) == 409


def test_a_state_with_outputs_is_not_empty() -> None:
    """A state without resources that has outputs is not empty, as for Terraform itself."""
    kept = json.loads(state(5, value=None))
    kept["outputs"] = {"address": {"value": "10.0.0.1", "type": "string"}}
    assert save(MemoryBackend(json.dumps(kept).encode()), state(6, lineage=ANOTHER_LINE)) == 409


def test_an_encrypted_state_follows_and_is_followed() -> None:
    """Its serial and lineage are not encrypted; whether it holds resources is unknown, so it counts as if."""
    backend = MemoryBackend(state(1))
    assert save(backend, encrypted(2)) == 200
    backend.holder = None
    assert save(backend, encrypted(3)) == 200
    backend.holder = None
    assert save(backend, state(4, lineage=ANOTHER_LINE)) == 409


def test_a_state_from_before_lineages_can_be_followed() -> None:
    """One that was taken over in an older format is brought to format 4 by the next save."""
    old = json.dumps({"version": 3, "serial": 8, "modules": [{"path": ["root"]}]}).encode()
    assert save(MemoryBackend(old), state(9)) == 200
    assert save(MemoryBackend(old), state(8)) == 409


@pytest.mark.parametrize("kept", [b"{", b"[]", b"null", b'{"serial": "1"}', b'{"serial": 1, "lineage": 3}'])
def test_a_stored_state_that_cannot_be_read_is_never_overwritten(kept: bytes) -> None:
    """A kept state that is damaged is a fault of the store, not an empty place."""
    backend = MemoryBackend(kept)
    assert save(backend, state(9)) == 500
    assert backend.versions == [kept]


def changed(**fields: object) -> bytes:
    document = json.loads(state(9))
    document.update(fields)
    return json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"secret",
        b"null",
        b"[4]",
        state(9)[:-1],
        state(9).decode().encode("utf-16"),
        b"\xef\xbb\xbf" + state(9),
        b'{"version": 4, "serial": 9, "lineage": "x", "more": NaN}',
        b'{"version": 4, "serial": 9, "lineage": "x", "more": ' + b"[" * 100_000,
        changed(version=3),
        changed(version="4"),
        changed(version=...),
        changed(serial=...),
        changed(serial=-1),
        changed(serial=True),
        changed(serial=9.0),
        changed(serial=2**64),
        changed(lineage=""),
        changed(lineage=...),
        changed(lineage=1),
        encrypted(9, data=None),
        encrypted(9, lineage=""),
        changed(resources=5),
        changed(resources=[None]),
        changed(resources=[{"mode": "managed", "type": "t", "instances": []}]),
        changed(resources=[{"mode": "managed", "type": "t", "name": "n", "instances": [5]}]),
        changed(resources=[{"mode": "managed", "type": "t", "name": "n", "instances": 5}]),
    ],
)
def test_what_is_no_state_is_not_saved(body: bytes) -> None:
    """Format 4 or OpenTofu's envelope, with serial and lineage; the reason never quotes what came."""
    backend = MemoryBackend()
    with pytest.raises(Refusal) as caught:
        locked(backend).answer("POST", MINE, body)
    assert caught.value.status == 400
    assert "secret" not in caught.value.message
    assert len(caught.value.message) < 100
    assert backend.versions == []


def test_the_backend_gets_the_number_of_managed_resources() -> None:
    """As the decoder of states counts them: deposed ones too, data sources not."""
    named = {"type": "t", "name": "n"}
    body = changed(
        resources=[
            {"mode": "managed", **named, "instances": [{"index_key": 0}, {"index_key": 1}, {"deposed": "x"}]},
            {"mode": "data", **named, "instances": [{}]},
            {"mode": "managed", **named, "instances": None},
        ]
    )
    decoded = read_state(body)
    assert isinstance(decoded, State)
    assert read_header(body).managed == decoded.managed == 3
    assert read_header(encrypted(9)).managed is None


def test_what_the_backend_refuses_is_refused() -> None:
    """A backend that lost its lease says so with a status of its own."""
    backend = MemoryBackend(state(1))
    rules = locked(backend)

    def refuse(name: str) -> None:
        if name == "write":
            raise Refusal(409, "the lease went to another run")

    backend.before = refuse
    assert ask(rules, "POST", state(2), MINE) == (409, b"the lease went to another run")


@pytest.mark.parametrize("method", ["DELETE", "PUT", "HEAD", "PATCH", "get"])
def test_nothing_else_is_done(method: str) -> None:
    """Versions are only added: DELETE deletes nothing."""
    backend = MemoryBackend(state(1))
    assert ask(locked(backend), method)[0] == 405
    assert backend.calls == ["lock"]


def test_the_variables_name_the_server_and_nothing_else() -> None:
    """One address for all, on loopback; whole seconds between tries."""
    given = variables(4711, "server", "word")
    assert {given[f"TF_HTTP_{name}ADDRESS"] for name in ("", "LOCK_", "UNLOCK_")} == {
        "http://127.0.0.1:4711/state"
    }
    assert (given["TF_HTTP_USERNAME"], given["TF_HTTP_PASSWORD"]) == ("server", "word")
    assert all(name.startswith("TF_HTTP_") for name in given)
    assert all(value.isdigit() for name, value in given.items() if "RETRY" in name)
