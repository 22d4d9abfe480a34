"""The local state backend: an HTTP server on loopback that Terraform's `http` backend talks to.

Go reads its environment once, so a warm process cannot be given a new state address per command. Address and
password are fixed for the life of the process; each command names the state they stand for (`serve_state`),
and every other request is refused. The server runs as threads of the supervisor, so it lives as long as the
command: the embedded Terraform lets Python run meanwhile.

`http` speaks HTTP, `rules` decides, a `StateBackend` stores. Imports are few on purpose: this is part of the
start of every worker.
"""

from __future__ import annotations

import binascii
import hashlib
import socket
import threading
from hmac import compare_digest

from holdfast.terraform.backend.http import Connection, ConnectionLost, Limits, Refusal, RequestHead, Response
from holdfast.terraform.backend.rules import StateBackend, StateRules

__all__ = ["Limits", "Refusal", "StateBackend", "StateServer", "variables"]

_PATH = "/state"
_METHODS = ("GET", "POST", "LOCK", "UNLOCK")
_CONNECTIONS = 128
_REMEMBERED = 100
_BREATH = 0.05


def variables(port: int, user: str, password: str) -> dict[str, str]:
    """What an empty `backend "http" {}` needs to find the door, and nothing that belongs to one run.

    A fault is tried four times in seven seconds: a save is worth more patience than Terraform has by itself.
    """
    address = f"http://127.0.0.1:{port}{_PATH}"
    return {
        "TF_HTTP_ADDRESS": address,
        "TF_HTTP_LOCK_ADDRESS": address,
        "TF_HTTP_UNLOCK_ADDRESS": address,
        "TF_HTTP_UPDATE_METHOD": "POST",
        "TF_HTTP_LOCK_METHOD": "LOCK",
        "TF_HTTP_UNLOCK_METHOD": "UNLOCK",
        "TF_HTTP_USERNAME": user,
        "TF_HTTP_PASSWORD": password,
        "TF_HTTP_RETRY_MAX": "3",
        "TF_HTTP_RETRY_WAIT_MIN": "1",
        "TF_HTTP_RETRY_WAIT_MAX": "4",
    }


class _Visit:
    """One connection, for as long as the door stands for what it stood for when the connection came."""

    __slots__ = ("connection", "over")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.over = False

    def end(self) -> None:
        self.over = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # It had ended by itself.


class StateServer:
    """One address, one password, one state at a time."""

    def __init__(
        self, listening: socket.socket, *, user: str, password: str, limits: Limits | None = None
    ) -> None:
        # What Terraform starts must not hold the address when this process is gone.
        listening.set_inheritable(False)
        self.refusals: list[str] = []
        """Why requests were refused since the last keeper came: in short, with nothing of a state."""
        self._listening = listening
        self._limits = limits or Limits()
        self._credentials = binascii.b2a_base64(f"{user}:{password}".encode(), newline=False)
        self._rules: StateRules | None = None
        self._turn = threading.Lock()
        """Held while a request is decided: one after the other, and none across a change of keepers."""
        self._visits: set[_Visit] = set()
        self._counting = threading.Lock()
        self._closed = threading.Event()
        self._accepting = threading.Thread(target=self._accept, name="state door", daemon=True)

    def open(self) -> None:
        self._listening.settimeout(None)
        self._listening.listen(_CONNECTIONS)
        self._accepting.start()

    def serve_state(self, keeper: StateBackend | None) -> None:
        """From now on this state and no other, with no lock held; None: refuse everything.

        Waits for a request that is being decided. Connections of the command before are ended: each command
        of a warm process opens its own, and Go would hold them, and their descriptors, for 90 seconds more.
        """
        with self._turn:
            self._rules = None if keeper is None else StateRules(keeper)
            if keeper is not None:
                self.refusals = []
            self._end_visits()

    def close(self) -> None:
        """No request is decided after this."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._accepting.is_alive():
            self._wake()
            self._accepting.join(5.0)
        self._listening.close()
        with self._turn:
            self._rules = None
            self._end_visits()

    def _wake(self) -> None:
        """A blocked accept is not woken by closing its socket, but by a caller."""
        try:
            socket.create_connection(self._listening.getsockname(), timeout=1.0).close()
        except OSError:
            return  # Nobody can call any more, which is what is wanted.

    def _end_visits(self) -> None:
        with self._counting:
            for visit in self._visits:
                visit.end()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                # Too many open files, or a caller that went away at once. The door stays.
                self._closed.wait(_BREATH)
                continue
            visit = _Visit(connection)
            with self._counting:
                welcome = len(self._visits) < _CONNECTIONS and not self._closed.is_set()
                if welcome:
                    self._visits.add(visit)
            if welcome:
                self._start(visit)
            else:
                connection.close()

    def _start(self, visit: _Visit) -> None:
        try:
            threading.Thread(target=self._attend, args=(visit,), daemon=True).start()
        except RuntimeError:
            self._leave(visit)  # No thread to be had: the caller tries again.

    def _leave(self, visit: _Visit) -> None:
        with self._counting:
            self._visits.discard(visit)
            visit.connection.close()

    def _attend(self, visit: _Visit) -> None:
        wire = Connection(visit.connection, self._limits)
        try:
            visit.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first = True
            while self._serve(wire, visit, first=first):
                first = False
        except ConnectionLost:
            # Nobody is there to be answered. Terraform tries again, and may: every request can come twice.
            if not visit.over:
                self._remember("a request did not come to its end")
        except OSError:
            return
        finally:
            self._leave(visit)

    def _serve(self, wire: Connection, visit: _Visit, *, first: bool) -> bool:
        """One request; whether the connection may serve another."""
        head = None
        try:
            head = wire.head(first=first)
            if head is None:
                return False
            lock = self._admit(head)
            body = wire.body(head)
            _check_sum(head, body)
        except Refusal as refusal:
            # Where the next request would begin is not known.
            wire.answer(
                self._refuse(refusal), lasting=False, bodiless=head is not None and head.method == "HEAD"
            )
            wire.finish()
            return False
        answer = self._decide(visit, head, lock, body)
        if answer is None:
            return False
        wire.answer(answer, lasting=head.lasting)
        return head.lasting

    def _admit(self, head: RequestHead) -> str | None:
        """Before a body is read: who asks, and for what. Gives the lock that the request names."""
        given = head.fields.get(b"authorization")
        if given is None:
            raise Refusal(401, "a request came without the door's password")
        scheme, _, credentials = given.partition(b" ")
        if not compare_digest(credentials.strip(b" "), self._credentials) or scheme.lower() != b"basic":
            raise Refusal(403, "a request came with a wrong password")
        path, _, query = head.target.partition("?")
        if path != _PATH:
            raise Refusal(403, "a request asked for another address than the door's own")
        if head.method not in _METHODS:
            raise Refusal(405, "the door reads, writes, locks and unlocks; it does nothing else")
        locks = [part[3:] for part in query.split("&") if part.startswith("ID=")]
        if len(locks) > 1:
            raise Refusal(400, "a request names two locks")
        return locks[0] if locks else None

    def _decide(self, visit: _Visit, head: RequestHead, lock: str | None, body: bytes) -> Response | None:
        """None where the door has come to stand for something else since: the asker's command is over."""
        with self._turn:
            if visit.over:
                return None
            try:
                if self._rules is None:
                    raise Refusal(403, "the door stands for no state now")  # noqa: TRY301 - answered like any other
                return self._rules.answer(head.method, lock, body)
            except Refusal as refusal:
                return self._refuse(refusal)
            except Exception as error:  # noqa: BLE001 - whatever the keeper could not do is a fault, never "no state"
                return self._refuse(Refusal(500, f"the store failed: {_told(error)}"))

    def _refuse(self, refusal: Refusal) -> Response:
        self._remember(refusal.message)
        fields = [("Content-Type", "text/plain" if refusal.body is None else "application/json")]
        if refusal.status == 401:  # noqa: PLR2004 - the status that asks for a password
            fields.append(("WWW-Authenticate", 'Basic realm="state"'))
        elif refusal.status == 405:  # noqa: PLR2004 - the status that says what is allowed
            fields.append(("Allow", ", ".join(_METHODS)))
        body = refusal.message.encode() if refusal.body is None else refusal.body
        return Response(refusal.status, body, tuple(fields))

    def _remember(self, sentence: str) -> None:
        known = self.refusals
        if len(known) < _REMEMBERED and (not known or known[-1] != sentence):
            known.append(sentence)


def _check_sum(head: RequestHead, body: bytes) -> None:
    """What arrived is what was sent, where the sender said what that was."""
    given = head.fields.get(b"content-md5")
    if given is None:
        return
    try:
        expected = binascii.a2b_base64(given, strict_mode=True)
    except ValueError:
        expected = b""
    if hashlib.md5(body, usedforsecurity=False).digest() != expected:
        raise Refusal(400, "a request's body is not what its Content-MD5 says")


def _told(error: Exception) -> str:
    """What may be said of a fault: words made for people, the system's own, or only its kind."""
    from holdfast.kernel.errors import HoldfastError  # noqa: PLC0415 - costs a start of its own, and is rarely needed

    if isinstance(error, HoldfastError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
