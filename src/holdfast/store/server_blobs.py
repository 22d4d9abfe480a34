"""The client of a run store on a Holdfast server: `store: https://…`.

The server encrypts, so a client holds no key. An answer can be lost after a write: each write carries a
random tag that it gets if it succeeds, so a repeated request recognises its own write. Only one answer of the
server means "absent". Client and server must speak the same version of the protocol.

The supervisor of Terraform uses it too, so the imports are few.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, cast
from urllib.parse import quote, urlencode

from holdfast import __version__
from holdfast.kernel.errors import Busy, Failed, HoldfastError, Refused, UnknownOutcome, UsageError
from holdfast.secrets.keys import CipherKey, derive
from holdfast.secrets.signing import Signer, public_half
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import LOST_LEASE, UNREADABLE, StoredBlob, encode_name
from holdfast.system import clock
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, HttpSession, Response
from holdfast.terraform.engine.environment import ALWAYS, ALWAYS_PREFIXES

PROTOCOL = "1"
"""Changes when an older client or server would misunderstand a newer one."""
PROTOCOL_FIELD = "holdfast-store-protocol"
TAG_FIELD = "holdfast-write-tag"
SIGNED_FIELD = "holdfast-signed"
ATTEMPT_FIELD = "holdfast-attempt"
ABSENT = "HF-STORE-20"
"""The code of the only answer that means "there is no such blob"."""
CHANGED = "HF-STORE-21"
"""The condition of a write is not met."""
_NO_ROUTE = "HF-SRV-11"
_API = "/api/v1/store"
_TRIES = 7
_FIRST_TRIES = 3
"""Until the server has answered once: its address may be wrong."""
_PAUSE = 0.2
_SILENT = 2.0
"""Seconds before a user hears that the server does not answer."""
_AHEAD = 1.0
"""Seconds for which an answer that was read ahead counts."""
_CLAIMS = "claims"
_OF_ONE = frozenset({"used", "runs"})
"""What is created there protects nothing else."""
_RETRIED = frozenset({429, 502, 503, 504})
_NOT_FOUND, _PRECONDITION_FAILED = 404, 412
_BAD, _UNAUTHORIZED, _FAULT = 400, 401, 500
_ERRORS: Mapping[int, type[HoldfastError]] = {403: Refused, 409: Refused, 423: Busy}
NO_KEY = "0" * 16
"""In place of the id of a key."""


SeveralBlobs = Mapping[str, StoredBlob | None]
SeveralNames = Mapping[str, tuple[str, ...]]


class Session(Protocol):
    """Answers requests: a server, or its routes in this process."""

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response: ...


class ServerBlobs:
    on_server = True

    def __init__(
        self,
        address: str,
        token: Callable[[], str],
        variables: Mapping[str, str],
        *,
        tries: int = _TRIES,
        source: str | None = None,
        session: Session | None = None,
    ) -> None:
        """`variables` name a proxy and certificates. The token is read with the first request.

        `source`: where it comes from, for messages. `session`: instead of requests over the network.
        """
        self._source = source
        self.shown = address.rstrip("/")
        self._variables = dict(variables)
        self._read_token = token
        self._token: str | None = None
        self._tries = tries
        self._reached = False
        self._waiting = False
        self.on_wait: Callable[[str], None] = lambda _: None
        """Hears that the server does not answer, after some seconds."""
        self._ahead: dict[str, tuple[float, Any]] = {}
        """What was read ahead, by name, and until when that counts. A folder ends with a slash."""
        try:
            self._session = session or HttpSession(self.shown, Environment(variables=self._variables))
        except HttpError as error:
            raise UsageError(
                "HF-STORE-1",
                f"the run store {error.host} is not a valid address: {error.reason}",
                hint="Write `store: https://HOST`; http:// is only for a server on this machine.",
            ) from None

    @classmethod
    def open(cls, address: str, environment: Environment) -> Self:
        """With the caller's token, and the variables for a proxy and certificates."""
        from holdfast.identity.client import token_for, token_source  # noqa: PLC0415 - the supervisor gets one

        shown = address.rstrip("/")
        variables = {
            name: value
            for name, value in environment.variables.items()
            if name in ALWAYS or name.startswith(ALWAYS_PREFIXES)
        }
        source = token_source(environment)
        return cls(shown, lambda: token_for(environment, shown), variables, source=source)

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        return cls(description["address"], lambda: description["token"], description["variables"])

    def description(self, token: str) -> dict[str, object]:
        """For another process, with a token of its own: only for a private channel."""
        return {"kind": "server", "address": self.shown, "token": token, "variables": self._variables}

    def read_ahead(self, wanted: Sequence[str]) -> None:
        """Ask once for what is read next: blobs, and the names below folders (with a slash at the end).

        An answer counts for a moment, until this process writes that name, takes the claim of its stack or a
        lease, or starts a command that may write.
        """
        missing = [name for name in wanted if self._answer(name) is None]
        if not missing:
            return
        blobs, folders = self._read_several(missing)
        until = clock.monotonic() + _AHEAD
        self._ahead.update({name: (until, found) for name, found in {**blobs, **folders}.items()})

    def _read_several(self, wanted: Sequence[str]) -> tuple[SeveralBlobs, SeveralNames]:
        answer = self.call("POST", "/reads", {"names": wanted})
        blobs = {name: _blob(blob) if blob is not None else None for name, blob in answer["blobs"].items()}
        return blobs, {folder: tuple(names) for folder, names in answer["folders"].items()}

    def _answer(self, name: str) -> tuple[Any] | None:
        """What was read ahead, which may be that there is nothing."""
        until, found = self._ahead.get(name, (0.0, None))
        return (found,) if clock.monotonic() < until else None

    def forget_stack(self, stack: str) -> None:
        """Another process is about to write: nothing that was read before counts after it."""
        for known in tuple(self._ahead):
            if known.endswith("/") or encode_name(stack) in known.split("/"):
                self._ahead.pop(known, None)

    def _forget_before(self, created: str) -> None:
        """Who holds a claim or a lease sees what others wrote before."""
        folder, _, stack = created.partition("/")
        if folder in _OF_ONE:
            return
        for known in tuple(self._ahead):
            rest = known.partition("/")[2]
            if folder != _CLAIMS or not rest or stack in rest.split("/"):
                self._ahead.pop(known, None)

    def _forget(self, name: str) -> None:
        for known in tuple(self._ahead):
            if known == name or (known.endswith("/") and name.startswith(known)):
                self._ahead.pop(known, None)

    def read(self, name: str) -> StoredBlob | None:
        if (ahead := self._answer(name)) is not None:
            return cast("StoredBlob | None", ahead[0])
        return self._read(name)

    def _read(self, name: str) -> StoredBlob | None:
        response, _ = self._send("GET", _path(name), expected=(_NOT_FOUND,))
        return _stored(response) if response.status != _NOT_FOUND else None

    def create(self, name: str, data: bytes) -> bool:
        self._forget_before(name)
        return self._put(name, data, {"If-None-Match": "*"}) is not None

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self._put(name, data, {"If-Match": f'"{tag}"'})

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """A delayed write can still arrive after a later one."""
        self._put(name, data, {}, query="" if durable else "?durable=false")

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """Absent after a lost answer means removed."""
        self._forget(name)
        headers = {"If-Match": f'"{tag}"'} if tag is not None else {}
        response, tries = self._send(
            "DELETE", _path(name), headers=headers, expected=(_NOT_FOUND, _PRECONDITION_FAILED)
        )
        if response.status == _NOT_FOUND:
            return tries > 1
        return response.status != _PRECONDITION_FAILED

    def names(self, folder: str) -> tuple[str, ...]:
        if (ahead := self._answer(f"{folder}/")) is not None:
            return tuple(ahead[0])
        return self._names(folder)

    def _names(self, folder: str) -> tuple[str, ...]:
        names: list[str] = []
        after: str | None = ""
        while after is not None:
            page = self.call("GET", f"/names?{urlencode({'folder': folder, 'cursor': after})}")
            names += page["names"]
            after = page["next"]
        return tuple(names)

    def call(self, method: str, path: str, document: Mapping[str, object] | None = None) -> dict[str, Any]:
        """A typed request. One that is repeated must change nothing more."""
        body = json.dumps(document).encode() if document is not None else None
        headers = {"Content-Type": "application/json"} if body is not None else {}
        response, _ = self._send(method, path, headers=headers, body=body)
        answer: dict[str, Any] = json.loads(response.body) if response.body else {}
        return answer

    def _put(self, name: str, data: bytes, condition: Mapping[str, str], query: str = "") -> str | None:
        self._forget(name)
        mark = clock.random_token()
        headers = {"Content-Type": "application/octet-stream", TAG_FIELD: mark, **condition}
        response, tries = self._send(
            *("PUT", _path(name) + query), headers=headers, body=data, expected=(_PRECONDITION_FAILED,)
        )
        if response.status != _PRECONDITION_FAILED:
            return _tag(response)
        current = self.read(name) if tries > 1 else None
        return mark if current is not None and current.tag == mark else None

    def _send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        expected: tuple[int, ...] = (),
    ) -> tuple[Response, int]:
        """A successful or an expected answer, and how often the request was sent."""
        tries, began = 0, clock.monotonic()
        while True:
            tries += 1
            fields = {**self._fields(), ATTEMPT_FIELD: str(tries), **(headers or {})}
            try:
                response = self._session.request(method, _API + path, headers=fields, body=body)
            except HttpError as error:
                most = self._tries if self._reached else min(self._tries, _FIRST_TRIES)
                if error.final or (tries >= most and not error.stale):
                    raise self._unreachable(error.reason, tries, error.hint) from None
                if not error.stale:
                    self._tell_waiting(began, error.reason)
                    clock.pause(_PAUSE * 2**tries * clock.chance())
                continue
            self._reached = True
            if response.status in _RETRIED and tries < self._tries:
                self._tell_waiting(began, f"it answered {response.status}")
                clock.pause(max(_PAUSE * 2**tries * clock.chance(), _retry_after(response)))
                continue
            self._waiting = False
            if response.status in expected and _is_ours(response):
                return response, tries
            if response.status >= _BAD:
                raise self._refused(response)
            if response.headers.get(PROTOCOL_FIELD) != PROTOCOL:
                raise self._mismatch(response)
            return response, tries

    def _tell_waiting(self, began: float, reason: str) -> None:
        """Once, until it answers again."""
        if not self._waiting and clock.monotonic() - began >= _SILENT:
            self._waiting = True
            self.on_wait(f"waiting for the server {self.shown}: {reason}")

    def _fields(self) -> dict[str, str]:
        if self._token is None:
            self._token = self._read_token()
        return {
            "Authorization": f"Bearer {self._token}",
            "User-Agent": f"holdfast/{__version__}",
            "Accept-Encoding": "identity",
            PROTOCOL_FIELD: PROTOCOL,
        }

    def _mismatch(self, response: Response) -> HoldfastError:
        version = response.headers.get("holdfast-version")
        if version is None:
            return self._unreachable(f"it answered {response.status}, but not as a Holdfast server", 1)
        return UsageError(
            "HF-STORE-22",
            f"the server {self.shown} runs Holdfast {version}, which cannot serve as run store for Holdfast "
            f"{__version__}",
            hint=f"Install Holdfast {version} here, or upgrade the server.",
        )

    def _refused(self, response: Response) -> HoldfastError:
        try:
            problem = json.loads(response.body)
            code, message, hint = str(problem["code"]), str(problem["message"]), problem.get("hint")
        except (ValueError, KeyError, TypeError):
            return self._unreachable(f"it answered {response.status} without saying why", 1)
        if code == _NO_ROUTE:
            return self._mismatch(response)
        if response.status == _UNAUTHORIZED and code != LOST_LEASE:
            from holdfast.identity.client import token_hint  # noqa: PLC0415

            source = self._source
            message = f"the server {self.shown} refused the token of {source or 'this run'}: {message}"
            hint = token_hint(self.shown, source) if source else "Its lease has ended: holdfast runs list"
        fault = UnknownOutcome if code == UNREADABLE else Failed
        kind = _ERRORS.get(response.status) or (fault if response.status >= _FAULT else UsageError)
        return kind(code, message, hint=hint)

    def _unreachable(self, reason: str, tries: int, hint: str | None = None) -> HoldfastError:
        after = f" (tried {tries} times)" if tries > 1 else ""
        return Failed(
            "HF-STORE-5",
            f"cannot reach the run store {self.shown}{after}: {reason}",
            hint=hint or f"Check that the server runs: {self.shown}/readyz. Then try again.",
        )


class ServerCipher(BlobCipher):
    """Where the store is a server: it encrypts and signs, and blobs pass unchanged.

    Only a journal is encrypted here, because it waits on the disk of this machine until it has arrived: with
    the key of its run, which the server creates and keeps (`runs/RUN/key`).
    """

    def __init__(self, store: str, run_key: Callable[[str], bytes]) -> None:
        super().__init__(store, NO_KEY, verify=public_half(bytes(32)), signer=None)
        self._run_key = run_key

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ServerCipher:
        keys = {run: base64.b64decode(key) for run, key in document["runs"].items()}
        return cls(document["store"], keys.__getitem__)

    def encrypt(self, name: str, data: bytes, *, sign: bool = True) -> bytes:
        del name, sign
        return data

    def decrypt(self, name: str, encrypted: bytes, *, what: str) -> tuple[bytes, bool]:
        """Whether it is signed is known to the blob, from the server."""
        del name, what
        return encrypted, False

    def scope_key(self, scope: str) -> CipherKey:
        raise AssertionError(f"a client has no key of {scope}")

    def of_journal(self, run: str) -> BlobCipher:
        secret = self._run_key(run)
        sign = derive(secret, purpose=b"sign")
        return BlobCipher(
            self.store,
            NO_KEY,
            scopes={f"runs/{run}": secret},
            verify=public_half(sign),
            signer=Signer(self.store, sign),
        )


def _path(name: str) -> str:
    return f"/blobs/{quote(name)}"


def _stored(response: Response) -> StoredBlob:
    signed = response.headers.get(SIGNED_FIELD) == "1"
    return StoredBlob(data=response.body, tag=_tag(response), signed=signed)


def _blob(document: Mapping[str, Any]) -> StoredBlob:
    data = base64.b64decode(document["data"])
    return StoredBlob(data=data, tag=document["tag"], signed=document["signed"])


def _tag(response: Response) -> str:
    return response.headers.get("etag", "").strip('"')


def _is_ours(response: Response) -> bool:
    """A proxy answers 404 too."""
    return f'"{ABSENT}"'.encode() in response.body or f'"{CHANGED}"'.encode() in response.body


def _retry_after(response: Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), 10.0) if text.isdigit() else 0.0
