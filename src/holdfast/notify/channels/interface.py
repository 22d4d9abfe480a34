"""What every channel offers: send a notice, or change the message that it sent about it before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.secret import Secret
from holdfast.kernel.values import MaskedStruct
from holdfast.notify.alerts.notice import Notice
from holdfast.system import http
from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, Response

SECONDS: Final = 10.0
"""For one request."""
_LARGEST_ANSWER: Final = 4 * 1024 * 1024
_LIMITED: Final = 429
_SHORTEST_PAUSE: Final = 1.0
_PAUSE: Final = 60.0
_LONGEST_PAUSE: Final = 3600.0
_GONE: Final = frozenset({400, 401, 403, 404, 410, 413, 422})


class Access(Struct, frozen=True, kw_only=True):
    """What a channel may use."""

    environment: Environment
    """For certificates and proxies."""
    secret: Callable[[SecretRef], Secret]
    say: Callable[[str], None]
    """A line for the console, or the log of the server."""
    now: Callable[[], datetime]
    seconds: float = SECONDS


class Sent(MaskedStruct, frozen=True, kw_only=True):
    answer: str
    """Of the receiver, for `holdfast notify test`."""
    handle: str | None = None
    """By which the channel finds the message again."""


class ChannelError(Exception):
    """It was not delivered. The reason has no address, header, secret or content of the message."""

    def __init__(self, reason: str, *, final: bool = False, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason[:300]
        self.final = final
        """The channel is configured wrongly: people must do something."""
        self.wait = wait
        """The receiver asked to wait so many seconds."""


class Channel(Protocol):
    """Raises `ChannelError`, and `HoldfastError` if a secret cannot be read."""

    def send(self, notice: Notice, handle: str | None, *, again: bool) -> Sent:
        """`handle`: of the message that this one changes. `again`: an earlier attempt may have arrived."""
        ...


class ChannelKind(Struct, frozen=True, kw_only=True):
    name: str
    """Its key in the configuration."""
    title: str
    open: Callable[[Any, Access], Channel]
    """From its settings."""
    in_place: Callable[[Any], bool] = lambda _: False
    """Whether it changes its message; otherwise each update is another one."""


def always(_: object) -> bool:
    return True


def post(
    access: Access,
    method: str,
    url: str,
    *,
    body: object | None = None,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A response with a status of 2xx."""
    content = msgspec.json.encode(body) if body is not None else data
    own = {"content-type": "application/json"} if content is not None else {}
    try:
        answer = http.request(
            method,
            url,
            environment=access.environment,
            headers={**own, **(headers or {})},
            body=content,
            seconds=access.seconds,
            max_bytes=_LARGEST_ANSWER,
        )
    except HttpError as error:
        raise ChannelError(f"no response: {error.reason}", final=error.final) from None
    if answer.status == _LIMITED or (answer.status >= 500 and "retry-after" in answer.headers):  # noqa: PLR2004
        raise ChannelError(f"the receiver answered {answer.status}", wait=pause_of(answer))
    if not 200 <= answer.status < 300:  # noqa: PLR2004 - success
        raise ChannelError(f"the receiver answered {answer.status}", final=answer.status in _GONE)
    return answer


def pause_of(answer: Response) -> float:
    """As long as the receiver asks, within reason."""
    text = answer.headers.get("retry-after", "").strip()
    seconds = float(text) if text.replace(".", "", 1).isdecimal() else _PAUSE
    return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, seconds))


def document_of(answer: Response) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(answer.body)
    except msgspec.MsgspecError:
        raise ChannelError("the answer is not JSON") from None
    if not isinstance(document, dict):
        raise ChannelError("the answer is not a JSON object")
    return document


def secret_text(access: Access, ref: SecretRef) -> str:
    return access.secret(ref).reveal().strip()
