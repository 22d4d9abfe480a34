"""Where objects are kept: one file each in a directory, or behind the lab service.

Both keep the same promises: an object is a flat mapping with an `id` that never changes, fields that a caller
does not name are left as they are, and whatever goes wrong is a `StoreError` that can be shown to a user.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Protocol

LabObject = dict[str, Any]

_PATIENCE_SECONDS = 600
_REFUSED = 400
_GONE = 404


class StoreError(Exception):
    """Something the store could not do: one line that says what, and the text that says why."""

    def __init__(self, summary: str, detail: str) -> None:
        super().__init__(f"{summary}: {detail}")
        self.summary = summary
        self.detail = detail


class Store(Protocol):
    """What a resource needs. `read` answers None for an object that is gone; `delete` of one is no error."""

    def create(self, values: LabObject) -> LabObject: ...

    def read(self, object_id: str) -> LabObject | None: ...

    def update(self, object_id: str, values: LabObject) -> LabObject: ...

    def delete(self, object_id: str) -> None: ...

    def find(self, name: str) -> list[LabObject]: ...


def look_up(store: Store, key: str) -> LabObject:
    """The object whose id, or else whose name, is `key`; a name that two objects bear is refused."""
    found = store.read(key)
    return found if found is not None else the_one_named(store, key)


def the_one_named(store: Store, name: str) -> LabObject:
    named = store.find(name)
    if not named:
        raise StoreError("There is no such lab object", f'No object has the id or the name "{name}".')
    if len(named) > 1:
        ids = ", ".join(sorted(each["id"] for each in named))
        raise StoreError(
            "The name is not unique", f'{len(named)} objects are named "{name}"; use an id: {ids}.'
        )
    return named[0]


def new_id(name: str) -> str:
    """A name for a file that still shows which object it is, and that no other object has."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{readable or 'object'}-{os.urandom(5).hex()}"


class DirectoryStore:
    """Objects as `<id>.json`: easy to look at, to edit and to remove by hand, which is what drift is."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, values: LabObject) -> LabObject:
        made = {"id": new_id(str(values["name"])), **values}
        self._write(made)
        return made

    def read(self, object_id: str) -> LabObject | None:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", object_id):
            return None
        path = self._path(object_id)
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError("A lab object cannot be read", f"{path}: {error}") from error
        if not isinstance(found, dict):
            raise StoreError("A lab object cannot be read", f"{path}: it is not a JSON object.")
        return {**found, "id": object_id}

    def update(self, object_id: str, values: LabObject) -> LabObject:
        found = self.read(object_id)
        if found is None:
            raise StoreError("The lab object is gone", f"{self._path(object_id)} does not exist any more.")
        changed = {**found, **values, "id": object_id}
        self._write(changed)
        return changed

    def delete(self, object_id: str) -> None:
        try:
            self._path(object_id).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError("The lab object cannot be deleted", str(error)) from error

    def find(self, name: str) -> list[LabObject]:
        ids = [path.stem for path in self._directory.glob("*.json")]
        found = [self.read(each) for each in ids]
        return [each for each in found if each is not None and each.get("name") == name]

    def _path(self, object_id: str) -> Path:
        return self._directory / f"{object_id}.json"

    def _write(self, values: LabObject) -> None:
        path = self._path(values["id"])
        aside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise StoreError("The lab object cannot be written", str(error)) from error


class ServiceStore:
    """Objects behind service.py. Nothing is tried twice: what the service does is what Terraform sees."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def create(self, values: LabObject) -> LabObject:
        return self._object("create", "POST", "/objects", values)

    def read(self, object_id: str) -> LabObject | None:
        status, reason, text = self._call("GET", f"/objects/{_quoted(object_id)}")
        return None if status == _GONE else self._parsed("read", status, reason, text)

    def update(self, object_id: str, values: LabObject) -> LabObject:
        return self._object("update", "PUT", f"/objects/{_quoted(object_id)}", values)

    def delete(self, object_id: str) -> None:
        status, reason, text = self._call("DELETE", f"/objects/{_quoted(object_id)}")
        if status != _GONE:
            self._parsed("delete", status, reason, text)

    def find(self, name: str) -> list[LabObject]:
        status, reason, text = self._call("GET", f"/objects?name={_quoted(name)}")
        found: list[LabObject] = self._parsed("find", status, reason, text)["objects"]
        return found

    def tell_of_stop(self) -> None:
        self._call("POST", "/stops")

    def _object(self, operation: str, method: str, path: str, values: LabObject) -> LabObject:
        return self._parsed(operation, *self._call(method, path, values))

    def _call(self, method: str, path: str, values: LabObject | None = None) -> tuple[int, str, str]:
        # Imported here because most runs keep their objects in a directory, and start-up time counts.
        import http.client  # noqa: PLC0415
        from urllib.parse import urlsplit  # noqa: PLC0415

        parts = urlsplit(self._url)
        body = None if values is None else json.dumps(values).encode()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection = http.client.HTTPConnection(parts.netloc, timeout=_PATIENCE_SECONDS)
        try:
            connection.request(method, parts.path + path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.reason, answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            detail = f"{method} {self._url}{path}: {type(error).__name__}: {error}"
            raise StoreError("The lab service did not answer", detail) from error
        finally:
            connection.close()

    def _parsed(self, operation: str, status: int, reason: str, text: str) -> LabObject:
        if status >= _REFUSED:
            raise StoreError(f"The lab service refused to {operation}: {status} {reason}", text.strip())
        try:
            parsed: LabObject = json.loads(text or "{}")
        except ValueError as error:
            raise StoreError(f"The lab service answered {operation} with no JSON", str(error)) from error
        return parsed


def _quoted(text: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 (see ServiceStore._call)

    return quote(text, safe="")
