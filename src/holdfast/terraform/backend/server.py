"""The local state backend: an HTTP server on loopback that Terraform's `http` backend talks to.

Go reads its environment once, so a worker cannot get a new state address per command. Address and
password are fixed for the life of the process; each command names the state they stand for (`serve_state`),
and every other request is refused. The server runs as threads of the supervisor, so it lives as long as the
command: an embedded engine lets Python run meanwhile.

`http` speaks HTTP, `rules` decides, a `StateBackend` stores. Imports are few on purpose: this is part of the
start of every worker.
"""

from __future__ import annotations

import _thread
import binascii
import socket
import threading
from hmac import compare_digest

from holdfast.terraform.backend.http import Connection, ConnectionLost, Limits, Refusal, RequestHead, Response
from holdfast.terraform.backend.rules import StateBackend, StateRules, matches_md5, md5_of

__all__ = ["Limits", "Refusal", "StateBackend", "StateServer", "variables"]

_PATH = "/state"
_METHODS = ("GET", "POST", "LOCK", "UNLOCK")
_CONNECTIONS = 128
_MOST_REFUSALS = 100
_RETRY_SECONDS = 0.05


def variables(port: int, user: str, password: str) -> dict[str, str]:
    """What an empty `backend "http" {}` needs to find the server, and nothing that belongs to one run.

    Terraform retries a fault three times within seven seconds; by default it would give up earlier.
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


class _Client:
    """One connection; it is valid for the state that was served when it was accepted."""

    __slots__ = ("connection", "over")

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.over = False

    def end(self) -> None:
        self.over = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # It has ended by itself.


class StateServer:
    """One address, one password, one state at a time."""

    def __init__(
        self, listening: socket.socket, *, user: str, password: str, limits: Limits | None = None
    ) -> None:
        # What Terraform starts must not keep the address in use after this process.
        listening.set_inheritable(False)
        self.refusals: list[str] = []
        """Why requests of the current command were refused, in short and without anything of a state."""
        self._listening = listening
        self._limits = limits or Limits()
        self._credentials = binascii.b2a_base64(f"{user}:{password}".encode(), newline=False)
        self._rules: StateRules | None = None
        self._deciding = threading.Lock()
        """Held while a request is decided: one after the other, and none across a change of the served state.
        """
        self._clients: set[_Client] = set()
        self._clients_lock = threading.Lock()
        self._closed = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, name="state server", daemon=True)

    def open(self) -> None:
        self._listening.settimeout(None)
        self._listening.listen(_CONNECTIONS)
        self._acceptor.start()

    def serve_state(self, backend: StateBackend | None) -> None:
        """Serve this state and no other from now on, with no lock held; None: refuse everything.

        Waits for a request that is being decided. Connections of the previous command are closed: each
        command opens its own, and Go would hold the old ones, and their descriptors, for another 90 seconds.
        """
        with self._deciding:
            self._rules = None if backend is None else StateRules(backend)
            if backend is not None:
                self.refusals = []
            self._end_clients()

    def close(self) -> None:
        """No request is served after this."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._acceptor.is_alive():
            self._wake_acceptor()
            self._acceptor.join(5.0)
        self._listening.close()
        with self._deciding:
            self._rules = None
            self._end_clients()

    def _wake_acceptor(self) -> None:
        """Closing its socket does not wake a blocked accept; a connection does."""
        try:
            socket.create_connection(self._listening.getsockname(), timeout=1.0).close()
        except OSError:
            return  # No client can connect any more, which is the goal.

    def _end_clients(self) -> None:
        with self._clients_lock:
            for client in self._clients:
                client.end()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                # Too many open files, or a client that disconnected at once. The server goes on.
                self._closed.wait(_RETRY_SECONDS)
                continue
            client = _Client(connection)
            with self._clients_lock:
                accepted = len(self._clients) < _CONNECTIONS and not self._closed.is_set()
                if accepted:
                    self._clients.add(client)
            if accepted:
                self._start(client)
            else:
                connection.close()

    def _start(self, client: _Client) -> None:
        try:
            # A `Thread` would wait until it runs: most connections serve two or three requests.
            _thread.start_new_thread(self._serve_client, (client,))
        except RuntimeError:
            self._forget(client)  # No thread can be started; the client tries again.

    def _forget(self, client: _Client) -> None:
        with self._clients_lock:
            self._clients.discard(client)
            client.connection.close()

    def _serve_client(self, client: _Client) -> None:
        connection = Connection(client.connection, self._limits)
        try:
            client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first = True
            while self._serve(connection, client, first=first):
                first = False
        except ConnectionLost:
            # No response can be sent. Terraform tries again, and may: every request can arrive twice.
            if not client.over:
                self._note("a request was incomplete")
        except OSError:
            return
        finally:
            self._forget(client)

    def _serve(self, connection: Connection, client: _Client, *, first: bool) -> bool:
        """One request; whether the connection may serve another."""
        head = None
        try:
            head = connection.head(first=first)
            if head is None:
                return False
            lock = self._admit(head)
            body = connection.body(head)
            _check_sum(head, body)
        except Refusal as refusal:
            # The start of the next request is unknown.
            connection.answer(
                self._refuse(refusal), keep_alive=False, bodiless=head is not None and head.method == "HEAD"
            )
            connection.finish()
            return False
        answer = self._decide(client, head, lock, body)
        if answer is None:
            return False
        connection.answer(answer, keep_alive=head.keep_alive)
        return head.keep_alive

    def _admit(self, head: RequestHead) -> str | None:
        """Check password, address and method before the body is read; return the lock it names."""
        header = head.fields.get(b"authorization")
        if header is None:
            raise Refusal(401, "the request has no password")
        scheme, _, credentials = header.partition(b" ")
        if not compare_digest(credentials.strip(b" "), self._credentials) or scheme.lower() != b"basic":
            raise Refusal(403, "the request has a wrong password")
        path, _, query = head.target.partition("?")
        if path != _PATH:
            raise Refusal(403, "the request asks for another address")
        if head.method not in _METHODS:
            raise Refusal(405, "the local state backend supports only GET, POST, LOCK and UNLOCK")
        locks = [part[3:] for part in query.split("&") if part.startswith("ID=")]
        if len(locks) > 1:
            raise Refusal(400, "the request names two locks")
        return locks[0] if locks else None

    def _decide(self, client: _Client, head: RequestHead, lock: str | None, body: bytes) -> Response | None:
        """None where another state is served by now: the command of this request is over."""
        with self._deciding:
            if client.over:
                return None
            try:
                if self._rules is None:
                    raise Refusal(403, "the local state backend serves no state now")  # noqa: TRY301 - handled like any other
                return self._rules.answer(head.method, lock, body)
            except Refusal as refusal:
                return self._refuse(refusal)
            except Exception as error:  # noqa: BLE001 - any storage error is a fault, never "no state"
                return self._refuse(Refusal(500, f"the store failed: {_reason(error)}"))

    def _refuse(self, refusal: Refusal) -> Response:
        self._note(refusal.message)
        fields = [("Content-Type", "text/plain" if refusal.body is None else "application/json")]
        if refusal.status == 401:  # noqa: PLR2004 - the status that asks for a password
            fields.append(("WWW-Authenticate", 'Basic realm="state"'))
        elif refusal.status == 405:  # noqa: PLR2004 - the status that says what is allowed
            fields.append(("Allow", ", ".join(_METHODS)))
        body = refusal.message.encode() if refusal.body is None else refusal.body
        return Response(refusal.status, body, tuple(fields))

    def _note(self, reason: str) -> None:
        known = self.refusals
        if len(known) < _MOST_REFUSALS and (not known or known[-1] != reason):
            known.append(reason)


def _check_sum(head: RequestHead, body: bytes) -> None:
    """Compare the body with its Content-MD5, where there is one."""
    checksum = head.fields.get(b"content-md5")
    if checksum is not None and not matches_md5(md5_of(body), checksum):
        raise Refusal(400, "the request body does not match its Content-MD5")


def _reason(error: Exception) -> str:
    """What may be shown of a fault: our own message, the system's, or only the type of the error."""
    from holdfast.kernel.errors import HoldfastError  # noqa: PLC0415 - slow to import, and rarely needed

    if isinstance(error, HoldfastError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
