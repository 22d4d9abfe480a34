"""Events, devices and blueprints of a server, as its clients use them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from holdfast.identity.client import IDEMPOTENCY_KEY, ServerClient
from holdfast.kernel.errors import ConfigError, Exit, HoldfastError, Problem, UsageError
from holdfast.kernel.text import json_object
from holdfast.system import clock
from holdfast.system.http import Response

_EVENTS: Final = "/api/v1/events"
_DEVICES: Final = "/api/v1/devices"
_BLUEPRINTS: Final = "/api/v1/blueprints"
_ID_LENGTH: Final = 26
_FILTER: Final = 500
"""How many events are searched for the beginning of an id."""
_LONGEST_WAIT: Final = 60.0
"""Seconds of one request."""
_PAUSE: Final = 0.5
"""Seconds before the next request, if a server that stops answered the last one early."""
_INVALID: Final = 422
_FAILED: Final = 400
_ENDED: Final[Mapping[str, Exit]] = {
    "succeeded": Exit.DONE,
    "failed": Exit.FAILED,
    "cancelled": Exit.FAILED,
    "superseded": Exit.FAILED,
    "waiting": Exit.WAITING,
    "unknown": Exit.UNKNOWN,
}
"""Exit codes of events that go on only if a person does something, or never."""

Document = dict[str, Any]


class Submitted(NamedTuple):
    event: Document
    replayed: bool
    """The key was used before for the same request."""


def is_ended(event: Mapping[str, Any]) -> bool:
    """It is final, or a person must do something."""
    return event["status"] in _ENDED


def exit_of(event: Mapping[str, Any]) -> Exit:
    """Of a command that waited for it: 4 if it has not ended."""
    return _ENDED.get(event["status"], Exit.BUSY)


class ServerFleet:
    def __init__(self, client: ServerClient) -> None:
        self.client = client

    # Events

    def submit(self, request: Mapping[str, object], key: str, *, wait: float = 0.0) -> Submitted:
        """Once, however often it is sent."""
        query = f"?wait={min(wait, _LONGEST_WAIT):g}" if wait > 0 else ""
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: key}
        response = self.client.exchange(
            "POST", _EVENTS + query, json.dumps(request).encode(), headers=headers
        )
        if response.status >= _FAILED:
            raise self._error(response)
        return Submitted(json_object(response.body), "idempotency-replayed" in response.headers)

    def _error(self, response: Response) -> HoldfastError:
        """Every field that is wrong, with its path."""
        error, document = self.client.error_of(response), json_object(response.body)
        fields = document.get("errors") or []
        if response.status != _INVALID or not fields:
            return error
        messages = [f"at {field['path']}: {field['message']}" for field in fields]
        hints = [None] * (len(fields) - 1) + [document.get("hint")]
        return ConfigError(
            tuple(
                Problem(code=error.problem.code, message=message, hint=hint)
                for message, hint in zip(messages, hints, strict=True)
            )
        )

    def event(self, id_: str, *, wait: float = 0.0) -> Document:
        query = f"?wait={wait:g}" if wait > 0 else ""
        return self.client.send("GET", f"{_EVENTS}/{quote(id_, safe='')}{query}")

    def ended(self, event: Document, seconds: float | None) -> Document:
        """The event once it has ended, or as it is after so many seconds. None: however long it takes."""
        end = None if seconds is None else clock.monotonic() + seconds
        while not is_ended(event):
            begun = clock.monotonic()
            left = _LONGEST_WAIT if end is None else end - begun
            if left <= 0:
                break
            event = self.event(event["id"], wait=min(left, _LONGEST_WAIT))
            if not is_ended(event) and clock.monotonic() - begun < min(left, _PAUSE):
                clock.pause(_PAUSE)
        return event

    def events(self, *, limit: int, **filters: str | None) -> list[Document]:
        """Newest first."""
        return list(itertools.islice(self.client.pages(_EVENTS, "events", **filters), limit))

    def find(self, wanted: str) -> str:
        """The id of the one event whose id begins so."""
        if len(wanted) >= _ID_LENGTH:
            return wanted.upper()
        recent = self.events(limit=_FILTER) if wanted else []
        matching = [event["id"] for event in recent if event["id"].startswith(wanted.upper())]
        if len(matching) == 1:
            return str(matching[0])
        message = f"{wanted} matches several events: {', '.join(matching[:5])}"
        message = message if matching else f"there is no event {wanted}"
        hint = "Give more characters of the id." if matching else "List the events: holdfast events list"
        raise UsageError("HF-EVENT-1", message, hint=hint)

    def act(self, id_: str, action: str, **document: object) -> Document:
        """`approve` and `reject` take a digest; `cancel`, `retry` and `rollback` do not."""
        return self.client.send("POST", f"{_EVENTS}/{quote(id_, safe='')}/{action}", document)

    def log(self, id_: str) -> Iterator[str]:
        """Of its last attempt."""
        cursor: str | None = "0"
        while cursor is not None:
            page = self.client.send("GET", f"{_EVENTS}/{quote(id_, safe='')}/log?cursor={cursor}")
            yield from page["lines"]
            cursor = page["next"]

    # Devices and blueprints

    def devices(self, **filters: str | None) -> Iterator[Document]:
        return self.client.pages(_DEVICES, "devices", **filters)

    def device(self, blueprint: str, resource_id: str) -> Document:
        path = f"{_DEVICES}/{quote(blueprint, safe='')}/{quote(resource_id, safe='')}"
        return self.client.send("GET", path)

    def last_event(self, blueprint: str, resource_id: str) -> Document | None:
        query = urlencode({"blueprint": blueprint, "resource_id": resource_id, "limit": "1"})
        found = self.client.send("GET", f"{_EVENTS}?{query}")["events"]
        return dict(found[0]) if found else None

    def blueprint(self, name: str) -> Document:
        offered = {each["name"]: each for each in self.client.pages(_BLUEPRINTS, "blueprints")}
        if name not in offered:
            known = ", ".join(offered) or "none"
            message = f"there is no blueprint {name}; the server offers: {known}"
            raise UsageError("HF-EVENT-2", message, hint="Offer it: holdfast serve --blueprints DIR")
        return offered[name]
