"""While a server does not answer, its client says so once."""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.kernel.errors import HoldfastError
from holdfast.store.server_blobs import PROTOCOL, PROTOCOL_FIELD, ServerBlobs
from holdfast.system import clock
from holdfast.system.http import HttpError, HttpSession, Response

URL = "http://127.0.0.1:9"
GOOD = Response(status=200, headers={PROTOCOL_FIELD: PROTOCOL}, body=b"")


def test_after_some_seconds_once_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, said = count(), list[str]()
    answers: list[Response | Exception] = [GOOD]

    def request(*_: object, **__: object) -> Response:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(clock, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(clock, "pause", lambda _: None)
    monkeypatch.setattr(HttpSession, "request", request)
    blobs = ServerBlobs(URL, lambda: "token", {})
    blobs.on_wait = said.append
    away = HttpError("127.0.0.1", "Connection refused")
    blobs.read("a")
    answers += [away, GOOD]
    blobs.read("a")
    assert said == []
    answers += [away] * 5 + [GOOD]
    blobs.read("a")
    line = f"waiting for the server {URL}: Connection refused"
    assert said == [line]
    answers += [Response(status=503, headers={}, body=b"")] * 3 + [GOOD]
    blobs.read("a")
    assert said == [line, f"waiting for the server {URL}: it answered 503"]
    answers += [away] * 7
    with pytest.raises(HoldfastError, match="tried 7 times"):
        blobs.read("a")
    assert said.count(line) == 2
