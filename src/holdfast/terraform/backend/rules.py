"""The rules of the local state backend: they keep a state from being lost, forked or overwritten.

The rules apply to one command: they know which lock it took and which it released last. A `StateBackend` only
stores. Terraform repeats any request that got a 5xx response, so every request may arrive twice.

Plain classes and few imports, for the reason given in `backend/http.py`.
"""

from __future__ import annotations

import binascii
import hashlib
import json

from holdfast.terraform.backend.http import Refusal, Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol
else:
    # Loading `typing` would cost every worker three milliseconds.
    Protocol = object

_STATE_VERSION = 4
_JSON = (("Content-Type", "application/json"),)
_LONGEST_SERIAL = 2**64
_UNKNOWN_HOLDER = {
    "ID": "unknown",
    "Operation": "",
    "Info": "",
    "Who": "unknown",
    "Version": "",
    "Created": "0001-01-01T00:00:00Z",
    "Path": "",
}


class StateBackend(Protocol):
    """Stores the state that is served during one command.

    Anything but a `Refusal` that a method raises is a storage fault: Terraform gets a 500 and tries again.
    """

    def read(self) -> bytes | None:
        """The state as it was written; None only where there is no state."""

    def write(self, state: bytes, header: StateHeader) -> None:
        """Append a version, durably; it was checked before. When this returns, the state is safe."""

    def lock(self, info: bytes) -> bytes | None:
        """None: locked for us now. Otherwise the LockInfo of the holder. The holder may ask again."""

    def unlock(self, info: bytes) -> None:
        """Release the lock that `lock` took with this info, and no other.

        A repeat after a fault may find the lock free or held by another: both are fine.
        """


class StateHeader:
    """What the rules read in a state: its place in the sequence of versions."""

    __slots__ = ("empty", "lineage", "managed", "serial")

    def __init__(self, *, serial: int, lineage: str, empty: bool, managed: int | None) -> None:
        self.serial = serial
        self.lineage = lineage
        self.empty = empty
        """It holds neither resources nor outputs. An encrypted state counts as holding some."""
        self.managed = managed
        """How many managed resources it holds, deposed ones included. None: it is encrypted, or stored."""


class StateRules:
    """The rules for one command."""

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend
        self._held: tuple[str, bytes] | None = None
        self._releasing: tuple[str, bytes] | None = None
        """A lock that is being released: no state is saved with it any more, whether it is free or not."""
        self._released: str | None = None

    def answer(self, method: str, lock: str | None, body: bytes) -> Response:
        """The response to one request, or a `Refusal`. Any other exception is a storage fault."""
        if method == "GET":
            return self._read()
        if method == "POST":
            return self._write(lock, body)
        if method == "LOCK":
            return self._lock(body)
        if method == "UNLOCK":
            return self._unlock(body)
        # Versions are only ever added, so DELETE is not supported.
        raise Refusal(405, "the local state backend supports only GET, POST, LOCK and UNLOCK")

    def _read(self) -> Response:
        state = self._stored()
        # Terraform keeps the connection only after a 404 without a body.
        return Response(404) if state is None else Response(200, state, _JSON)

    def _stored(self) -> bytes | None:
        state = self._backend.read()
        if state is not None and not state.strip():
            # Terraform would take it for "no state", and plan to create everything again.
            raise Refusal(500, "the stored state is empty")
        return state

    def _lock(self, info: bytes) -> Response:
        wanted = lock_id(info)
        if wanted is None:
            raise Refusal(400, "the lock request has no lock ID")
        if self._held is None:
            holder = self._backend.lock(info)
            if holder is not None and lock_id(holder) != wanted:
                raise locked_by(holder)
            self._held, self._releasing = (wanted, info), None
        elif self._held[0] != wanted:
            raise locked_by(self._held[1])
        return Response(200)

    def _unlock(self, info: bytes) -> Response:
        if not info.strip():
            raise Refusal(409, "the local state backend does not support force-unlock")
        lock = lock_id(info)
        if lock is None:
            raise Refusal(400, "the unlock request has no lock ID")
        if self._held is not None and self._held[0] == lock:
            self._held, self._releasing = None, self._held
        if self._releasing is not None and self._releasing[0] == lock:
            self._backend.unlock(self._releasing[1])
            self._releasing, self._released = None, lock
        elif lock != self._released:
            raise Refusal(409, "the unlock request names a lock that this command does not hold")
        return Response(200)

    def _write(self, lock: str | None, body: bytes) -> Response:
        """A write without a lock (`-lock=false`) is refused too."""
        if self._held is None:
            raise Refusal(409, "Terraform tried to save a state without a lock")
        if lock != self._held[0]:
            refusal = locked_by(self._held[1])
            refusal.message = "Terraform tried to save a state with a lock that is not held"
            raise refusal
        try:
            new = read_header(body)
        except ValueError as error:
            raise Refusal(400, f"Terraform tried to save something that is not a state: {error}") from None
        stored = self._stored()
        if stored == body:
            return Response(200)  # The response to the first attempt was lost; the state was saved.
        if stored is not None:
            try:
                require_successor(new, read_header(stored, posted=False))
            except ValueError as error:
                raise Refusal(500, f"the stored state cannot be read: {error}") from None
        self._backend.write(body, new)
        return Response(200)


def require_successor(new: StateHeader, stored: StateHeader) -> None:
    """Refuse a new version of another lineage, or one that does not come after the stored one.

    A stored state without a lineage predates lineages. An empty state may be followed by another lineage, as
    in Terraform itself; serials only increase all the same.
    """
    if stored.lineage and new.lineage != stored.lineage and not stored.empty:
        raise Refusal(409, "the new state has a different lineage than the stored one")
    if new.serial < stored.serial:
        raise Refusal(
            409, f"the new state is older (serial {new.serial}) than the stored one (serial {stored.serial})"
        )
    if new.serial == stored.serial:
        raise Refusal(
            409, f"the new state has the serial of the stored one ({stored.serial}) and different content"
        )


def read_header(state: bytes | dict[str, Any], *, posted: bool = True) -> StateHeader:
    """Read a state of format 4, or the unencrypted part of one that OpenTofu encrypted.

    What Terraform posts must be one of the two and have a lineage. What is stored may be older: it was
    adopted, and Terraform upgrades it to format 4 with the next save. Raises ValueError with the reason.

    The state may be decoded; attributes and outputs are not looked at.
    """
    document = _object(state) if isinstance(state, bytes) else state
    version, serial, lineage = document.get("version"), document.get("serial"), document.get("lineage")
    encrypted = "version" not in document and isinstance(document.get("encrypted_data"), str)
    if posted and not encrypted and not (isinstance(version, int) and version == _STATE_VERSION):
        raise ValueError("it is neither of format 4 nor encrypted")
    if not isinstance(serial, int) or isinstance(serial, bool) or not 0 <= serial < _LONGEST_SERIAL:
        raise ValueError("it has no serial")
    if not isinstance(lineage, str):
        if posted or lineage is not None:
            raise ValueError("it has no lineage")
        lineage = ""
    if posted and not lineage:
        raise ValueError("it has no lineage")
    empty = version == _STATE_VERSION and not document.get("resources") and not document.get("outputs")
    managed = _managed(document) if posted and not encrypted else None
    return StateHeader(serial=serial, lineage=lineage, empty=empty, managed=managed)


def _managed(document: dict[str, Any]) -> int:
    count = 0
    for resource in _objects(document.get("resources")):
        if not all(isinstance(resource.get(key), str) for key in ("mode", "type", "name")):
            raise ValueError("its resources have no names")
        instances = _objects(resource.get("instances"))
        count += len(instances) if resource["mode"] == "managed" else 0
    return count


def _objects(value: object) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("its resources cannot be read")
    return value


def matches_md5(md5: bytes, checksum: bytes) -> bool:
    """Whether a Content-MD5 is the one of the body that has this MD5."""
    try:
        return binascii.a2b_base64(checksum, strict_mode=True) == md5
    except ValueError:
        return False


def md5_of(body: bytes) -> bytes:
    return hashlib.md5(body, usedforsecurity=False).digest()


def lock_id(info: bytes) -> str | None:
    try:
        id_ = _object(info).get("ID")
    except ValueError:
        return None
    return id_ if isinstance(id_, str) and id_ else None


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object as Terraform would read it: UTF-8, and nothing but JSON's own numbers."""
    try:
        document = json.loads(text.decode(), parse_constant=_not_json)
    except (ValueError, RecursionError):
        # The original message would quote the text.
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the text is wrong, not the caller
    return document


def _not_json(constant: str) -> None:
    raise ValueError(constant)


def complete_info(info: bytes) -> bytes:
    """LockInfo with every field that Terraform shows to those who wait."""
    known = _object(info)
    return info if known.keys() >= _UNKNOWN_HOLDER.keys() else json.dumps(_UNKNOWN_HOLDER | known).encode()


def locked_by(holder: bytes) -> Refusal:
    """Always with a whole LockInfo: without an ID in it, Terraform does not wait for the lock."""
    known: dict[str, object] = {}
    if lock_id(holder) is None:
        holder = json.dumps(_UNKNOWN_HOLDER).encode()
    else:
        known = _object(holder)
    who = _short(known.get("Who")) or "an unknown holder"
    doing = "".join(
        f", {_short(known.get(key))}" for key in ("Operation", "Created") if _short(known.get(key))
    )
    return Refusal(423, f"the state is locked by {who}{doing}", body=holder)


def _short(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return "".join(letter if letter.isprintable() else "?" for letter in value[:100])
