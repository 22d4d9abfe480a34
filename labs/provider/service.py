"""A small HTTP service that keeps lab objects in memory and misbehaves when told to. Loopback only.

    POST   /objects        make one              GET    /made     every id ever made
    GET    /objects        all, or ?name=        DELETE /made     forget them
    GET    /objects/ID     one
    PUT    /objects/ID     change fields         and what every simulator has: calls, faults and
    DELETE /objects/ID     remove                release (labs/simulator.py)

A test uses `LabService` as a context manager and tells it directly; another process uses the endpoints.
`python labs/provider/service.py --port 0` prints the address and serves until it is interrupted.
"""

from __future__ import annotations

import secrets
import sys
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from simulator import Answer, Call, Fault, Request, Simulator, serve

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Answer", "Call", "Fault", "LabService"]

Operation = Literal["create", "read", "update", "delete", "find"]

_OPERATIONS: dict[tuple[str, bool], Operation] = {
    ("POST", False): "create",
    ("GET", False): "find",
    ("GET", True): "read",
    ("PUT", True): "update",
    ("DELETE", True): "delete",
}


class LabService(Simulator):
    name: ClassVar = "lab"
    operations: ClassVar = frozenset(get_args(Operation))

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._objects: dict[str, dict[str, Any]] = {}
        self._made: dict[str, list[str]] = {}
        self.stops = 0
        """How often a provider heard from Terraform that it was interrupted."""

    def objects(self) -> dict[str, dict[str, Any]]:
        """Every object by its id, as a copy."""
        with self._lock:
            return {each: dict(values) for each, values in self._objects.items()}

    def made(self) -> dict[str, list[str]]:
        """Every id that was ever made, by name and in order, of objects that are gone too."""
        with self._lock:
            return {name: list(ids) for name, ids in self._made.items()}

    def forget_made(self) -> None:
        with self._lock:
            self._made.clear()

    def note_stop(self) -> None:
        with self._lock:
            self.stops += 1

    def put(self, object_id: str, values: dict[str, Any]) -> None:
        """Make or change an object behind everyone's back: drift."""
        with self._lock:
            self._objects[object_id] = {**self._objects.get(object_id, {}), **values, "id": object_id}

    def remove(self, object_id: str) -> None:
        """Take an object away behind everyone's back."""
        with self._lock:
            del self._objects[object_id]

    def respond(self, request: Request) -> Answer:
        if request.path[:1] == ("objects",):
            object_id = "/".join(request.path[1:]) or None
            operation = _OPERATIONS.get((request.method, object_id is not None))
            if operation is not None:
                name = request.body.get("name") if operation == "create" else request.query.get("name")
                return self.answer(
                    operation, object_id=object_id, name=name, values=request.body, gone=request.gone
                )
        return super().respond(request)

    def controls(self, request: Request) -> dict[tuple[str, str], Callable[[], Any]]:
        return {
            **super().controls(request),
            ("GET", "made"): lambda: {"made": self.made()},
            ("DELETE", "made"): self.forget_made,
            ("POST", "stops"): self.note_stop,
        }

    def answer(
        self,
        operation: Operation,
        *,
        object_id: str | None,
        name: str | None,
        values: dict[str, Any],
        gone: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """One call from its beginning to its end. `gone` tells whether the caller has hung up."""
        known = name
        with self._lock:
            if known is None and object_id in self._objects:
                known = self._objects[object_id].get("name")

        def work() -> Answer:
            return self._work(operation, object_id, name, values)

        return self.perform(operation, work, id=object_id, name=known, gone=gone)

    def _work(
        self, operation: Operation, object_id: str | None, name: str | None, values: dict[str, Any]
    ) -> Answer:
        if operation == "find":
            named = [dict(each) for each in self._objects.values() if name in (None, each.get("name"))]
            return HTTPStatus.OK, {"objects": named}
        if operation == "create":
            made = {**values, "id": f"obj-{secrets.token_hex(6)}"}
            self._objects[made["id"]] = made
            self._made.setdefault(str(made.get("name")), []).append(made["id"])
            return HTTPStatus.CREATED, dict(made)
        if object_id not in self._objects:
            return HTTPStatus.NOT_FOUND, f'There is no object "{object_id}".'
        if operation == "delete":
            return HTTPStatus.OK, self._objects.pop(object_id)
        if operation == "update":
            self._objects[object_id].update(values, id=object_id)
        return HTTPStatus.OK, dict(self._objects[object_id])


if __name__ == "__main__":
    serve("Keep lab objects behind HTTP, on this machine only.", LabService)
