"""The log of a run: `/api/v1/runs/{id}/log`, as a document or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

import msgspec
from anyio import to_thread
from litestar import Request, Response, get
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage
from msgspec import Struct

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.server.guards import address_of
from holdfast.server.run_events import RunEvents
from holdfast.server.run_requests import Caller, RunRequests
from holdfast.store.server_runs.contents import RunLog
from holdfast.store.server_runs.phases import RunPhase
from holdfast.system import clock

_LINES: Final = 5000
"""Of one document."""
QUIET: Final = 15.0
"""Seconds after which a stream without news sends a comment: proxies close silent connections."""
LONGEST: Final = 900.0
"""Seconds of one stream: then the client connects again, and its token is checked again."""
NOTHING_NEW: Final = ServerSentEventMessage(data=None, comment="nothing new")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


class LogDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    run: str
    phase: RunPhase
    status: str | None
    first: int
    """The number of the first of these lines."""
    lines: tuple[str, ...]
    next: str | None
    """More lines follow: repeat the request with this as `cursor`."""


@get(
    "/api/v1/runs/{run_id:str}/log",
    opt={"permission": Permission.READ_PLAN},
    responses={200: ResponseSpec(data_container=LogDocument, description="The lines so far")},
)
async def run_log(
    request: Request[Any, Any, Any],
    principal: NamedDependency[Principal],
    requests: NamedDependency[RunRequests],
    events: NamedDependency[RunEvents],
    run_id: FromPath[str],
    cursor: Annotated[int, QueryParameter(ge=0, le=2**31)] = 0,
) -> Response[Any]:
    """Lines after number `cursor`. With `Accept: text/event-stream`, lines as they arrive until the run is
    done: the id of an event is the number of its line, and `Last-Event-ID` continues after it.
    """
    caller = Caller(principal=principal, address=address_of(request.scope))
    return await log_response(request, requests, events, caller, run_id, cursor)


async def log_response(
    request: Request[Any, Any, Any],
    requests: RunRequests,
    events: RunEvents,
    caller: Caller,
    run_id: str,
    cursor: int,
) -> Response[Any]:
    run = await to_thread.run_sync(requests.run, caller, run_id)
    log = RunLog(requests.store(caller).encrypted, run.id)
    if "text/event-stream" in request.headers.get("accept", ""):
        last = request.headers.get("last-event-id", "")
        after = int(last) if _NUMBER.fullmatch(last) else cursor
        return ServerSentEvent(_stream(requests, events, run.id, log, after))
    lines = await to_thread.run_sync(lambda: log.lines(cursor)[:_LINES])
    document = LogDocument(
        run=run.id,
        phase=run.phase,
        status=run.status,
        first=lines[0][0] if lines else cursor + 1,
        lines=tuple(text for _, text in lines),
        next=str(lines[-1][0]) if len(lines) == _LINES else None,
    )
    return Response(document)


async def _stream(
    requests: RunRequests, events: RunEvents, run_id: str, log: RunLog, after: int
) -> AsyncIterator[ServerSentEventMessage]:
    """The state is read before the lines: when it is done, no lines follow."""
    until, shown, said = clock.monotonic() + LONGEST, None, clock.monotonic()
    read: Callable[[int], list[tuple[int, str]]] = log.lines
    async with events.subscribe(run_id) as news:
        while clock.monotonic() < until and not events.ended:
            news.clear()
            run = await to_thread.run_sync(requests.runs.of, run_id)
            lines = await to_thread.run_sync(read, after)
            read = log.following
            for number, text in lines:
                after, said = number, clock.monotonic()
                yield ServerSentEventMessage(data=text, event="line", id=number)
            if run is None:
                return
            state = msgspec.json.encode({"phase": run.phase, "status": run.status}).decode()
            if run.phase is RunPhase.DONE:
                yield ServerSentEventMessage(data=state, event="end")
                return
            if state != shown:
                shown, said = state, clock.monotonic()
                yield ServerSentEventMessage(data=state, event="status")
            if is_quiet(said):
                said = clock.monotonic()
                yield NOTHING_NEW
            await wait_for(news)


def is_quiet(said: float) -> bool:
    """Whether it is time for a comment. Wake-ups alone send nothing: they come all the time."""
    return clock.monotonic() - said >= QUIET


async def wait_for(news: asyncio.Event) -> None:
    """Until something may be new, or it is time for a comment."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(QUIET):
            await news.wait()
