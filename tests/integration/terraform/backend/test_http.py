"""The local state backend by hand: what a client can send, and the responses."""

from __future__ import annotations

import base64
import errno
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from memory_backend import MINE, MemoryBackend, info, state
from program import eventually

from holdfast.kernel.errors import Failed
from holdfast.terraform.backend.http import RequestHead
from holdfast.terraform.backend.server import Limits, Refusal, StateServer, _Client

USER, WORD = "server", "a word for life"
AUTHORISED = f"Authorization: Basic {base64.b64encode(f'{USER}:{WORD}'.encode()).decode()}\r\n"


class Answer:
    def __init__(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.status = status
        self.fields = fields
        self.body = body


class Caller:
    """One connection to the server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.stream = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def hear(self, *, bodiless: bool = False) -> Answer:
        status = int(self.stream.readline().split()[1])
        fields: dict[str, str] = {}
        while line := self.stream.readline().strip():
            name, _, value = line.decode().partition(": ")
            fields[name] = value
        body = b"" if bodiless else self.stream.read(int(fields.get("Content-Length", 0)))
        return Answer(status, fields, body)

    def ask(self, method: str, body: bytes = b"", *, query: str = "", fields: str = AUTHORISED) -> Answer:
        self.send(request(method, body, query=query, fields=fields))
        return self.hear(bodiless=method == "HEAD")

    def ended(self) -> bool:
        """Whether the server has ended the connection, with nothing more to say."""
        try:
            return self.stream.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


def request(method: str, body: bytes = b"", *, query: str = "", fields: str = AUTHORISED) -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} /state{query} HTTP/1.1\r\nHost: server\r\n{fields}{length}\r\n".encode() + body


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"POST /state?ID={MINE} HTTP/1.1\r\n{AUTHORISED}Transfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + end


class Place:
    """A server, its backend, and callers that are closed at the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.backend = MemoryBackend()
        self.server, self.port = self.another()
        self.server.serve_state(self.backend)

    def another(self, limits: Limits | None = None) -> tuple[StateServer, int]:
        listening = socket.create_server(("127.0.0.1", 0))
        server = StateServer(listening, user=USER, password=WORD, limits=limits)
        server.open()
        self._stack.callback(server.close)
        return server, listening.getsockname()[1]

    def limited(self, limits: Limits) -> None:
        self.server, self.port = self.another(limits)
        self.server.serve_state(self.backend)

    def caller(self) -> Caller:
        caller = Caller(self.port)
        self._stack.callback(caller.close)
        return caller

    def locked(self) -> Caller:
        caller = self.caller()
        assert caller.ask("LOCK", info()).status == 200
        return caller


@pytest.fixture
def place() -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(stack)


def test_a_whole_command_over_one_connection(place: Place) -> None:
    """Read, lock, read, save, give back: one connection serves them all."""
    caller = place.caller()
    assert caller.ask("GET").status == 404
    assert caller.ask("LOCK", info()).status == 200
    assert caller.ask("GET").status == 404
    assert caller.ask("POST", state(1), query=f"?ID={MINE}").status == 200
    assert caller.ask("UNLOCK", info()).status == 200
    read = caller.ask("GET")
    assert (read.status, read.body) == (200, state(1))
    assert read.fields["Content-Type"] == "application/json"
    assert place.backend.calls == ["read", "lock", "read", "read", "write", "unlock", "read"]
    assert place.server.refusals == []


def test_requests_sent_at_once_are_answered_in_order(place: Place) -> None:
    """What came before the last answer left waits its turn, also when it comes byte by byte."""
    caller = place.caller()
    everything = b"".join(
        [
            request("LOCK", info()),
            chunked(state(1)[:10], state(1)[10:]),
            request("GET"),
            request("UNLOCK", info()),
        ]
    )
    for index in range(len(everything)):
        caller.send(everything[index : index + 1])
    assert [caller.hear().status for _ in range(2)] == [200, 200]
    assert caller.hear().body == state(1)
    assert caller.hear().status == 200
    place.backend.holder = None
    caller.send(everything)
    assert [caller.hear().status for _ in range(4)] == [200] * 4


def test_a_large_state_goes_both_ways(place: Place) -> None:
    """More than any buffer holds, in chunks and whole."""
    large = state(1, value="x" * (8 << 20))
    caller = place.locked()
    caller.send(chunked(*(large[at : at + 70_000] for at in range(0, len(large), 70_000))))
    assert caller.hear().status == 200
    assert caller.ask("GET").body == large
    larger = state(2, value="y" * (8 << 20))
    assert caller.ask("POST", larger, query=f"?ID={MINE}").status == 200
    assert place.backend.versions == [large, larger]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ("", 401),
        ("Authorization: Basic\r\n", 403),
        (AUTHORISED.replace("Basic", "Bearer"), 403),
        (f"Authorization: Basic {base64.b64encode(b'server:another').decode()}\r\n", 403),
        (f"Authorization: Basic {base64.b64encode(b'other:a word for life').decode()}\r\n", 403),
        ("Authorization: Basic \xe9\xe8\r\n", 403),
    ],
)
def test_without_the_password_nothing_is_read_or_written(place: Place, fields: str, status: int) -> None:
    """Refused before it reaches the backend, and before a body is read; the connection ends."""
    caller = place.caller()
    assert caller.ask("GET", fields=fields).status == status
    assert caller.ended()
    promised = place.caller()
    promised.send(f"POST /state HTTP/1.1\r\n{fields}Content-Length: 1000000\r\n\r\n".encode("latin-1"))
    assert promised.hear().status == status
    assert promised.ended()
    assert place.backend.calls == []
    assert place.server.refusals
    assert WORD not in repr(place.server.refusals)


def test_a_client_that_keeps_sending_gets_the_refusal(place: Place) -> None:
    """What is still on its way must not tear down the answer."""
    caller = place.caller()
    whole = request("POST", b"x" * 2_000_000, fields="")
    caller.send(whole[:1000])
    assert caller.socket.recv(1, socket.MSG_PEEK) == b"H"
    for at in range(1000, len(whole), 100_000):
        caller.send(whole[at : at + 100_000])
    assert caller.hear().status == 401
    assert caller.ended()


@pytest.mark.parametrize("path", ["/", "/other", "/state/", "//state", "http://127.0.0.1/state"])
def test_another_address_is_never_an_empty_place(place: Place, path: str) -> None:
    """An address that the server does not know is refused; a 404 would mean "no state" there."""
    place.backend.versions.append(state(1))
    caller = place.caller()
    caller.send(f"GET {path} HTTP/1.1\r\n{AUTHORISED}\r\n".encode())
    assert caller.hear().status == 403


@pytest.mark.parametrize("method", ["DELETE", "PUT", "HEAD", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_do_nothing(place: Place, method: str) -> None:
    """405, saying what there is; HEAD without a body."""
    caller = place.caller()
    answer = caller.ask(method)
    assert (answer.status, answer.fields["Allow"]) == (405, "GET, POST, LOCK, UNLOCK")
    assert caller.ended()
    assert place.backend.calls == []


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /state\r\n\r\n", 400),
        (b"GET  /state HTTP/1.1\r\n\r\n", 400),
        (b"G(T /state HTTP/1.1\r\n\r\n", 400),
        (b"GET /st\xffte HTTP/1.1\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\n: empty\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\nA: 1\r\n folded\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\nA: 1\nB: 2\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\nA: 1\r\nA: 2\r\n\r\n", 400),
        (b"GET /state HTTP/2.0\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00 TLS, perhaps\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\nA: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /state HTTP/1.1\r\nA: " + b"x" * 400_000, 431),
    ],
)
def test_what_is_no_request_is_refused(place: Place, text: bytes, status: int) -> None:
    """A response that says so, the end of the connection, and a server that serves the next client."""
    caller = place.caller()
    caller.send(text)
    assert caller.hear().status == status
    assert caller.ended()
    assert place.caller().ask("GET").status == 404


@pytest.mark.parametrize(
    ("fields", "body", "status"),
    [
        ("Content-Length: -1", b"", 400),
        ("Content-Length: 1e3", b"", 400),
        ("Content-Length: 99999999999999999999", b"", 400),
        ("Content-Length: 2000000000", b"", 413),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", b"", 400),
        ("Transfer-Encoding: gzip, chunked", b"", 501),
        ("Transfer-Encoding: chunked", b"\r\n", 400),
        ("Transfer-Encoding: chunked", b"-5\r\n", 400),
        ("Transfer-Encoding: chunked", b"0x5\r\n", 400),
        ("Transfer-Encoding: chunked", b"fffffffff\r\n", 400),
        ("Transfer-Encoding: chunked", b"7fffffff\r\n", 413),
        ("Transfer-Encoding: chunked", b"2\r\n{}--", 400),
        ("Transfer-Encoding: chunked", b"x" * 5000, 400),
        ("Transfer-Encoding: chunked", b"0\r\n" + b"A: b\r\n" * 20_000, 431),
        ("Expect: tea\r\nContent-Length: 3", b"", 417),
        ("Content-Length: 2\r\nContent-MD5: nonsense", b"{}", 400),
        ("Content-Length: 2\r\nContent-MD5: %%%", b"{}", 400),
        ("Content-Length: 2\r\nContent-MD5: MTIzNDU2Nzg5MDEyMzQ1Ng==", b"{}", 400),
    ],
)
def test_a_body_that_does_not_match_its_header_is_refused(
    place: Place, fields: str, body: bytes, status: int
) -> None:
    """A wrong length, wrong chunks, a wrong sum: nothing of it reaches the backend."""
    caller = place.locked()
    caller.send(f"POST /state?ID={MINE} HTTP/1.1\r\n{AUTHORISED}{fields}\r\n\r\n".encode() + body)
    assert caller.hear().status == status
    assert caller.ended()
    assert place.backend.calls == ["lock"]


def test_a_sum_is_compared(place: Place) -> None:
    """The Content-MD5 that Terraform sends belongs to the body, or nothing is saved."""
    caller = place.locked()
    right = base64.b64encode(hashlib.md5(state(1), usedforsecurity=False).digest()).decode()
    fields = f"{AUTHORISED}Content-MD5: {right}\r\n"
    assert caller.ask("POST", state(1), query=f"?ID={MINE}", fields=fields).status == 200
    assert caller.ask("POST", state(2), query=f"?ID={MINE}", fields=fields).status == 400
    odd = f"{AUTHORISED}Content-MD5: {right[:4]}!{right[4:]}\r\n"
    assert place.locked().ask("POST", state(1), query=f"?ID={MINE}", fields=odd).status == 400
    assert place.backend.versions == [state(1)]


def test_chunks_may_carry_more_than_bytes(place: Place) -> None:
    """Extensions and fields after the body are passed over, and the connection goes on."""
    caller = place.locked()
    caller.send(chunked(state(1), end=b"0;last=yes\r\nA: b\r\n\r\n"))
    assert caller.hear().status == 200
    assert caller.ask("GET").body == state(1)


def test_a_client_that_expects_a_continue_gets_it(place: Place) -> None:
    """`Expect: 100-continue`: first the leave to send, then the answer."""
    caller = place.locked()
    head = request("POST", state(1), query=f"?ID={MINE}", fields=f"{AUTHORISED}Expect: 100-continue\r\n")
    caller.send(head[: -len(state(1))])
    assert caller.hear().status == 100
    caller.send(state(1))
    assert caller.hear().status == 200


@pytest.mark.parametrize("query", [f"?ID={MINE}&ID={MINE}", f"?ID={MINE}x", "?id=" + MINE, "?ID=", ""])
def test_a_save_names_the_lock_exactly_once(place: Place, query: str) -> None:
    """An ID that is doubled, longer, or not there opens nothing."""
    caller = place.locked()
    assert caller.ask("POST", state(1), query=query).status in {400, 423}
    assert place.backend.versions == []


def test_more_in_the_query_does_not_matter(place: Place) -> None:
    """Only the lock's ID is looked for."""
    caller = place.locked()
    assert caller.ask("POST", state(1), query=f"?a=b&ID={MINE}&c").status == 200


@pytest.mark.parametrize("fields", ["Connection: close\r\n", "Connection: Keep-Alive, Close\r\n"])
def test_the_connection_closes_on_request(place: Place, fields: str) -> None:
    """One answer, then the end."""
    caller = place.caller()
    answer = caller.ask("GET", fields=AUTHORISED + fields)
    assert (answer.status, answer.fields["Connection"]) == (404, "close")
    assert caller.ended()


def test_an_old_caller_is_served_once(place: Place) -> None:
    """HTTP/1.0 has no second request."""
    caller = place.caller()
    caller.send(request("GET").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert caller.hear().status == 404
    assert caller.ended()


@pytest.mark.parametrize("keep", [0, 1, 40, 300, -1])
def test_a_cut_connection_saves_nothing(place: Place, keep: int) -> None:
    """Half a state is no state, wherever it was cut; the whole one comes with the next try."""
    caller = place.locked()
    whole = request("POST", state(1), query=f"?ID={MINE}")
    broken = place.caller()
    broken.send(whole[:keep])
    broken.close()
    eventually(lambda: len(place.server._clients) == 1, what="the server forgets a caller that is gone")
    assert place.backend.versions == []
    assert caller.ask("POST", state(1), query=f"?ID={MINE}").status == 200


def test_a_caller_who_leaves_before_the_answer_has_saved(place: Place) -> None:
    """The state is safe, and the same request again is a success without a second version."""
    caller = place.locked()
    caller.send(request("POST", state(1), query=f"?ID={MINE}"))
    caller.close()
    eventually(lambda: place.backend.versions == [state(1)], what="the state is saved")
    assert place.caller().ask("POST", state(1), query=f"?ID={MINE}").status == 200
    assert place.backend.versions == [state(1)]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"GET /state HT",
        request("POST", state(1), query=f"?ID={MINE}")[:-5],
        chunked(b"{")[:-3],
    ],
    ids=["silent", "head", "body", "chunks"],
)
def test_who_does_not_go_on_is_left(place: Place, text: bytes) -> None:
    """A slow client blocks nothing for ever; it gets no response that Terraform would treat as final."""
    place.limited(Limits(head_seconds=0.1, body_seconds=0.1, idle_seconds=0.1))
    caller = place.caller()
    caller.send(text)
    assert caller.ended()
    eventually(lambda: not place.server._clients, what="the server forgets a slow caller")
    assert place.server.refusals == (["a request was incomplete"] if text else [])
    assert place.backend.calls == []


def test_an_idle_connection_ends(place: Place) -> None:
    """After an answer the server waits for a while, not for ever."""
    place.limited(Limits(idle_seconds=0.1))
    caller = place.caller()
    assert caller.ask("GET").status == 404
    assert caller.ended()


def test_a_bound_holds_for_a_body_in_chunks(place: Place) -> None:
    """What is announced in small pieces is counted all the same."""
    place.limited(Limits(body=1000))
    caller = place.locked()
    caller.send(chunked(*([b"x" * 100] * 11)))
    assert caller.hear().status == 413
    assert caller.ended()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the store failed: No space left on device"),
        (Failed("HF-STORE-99", "the key is another"), "the store failed: HF-STORE-99 the key is another"),
        (ValueError('{"password": "hunter2"}'), "the store failed: ValueError"),
        (Refusal(409, "the lease is lost"), "the lease is lost"),
        (Refusal(404, "not found in the bucket"), "not found in the bucket"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "LOCK", "POST", "UNLOCK"])
def test_a_fault_of_the_store_is_never_no_state(
    place: Place, method: str, error: Exception, sentence: str
) -> None:
    """5xx or the backend's own refusal, never a success and never 404; remembered without any content."""
    caller = place.caller() if method == "LOCK" else place.locked()
    place.backend.before = _raising(error)
    body = {"GET": b"", "POST": state(1)}.get(method, info())
    answer = caller.ask(method, body, query=f"?ID={MINE}")
    assert answer.status == (409 if sentence == "the lease is lost" else 500)
    assert answer.body.decode() == sentence
    assert place.server.refusals == [sentence]
    place.backend.before = lambda _: None
    assert caller.ask(method, body, query=f"?ID={MINE}").status in {200, 404}


def _raising(error: Exception) -> Callable[[str], None]:
    def fail(_: str) -> None:
        raise error

    return fail


def test_a_server_without_a_state_refuses_everything(place: Place) -> None:
    """Between two commands every request is an error for Terraform, not a missing state."""
    place.backend.versions.append(state(1))
    place.server.serve_state(None)
    for method in ("GET", "LOCK", "POST", "UNLOCK"):
        assert place.caller().ask(method, b"" if method == "GET" else info()).status == 403
    assert place.backend.calls == []
    assert place.server.refusals == ["the local state backend serves no state now"]


def test_with_another_state_the_lock_is_gone(place: Place) -> None:
    """A lock of the command before opens nothing, and its connections have ended."""
    caller = place.locked()
    other = MemoryBackend(state(1))
    place.server.serve_state(other)
    assert caller.ended()
    late = place.caller()
    assert late.ask("POST", state(2), query=f"?ID={MINE}").status == 409
    assert late.ask("GET").body == state(1)
    assert other.versions == [state(1)]
    assert place.backend.versions == []


def test_a_request_is_for_the_state_it_was_meant_for(place: Place) -> None:
    """One that is waiting while the server changes is dropped, not handed to the next state."""
    entered, go_on = threading.Event(), threading.Event()

    def hold(_: str) -> None:
        entered.set()
        assert go_on.wait(30)

    callers = [place.caller() for _ in range(8)]
    place.backend.before = hold
    for caller in callers:
        caller.send(request("GET"))
    assert entered.wait(30)
    eventually(lambda: len(place.server._clients) == 8, what="all callers are there")
    other = MemoryBackend()
    changing = threading.Thread(target=place.server.serve_state, args=(other,))
    changing.start()
    go_on.set()
    changing.join(30)
    assert not changing.is_alive()
    eventually(lambda: not place.server._clients, what="all have been served or dropped")
    assert other.calls == []


def test_a_client_of_an_earlier_command_reaches_no_state(place: Place) -> None:
    """A request that was read before the server changed, and decided after, is dropped."""
    with socket.socket() as connection:
        visit = _Client(connection)
        visit.end()
        assert (
            place.server._decide(visit, RequestHead("LOCK", "/state", {}, keep_alive=True), None, info())
            is None
        )
    assert place.backend.calls == []


def test_what_was_refused_is_of_this_command(place: Place) -> None:
    """Sentences last until the next backend comes, are not repeated, and do not grow without end."""
    caller = place.caller()
    for _ in range(3):
        assert caller.ask("UNLOCK").status == 409
    assert len(place.server.refusals) == 1
    for _ in range(150):
        caller.ask("UNLOCK")
        caller.ask("UNLOCK", info())
    assert len(place.server.refusals) == 100
    place.server.serve_state(None)
    assert len(place.server.refusals) == 100
    place.server.serve_state(place.backend)
    assert place.server.refusals == []


def test_too_many_callers_do_not_end_the_server(place: Place) -> None:
    """Beyond its number, callers are turned away; when some have left, there is room again."""
    callers = [place.caller() for _ in range(128)]
    eventually(lambda: len(place.server._clients) == 128, what="all have come in")
    assert place.caller().ended()
    callers[0].close()
    eventually(lambda: len(place.server._clients) == 127, what="one has left")
    assert place.caller().ask("GET").status == 404


def test_a_closed_server_is_closed(place: Place) -> None:
    """Connections end, the address is free, and closing twice does no harm."""
    caller = place.caller()
    assert caller.ask("GET").status == 404
    place.server.close()
    place.server.close()
    assert caller.ended()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", place.port), timeout=5)
    assert not place.server._acceptor.is_alive()


def test_nothing_is_decided_by_a_closed_server(place: Place) -> None:
    """A request that is still on its way when the server closes reaches no backend."""
    place.server.close()
    with socket.socket() as connection:
        answer = place.server._decide(
            _Client(connection), RequestHead("GET", "/state", {}, keep_alive=True), None, b""
        )
    assert answer is not None
    assert answer.status == 403
    assert place.backend.calls == []


def test_a_server_that_never_opened_can_be_closed() -> None:
    """An end before the beginning is an end."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = StateServer(listening, user=USER, password=WORD)
    assert not listening.get_inheritable()
    server.close()
    assert listening.fileno() == -1
