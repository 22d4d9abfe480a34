"""The rules of the local state backend: they keep a state from being lost, forked or overwritten.

The rules apply to one command: they know which lock it took and which it released last. A `StateBackend` only
stores. Terraform repeats any request that got a 5xx response, so every request may arrive twice.

Plain classes and few imports, for the reason given in `backend/http.py`.
"""

from __future__ import annotations

import json

from holdfast.terraform.backend.http import Refusal, Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    # Loading `typing` costs a warm process some three milliseconds for nothing.
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
    """Where the state lies that the door stands for during one command.

    Whatever any of these raises, but a `Refusal`, is a storage fault: Terraform is told 500 and asks again.
    """

    def read(self) -> bytes | None:
        """The state as it was written; None only where there really is none."""

    def write(self, state: bytes) -> None:
        """Append a version, durably. When this returns, the state is safe; the door has checked it."""

    def lock(self, info: bytes) -> bytes | None:
        """None: it is locked for us now. Else the LockInfo of who holds it. The holder may ask again."""

    def unlock(self, info: bytes) -> None:
        """Give back what `lock` took with this info, and no other's.

        Asked again after a fault it may find the lock free, or another's: it is well either way.
        """


class StateHeader:
    """What the rules look at in a state: where it stands in the line of its versions."""

    __slots__ = ("empty", "lineage", "serial")

    def __init__(self, *, serial: int, lineage: str, empty: bool) -> None:
        self.serial = serial
        self.lineage = lineage
        self.empty = empty
        """It surely holds neither resources nor outputs. An encrypted one counts as holding some."""


class StateRules:
    """The door's side of one command."""

    def __init__(self, keeper: StateBackend) -> None:
        self._keeper = keeper
        self._held: tuple[str, bytes] | None = None
        self._leaving: tuple[str, bytes] | None = None
        """A lock that is being given back: nothing is saved with it any more, whether it is free or not."""
        self._released: str | None = None

    def answer(self, method: str, lock: str | None, body: bytes) -> Response:
        """The answer to one request, or a `Refusal`. What else is raised is the keeper's fault."""
        if method == "GET":
            return self._read()
        if method == "POST":
            return self._write(lock, body)
        if method == "LOCK":
            return self._lock(body)
        if method == "UNLOCK":
            return self._unlock(body)
        # Versions are only ever added: there is nothing that DELETE could mean here.
        raise Refusal(405, "the door reads, writes, locks and unlocks; it does nothing else")

    def _read(self) -> Response:
        state = self._kept()
        return Response(404, b"there is no state yet") if state is None else Response(200, state, _JSON)

    def _kept(self) -> bytes | None:
        state = self._keeper.read()
        if state is not None and not state.strip():
            # Terraform would take it for "no state", and plan to make everything again.
            raise Refusal(500, "the kept state is empty")
        return state

    def _lock(self, info: bytes) -> Response:
        wanted = lock_id(info)
        if wanted is None:
            raise Refusal(400, "a lock was asked for without saying for whom")
        if self._held is None:
            holder = self._keeper.lock(info)
            if holder is not None and lock_id(holder) != wanted:
                raise _locked(holder)
            self._held, self._leaving = (wanted, info), None
        elif self._held[0] != wanted:
            raise _locked(self._held[1])
        return Response(200)

    def _unlock(self, info: bytes) -> Response:
        if not info.strip():
            raise Refusal(409, "a lock is not taken from its holder by force through the door")
        given = lock_id(info)
        if given is None:
            raise Refusal(400, "a lock was given back without saying which")
        if self._held is not None and self._held[0] == given:
            self._held, self._leaving = None, self._held
        if self._leaving is not None and self._leaving[0] == given:
            self._keeper.unlock(self._leaving[1])
            self._leaving, self._released = None, given
        elif given != self._released:
            raise Refusal(409, "a lock was given back that was not taken through the door")
        return Response(200)

    def _write(self, lock: str | None, body: bytes) -> Response:
        """No command writes without a lock unless it is told to (`-lock=false`), and that is refused too."""
        if self._held is None:
            raise Refusal(409, "a state was to be saved without a lock")
        if lock != self._held[0]:
            refusal = _locked(self._held[1])
            refusal.message = "a state was to be saved with another lock than the one that is held"
            raise refusal
        try:
            new = read_header(body)
        except ValueError as error:
            raise Refusal(400, f"what was to be saved is not a state: {error}") from None
        kept = self._kept()
        if kept == body:
            return Response(200)  # The answer to the first try was lost; it was saved.
        if kept is not None:
            try:
                require_successor(new, read_header(kept, posted=False))
            except ValueError as error:
                raise Refusal(500, f"the kept state cannot be read: {error}") from None
        self._keeper.write(body)
        return Response(200)


def require_successor(new: StateHeader, kept: StateHeader) -> None:
    """A new version is of the same line and stands after the kept one; else a `Refusal`.

    A kept state without a lineage comes from before there were any. One that holds nothing may be followed
    by another line, as in Terraform itself; serials only grow all the same.
    """
    if kept.lineage and new.lineage != kept.lineage and not kept.empty:
        raise Refusal(409, "the state to be saved is of another lineage than the kept one")
    if new.serial < kept.serial:
        raise Refusal(
            409, f"the state to be saved is older (serial {new.serial}) than the kept one ({kept.serial})"
        )
    if new.serial == kept.serial:
        raise Refusal(
            409, f"the state to be saved has the serial of the kept one ({kept.serial}) and is another"
        )


def read_header(state: bytes, *, posted: bool = True) -> StateHeader:
    """Read from a state of format 4, or from the clear part of one that OpenTofu encrypted.

    What is posted must be one of the two and name its lineage. What is kept may be older: it was taken over,
    and Terraform brings it to format 4 with the next save. ValueError says what is wrong.
    """
    document = _object(state)
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
    return StateHeader(serial=serial, lineage=lineage, empty=empty)


def lock_id(info: bytes) -> str | None:
    try:
        found = _object(info).get("ID")
    except ValueError:
        return None
    return found if isinstance(found, str) and found else None


def _object(text: bytes) -> dict[str, object]:
    """A JSON object as Terraform would read it: UTF-8, and nothing but JSON's own numbers."""
    try:
        document = json.loads(text.decode(), parse_constant=_not_json)
    except (ValueError, RecursionError):
        # Their own words would quote the text.
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the text is wrong, not the caller
    return document


def _not_json(constant: str) -> None:
    raise ValueError(constant)


def _locked(holder: bytes) -> Refusal:
    """Always with a holder's whole LockInfo: without an ID in it, Terraform does not wait for its turn."""
    known: dict[str, object] = {}
    if lock_id(holder) is None:
        holder = json.dumps(_UNKNOWN_HOLDER).encode()
    else:
        known = _object(holder)
    who = _short(known.get("Who")) or "somebody unknown"
    doing = "".join(
        f", {_short(known.get(key))}" for key in ("Operation", "Created") if _short(known.get(key))
    )
    return Refusal(423, f"the state is locked by {who}{doing}", body=holder)


def _short(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return "".join(letter if letter.isprintable() else "?" for letter in value[:100])
