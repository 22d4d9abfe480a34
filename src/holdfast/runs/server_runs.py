"""Runs on the server, as its clients use them: submit, follow, decide, cancel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from holdfast.identity.client import PAUSES, ServerClient, Unreachable
from holdfast.kernel.errors import HoldfastError, Refused, UsageError
from holdfast.runs.history import choose_run
from holdfast.system import clock
from holdfast.system.http import HttpError

_RUNS: Final = "/api/v1/runs"
_CHANGES: Final = "/api/v1/changes"
_ID_LENGTH: Final = 26
_NO_RUN: Final = "HF-RUN-20"
_NO_PLAN: Final = "HF-RUN-22"
_OK: Final = b"200"
_SILENCE: Final = 60.0
"""Seconds. The server sends a comment more often than that."""
_MOST_FAILURES: Final = 30
"""In a row: about five minutes."""
_TOLD: Final = 2
"""Failures in a row after which a person hears of it: proxies close connections, and the next one is fine."""
_FILTER: Final = 500
"""How many runs are searched for the beginning of an id."""

Document = dict[str, Any]


class RunEvent(NamedTuple):
    kind: str
    """`line`, `status` or `end`, of a change also `change`; `lost` and `found`: the server, for longer."""
    text: str
    number: int = 0
    """Of a line."""

    @property
    def state(self) -> Document:
        """Of `status`, `change` and `end`: the phase, and the status of a run."""
        return dict(json.loads(self.text))


class ServerRuns:
    def __init__(self, client: ServerClient) -> None:
        self.client = client

    def upload(self, content: bytes) -> str:
        response = self.client.exchange(
            "POST", "/api/v1/uploads", content, headers={"Content-Type": "application/gzip"}
        )
        if response.status >= 400:  # noqa: PLR2004 - a status
            raise self.client.error_of(response)
        return str(json.loads(response.body)["id"])

    def submit(self, document: Mapping[str, object]) -> Document:
        """The change, with the runs that are known so far."""
        return self.client.send("POST", _CHANGES, document)

    def change(self, id_: str) -> Document:
        return self.client.send("GET", f"{_CHANGES}/{quote(id_, safe='')}")

    def apply_plans(self, change: str, plans: Mapping[str, str], reason: str) -> Document:
        """Exactly these plans of the change: digests by run."""
        document = {"plans": dict(plans), "reason": reason}
        return self.client.send("POST", f"{_CHANGES}/{quote(change, safe='')}/apply", document)

    def cancel_change(self, id_: str, reason: str, *, force: bool = False) -> None:
        document = {"reason": reason, "force": force}
        self.client.send("POST", f"{_CHANGES}/{quote(id_, safe='')}/cancel", document)

    def list(self, *, limit: int, **filters: str | None) -> list[Document]:
        """Newest first."""
        found: list[Document] = []
        for run in self.client.pages(_RUNS, "runs", **filters):
            found.append(run)
            if len(found) == limit:
                break
        return found

    def find(self, wanted: str) -> str:
        """The id of the one run whose id begins so."""
        if len(wanted) == _ID_LENGTH:
            return wanted.upper()
        return choose_run((run["id"] for run in self.list(limit=_FILTER)), wanted)

    def show(self, id_: str) -> Document:
        """As `runs show` prints it, with its phase."""
        return dict(self.client.send("GET", _path(id_))["run"])

    def decidable(self, wanted: str, action: str) -> Sequence[Document]:
        """The run that is wanted, or the runs of the change whose plans wait for a decision."""
        try:
            return [self.show(self.find(wanted))]
        except UsageError as error:
            if not is_missing(error) or len(wanted) != _ID_LENGTH:
                raise
            missing = error
        try:
            change = self.change(wanted.upper())
        except UsageError:
            raise missing from None
        waiting = [self.show(run["id"]) for run in change["runs"] if run["phase"] == "waiting"]
        if not waiting:
            raise Refused(
                "HF-RUN-26",
                f"the change {change['id']} is {change['phase']}: it has no plan to {action}",
                hint=f"Look at it: holdfast runs watch {change['id']} {self.client.login.option}",
            )
        return waiting

    def result(self, id_: str) -> Document | None:
        """Its part of the document that `plan --json` or `apply --json` prints; None if it has none."""
        try:
            document = self.client.send("GET", _path(id_, "plan"))
        except UsageError as error:
            if error.problem.code != _NO_PLAN:
                raise
            return None
        return {name: value for name, value in document.items() if name not in {"version", "stack", "checks"}}

    def checks(self, change: str) -> Document | None:
        """The findings of all its stacks; None if nothing was checked."""
        checks = self.client.send("GET", f"{_CHANGES}/{quote(change, safe='')}/checks")["checks"]
        return dict(checks) if checks is not None else None

    def results(self, change: str) -> dict[str, Document | None]:
        """Of all runs of the change, by run."""
        path = f"{_CHANGES}/{quote(change, safe='')}/results"
        return {found["run"]: found["result"] for found in self.client.pages(path, "results")}

    def log(self, id_: str) -> Iterator[str]:
        cursor: str | None = "0"
        while cursor is not None:
            page = self.client.send("GET", f"{_path(id_, 'log')}?cursor={cursor}")
            yield from page["lines"]
            cursor = page["next"]

    def workers(self) -> Sequence[Document]:
        return tuple(self.client.send("GET", "/api/v1/workers")["workers"])

    def audit(self) -> Iterator[Document]:
        """The entries of its audit log, newest first."""
        return self.client.pages("/api/v1/audit", "entries")

    def act(self, id_: str, action: str, **document: object) -> Document:
        """`approve`, `reject` and `override` take a digest; `cancel`, `retry` and `reconcile` do not."""
        return dict(self.client.send("POST", _path(id_, action), document)["run"])

    def follow(self, id_: str, *, stopped: Callable[[], bool] = lambda: False) -> Iterator[RunEvent]:
        """Events until the run is done. After a lost connection it continues with the next line."""
        return self._follow(_path(id_, "log"), id_, stopped)

    def follow_change(self, id_: str) -> Iterator[RunEvent]:
        """Of all its runs, until it is done. Each line comes once, also after a lost connection."""
        shown: dict[str, int] = {}
        for event in self._follow(f"{_CHANGES}/{quote(id_, safe='')}/log", id_):
            if event.kind == "line":
                line = event.state
                if line["number"] <= shown.get(line["run"], 0):
                    continue
                shown[line["run"]] = line["number"]
                yield RunEvent("line", line["text"], line["number"])
            else:
                yield event

    def _follow(self, path: str, id_: str, stopped: Callable[[], bool] = lambda: False) -> Iterator[RunEvent]:
        after, failures = 0, 0
        while not stopped():
            try:
                for event in self._stream(path, after):
                    if failures >= _TOLD:
                        yield RunEvent("found", "")
                    failures, after = 0, max(after, event.number)
                    yield event
                    if event.kind == "end":
                        return
                    if stopped():
                        return
                clock.pause(PAUSES[0])  # A stream lasts for some minutes only.
            except HttpError as error:
                failures += 1
                if error.final or failures > _MOST_FAILURES:
                    raise Unreachable(
                        "HF-SRV-8",
                        f"the connection to {self.client.url} is lost: {error.reason}",
                        hint=goes_on(id_, self.client.url),
                    ) from None
                if failures == _TOLD:
                    yield RunEvent("lost", error.reason)
                clock.pause(PAUSES[min(failures, len(PAUSES)) - 1])

    def _stream(self, path: str, after: int) -> Iterator[RunEvent]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(after)} if after else {})}
        lines = self.client.stream(path, headers, silence=_SILENCE)
        status = next(lines)
        if status.startswith(b"5") or status == b"429":
            raise HttpError(self.client.url, f"the server answered with the status {status.decode()}")
        if status != _OK:
            # The problem document says why; an ordinary request reads it.
            self.client.send("GET", f"{path}?cursor={after}")
            raise HttpError(self.client.url, f"the server answered with the status {status.decode()}")
        yield from events(lines)


def events(lines: Iterator[bytes]) -> Iterator[RunEvent]:
    """Of a stream of server-sent events. Pure."""
    kind, data, number = "", list[str](), 0
    for raw in lines:
        line = raw.decode(errors="replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "" if not line:
                if kind and data:
                    yield RunEvent(kind, "\n".join(data), number)
                kind, data, number = "", [], 0
            case "event":
                kind = value
            case "data":
                data.append(value)
            case "id" if value.isdecimal():
                number = int(value)


def goes_on(id_: str, url: str) -> str:
    """For a client that lost its server."""
    return (
        f"What runs there goes on without this command. Follow it: holdfast runs watch {id_} --server {url}"
    )


def is_missing(error: HoldfastError) -> bool:
    """The server does not know the run: it was not submitted there."""
    return error.problem.code == _NO_RUN


def require_digest(run: Mapping[str, Any], action: str, option: str) -> str:
    """`option`: of the command that shows the run."""
    if run["digest"] is None:
        raise Refused(
            "HF-RUN-26",
            f"{run['stack']}: run {run['id']} is {run['status'] or run['phase']}: "
            f"there is no plan to {action}",
            hint=f"Look at it: holdfast runs show {run['id']} {option}",
        )
    return str(run["digest"])


def _path(id_: str, part: str = "") -> str:
    return f"{_RUNS}/{quote(id_, safe='')}{'/' + part if part else ''}"
