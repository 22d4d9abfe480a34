"""A state on the server, as its clients use it: versions, differences, locks, and writes under its lock."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from holdfast import __version__
from holdfast.identity.client import ServerClient
from holdfast.kernel.errors import Busy, Failed, HoldfastError, UsageError
from holdfast.kernel.text import json_object, plural
from holdfast.states.versions import CURRENT, LoadedVersion, VersionInfo, Versions
from holdfast.system import clock, http
from holdfast.terraform.statefile.diff import StateDiff

_API = "/api/v1/states"
_SERIAL = "serial:"
_OK, _NOT_FOUND, _LOCKED = 200, 404, 423
_NO_STATE = "HF-STATE-55"


class ServerVersion(VersionInfo, frozen=True, kw_only=True):
    number: int
    digest: str
    """SHA-256 of its content."""
    size: int
    pinned: str | None
    purged: str | None
    secrets: int | None
    """How many attributes contain secrets; None: not scanned."""

    @property
    def note(self) -> str:
        notes = [f"{plural(self.secrets, 'attribute')} with secrets"] if self.secrets else []
        notes += [f"purged by {self.purged}"] if self.purged else []
        notes += [f"pinned: {self.pinned}"] if self.pinned else []
        return ", ".join(notes)


def list_states(client: ServerClient, *, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Those that exist, as the server describes them."""
    return (state for state in client.pages(_API, "states", name=name) if state["deleted"] is None)


def allow_unlocked_writes(client: ServerClient, name: str, *, allowed: bool) -> None:
    client.send("POST", f"{_API}/settings", {"name": name, "unlocked_writes": allowed})


class ServerState:
    def __init__(self, client: ServerClient, name: str) -> None:
        self.client = client
        self.name = name

    @functools.cached_property
    def info(self) -> dict[str, Any]:
        for state in list_states(self.client, name=self.name):
            return state
        raise UsageError(
            "HF-STATE-51",
            f"there is no state {self.name} on {self.client.url}",
            hint="List the states: holdfast state list",
        )

    @functools.cached_property
    def entries(self) -> tuple[ServerVersion, ...]:
        """Newest first."""
        return tuple(map(_version, self.client.pages(f"{self._path}/versions", "versions")))

    def versions(self) -> Versions:
        current = next((entry for entry in self.entries if entry.current), None)
        return Versions(managed=True, entries=self.entries, current=current)

    def version(self, wanted: str | None) -> ServerVersion:
        """By its number or `serial:N`; by default the current one."""
        for entry in self.entries:
            serial = f"{_SERIAL}{entry.serial}"
            if entry.current if wanted in (None, CURRENT) else wanted in (entry.name, serial):
                return entry
        raise UsageError(
            "HF-STATE-20",
            f"{self.name}: there is no version {wanted} of its state" if wanted else f"{self.name} is empty",
            hint=f"List the versions: holdfast state versions --state {self.name}",
        )

    def load(self, wanted: str | None) -> LoadedVersion:
        entry = self.version(wanted)
        response = self.client.exchange("GET", f"{self._path}/versions/{entry.number}/content")
        if response.status != _OK:
            raise self.client.error_of(response)
        if hashlib.sha256(response.body).hexdigest() != entry.digest:
            raise Failed(
                "HF-STATE-60",
                f"version {entry.name} of {self.name} did not arrive as it is stored",
                hint="Try again; then check what is between here and the server.",
            )
        return LoadedVersion(entry=entry, content=response.body)

    def diff(self, before: str | None, after: str | None) -> tuple[VersionInfo, VersionInfo, StateDiff]:
        """The server compares and masks; by default the current version with the one before it."""
        new = self.version(after)
        if before is None:
            older = [entry for entry in self.entries if entry.number < new.number and not entry.purged]
            if not older:
                raise UsageError(
                    "HF-STATE-23",
                    f"{self.name} has no earlier version to compare with",
                    hint=f"List the versions: holdfast state versions --state {self.name}",
                )
            before = older[0].name
        old = self.version(before)
        query = urlencode({"from": old.number, "to": new.number})
        return old, new, msgspec.convert(self.client.send("GET", f"{self._path}/diff?{query}"), StateDiff)

    def secrets(self, version: ServerVersion) -> list[dict[str, Any]] | None:
        """Attributes that contain some; None: OpenTofu encrypted the state."""
        found = self.client.send("GET", f"{self._path}/versions/{version.number}/secrets")["secrets"]
        return list(found) if found is not None else None

    def rollback(self, version: ServerVersion, reason: str) -> ServerVersion:
        return _version(self._post("rollback", version=version.number, reason=reason))

    def pin(self, version: ServerVersion, reason: str | None) -> ServerVersion:
        return _version(self._post(f"versions/{version.number}/pin", reason=reason))

    def purge(self, version: ServerVersion, reason: str) -> ServerVersion:
        return _version(self._post(f"versions/{version.number}/purge", reason=reason))

    def lock(self) -> dict[str, Any]:
        """Who holds it and who waits for it."""
        return self.client.send("GET", f"{self._path}/lock")

    def unlock(self, id_: str, reason: str) -> None:
        self._post("unlock", id=id_, reason=reason)

    def content(self) -> bytes | None:
        """The current state, as Terraform reads it; None if there is none."""
        response = self._protocol("GET")
        absent = (
            json_object(response.body).get("code") == _NO_STATE if response.status == _NOT_FOUND else False
        )
        if response.status != _OK and not absent:
            raise self._refused(response)
        return None if absent else response.body

    @contextmanager
    def hold_lock(self, operation: str, who: str) -> Iterator[str]:
        """As Terraform does it. The lock's id."""
        info = {
            "ID": clock.new_id(),
            "Operation": operation,
            "Info": f"holdfast {operation}",
            "Who": who,
            "Version": __version__,
            "Created": clock.now().isoformat(),
            "Path": "",
        }
        body = json.dumps(info).encode()
        self._require(self._protocol("LOCK", body))
        try:
            yield str(info["ID"])
        finally:
            self._require(self._protocol("UNLOCK", body))

    def write(self, content: bytes, *, lock: str, why: str) -> ServerVersion:
        """Under the lock. What is stored afterwards is compared with what was sent."""
        self._require(self._protocol("POST", content, ID=lock, why=why))
        for stale in ("info", "entries"):
            self.__dict__.pop(stale, None)
        written = self.version(CURRENT)
        if written.digest != hashlib.sha256(content).hexdigest():
            raise Failed(
                "HF-STATE-60",
                f"{self.name}: the server stored another state than the one that was sent",
                hint=f"Look at its versions: holdfast state versions --state {self.name}",
            )
        return written

    @property
    def _path(self) -> str:
        return f"{_API}/{quote(self.info['id'], safe='')}"

    def _post(self, path: str, **document: object) -> dict[str, Any]:
        return self.client.send("POST", f"{self._path}/{path}", document)

    def _protocol(self, method: str, body: bytes | None = None, **query: str) -> http.Response:
        md5 = hashlib.md5(body or b"", usedforsecurity=False).digest()
        headers = {"Content-MD5": base64.b64encode(md5).decode()} if body else {}
        path = f"/state/{quote(self.name)}{'?' + urlencode(query) if query else ''}"
        return self.client.exchange(method, path, body, headers=headers)

    def _require(self, response: http.Response) -> None:
        if response.status != _OK:
            raise self._refused(response)

    def _refused(self, response: http.Response) -> HoldfastError:
        if response.status != _LOCKED:
            return self.client.error_of(response)
        holder: Mapping[str, Any] = json_object(response.body)
        return Busy(
            "HF-STATE-45",
            f"{self.name} is locked by {holder.get('Who') or 'another client'} "
            f"({holder.get('Operation') or 'unknown operation'}, since {holder.get('Created') or '?'})",
            hint=f"Wait for it, or look at it: holdfast state locks --state {self.name}",
        )


def _version(document: Mapping[str, Any]) -> ServerVersion:
    return msgspec.convert(
        {**document, "name": str(document["number"]), "at": document["written"]}, ServerVersion
    )
