"""The stream of a run: read event by event, and continued after a lost connection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from holdfast.identity.client import ServerClient
from holdfast.kernel.errors import Failed
from holdfast.runs import server_runs
from holdfast.runs.server_runs import RunEvent, ServerRuns, events
from holdfast.system.http import HttpError


def sent(number: int) -> list[bytes]:
    return [b"event: line\r\n", b"id: %d\r\n" % number, b"data: line %d\r\n" % number, b"\r\n"]


END = [b'data: {"phase": "done", "status": "applied"}\n', b"event: end\n", b"\n"]


def test_events_are_read_from_lines() -> None:
    lines = [b": a comment\n", b"\n", *sent(7), b"event: line\n", b"data: a\n", b"data: b\n", b"\n", *END]
    assert list(events(iter([*lines, b"event: line\n", b"data: cut off\n"]))) == [
        RunEvent("line", "line 7", 7),
        RunEvent("line", "a\nb", 0),
        RunEvent("end", '{"phase": "done", "status": "applied"}'),
    ]


class Client:
    """Answers each connection with its own lines; an error ends one."""

    url = "https://holdfast.example.com"

    def __init__(self, *connections: list[bytes | HttpError]) -> None:
        self.connections = list(connections)
        self.continued: list[str | None] = []

    def stream(self, _: str, headers: Mapping[str, str], *, silence: float) -> Iterator[bytes]:
        assert silence > 15  # The server says something more often.
        self.continued.append(headers.get("Last-Event-ID"))
        for line in self.connections.pop(0) if self.connections else [HttpError("host", "refused")]:
            if isinstance(line, HttpError):
                raise line
            yield line


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_runs, "PAUSES", (0.0,))


def follow(client: Client) -> list[Any]:
    return list(ServerRuns(cast("ServerClient", client)).follow("RUN"))


def test_a_lost_connection_is_continued_after_the_last_line() -> None:
    lost = HttpError("host", "connection reset")
    client = Client([b"200", *sent(1), *sent(2), lost], [b"503"], [b"200", *sent(3)], [b"200", *END])
    got = follow(client)
    assert [event.text for event in got if event.kind == "line"] == ["line 1", "line 2", "line 3"]
    assert [event.kind for event in got] == ["line", "line", "lost", "found", "line", "end"]
    assert client.continued == [None, "2", "2", "3"]


def test_a_change_is_followed_again_without_repeating_lines() -> None:
    """The server sends all lines once more: each has its run and its number."""

    def line(run: str, number: int) -> list[bytes]:
        data = json.dumps({"run": run, "number": number, "text": f"{run} {number}"}).encode()
        return [b"event: line\n", b"data: " + data + b"\n", b"\n"]

    lost = HttpError("host", "connection reset")
    client = Client(
        [b"200", *line("a", 1), *line("b", 1), lost],
        [b"200", *line("a", 1), *line("a", 2), *line("b", 1), *END],
    )
    got = list(ServerRuns(cast("ServerClient", client)).follow_change("CHANGE"))
    assert [event.text for event in got if event.kind == "line"] == ["a 1", "b 1", "a 2"]
    assert [event.kind for event in got] == ["line", "line", "line", "end"], "one loss is not worth a word"


def test_a_server_that_stays_away_is_an_error_with_the_next_command() -> None:
    client = Client([b"200", *sent(1)])
    with pytest.raises(Failed, match="connection") as raised:
        follow(client)
    assert "holdfast runs watch RUN --server https://holdfast.example.com" in str(raised.value.problem.hint)
