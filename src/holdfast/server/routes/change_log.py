"""All runs of a change in one stream of server-sent events: `/api/v1/changes/{id}/log`; and their results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
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
from holdfast.server.routes.run_log import LONGEST, NOTHING_NEW, is_quiet, wait_for
from holdfast.server.run_events import RunEvents
from holdfast.server.run_requests import Caller, RunRequests
from holdfast.store.server_runs.contents import FollowedLogs
from holdfast.store.server_runs.rows import RunState
from holdfast.system import clock

_READ_PLAN: Final = {"permission": Permission.READ_PLAN}
_PAUSE: Final = 0.1
"""Seconds between two looks: a change of many stacks has news all the time."""
Who = NamedDependency[Principal]
Requests = NamedDependency[RunRequests]
AnyRequest = Request[Any, Any, Any]


class StoredResult(Struct, frozen=True, kw_only=True):
    run: str
    result: Any
    """As `holdfast plan --json` or `apply --json` prints it for the stack; null if there is none."""


class ResultList(Struct, frozen=True, kw_only=True):
    version: int = 1
    results: tuple[StoredResult, ...]
    next: str | None


@get("/api/v1/changes/{change_id:str}/results", opt=_READ_PLAN, sync_to_thread=True)
def change_results(
    request: AnyRequest,
    principal: Who,
    requests: Requests,
    change_id: FromPath[str],
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: Annotated[int, QueryParameter(ge=0, le=2**62)] = 0,
) -> ResultList:
    """Of its runs, in their order: sensitive values are null."""
    caller = Caller(principal=principal, address=address_of(request.scope))
    runs = [run for run in requests.change(caller, change_id).runs if run.number > cursor]
    page = runs[:limit]
    stored = requests.results(caller, page)
    return ResultList(
        results=tuple(StoredResult(run=run.id, result=stored.get(run.id)) for run in page),
        next=str(page[-1].number) if len(runs) > limit else None,
    )


@get(
    "/api/v1/changes/{change_id:str}/log",
    opt=_READ_PLAN,
    responses={200: ResponseSpec(data_container=None, description="Server-sent events")},
)
async def change_log(
    request: AnyRequest,
    principal: Who,
    requests: Requests,
    events: NamedDependency[RunEvents],
    change_id: FromPath[str],
) -> Response[Any]:
    """The lines of all its runs as they arrive, and their phases, until the change is done. Who connects
    again gets all lines once more, each with its run and its number.
    """
    caller = Caller(principal=principal, address=address_of(request.scope))
    change = await to_thread.run_sync(requests.change, caller, change_id)
    return ServerSentEvent(_stream(requests, events, caller, change.id))


async def _stream(
    requests: RunRequests, events: RunEvents, caller: Caller, change_id: str
) -> AsyncIterator[ServerSentEventMessage]:
    """Phases are read before the lines: when a run is done, no lines of it follow."""
    logs = FollowedLogs(requests.store(caller).encrypted)
    known: dict[str, RunState] = {}
    until, phase, said = clock.monotonic() + LONGEST, "", clock.monotonic()
    async with events.subscribe(change_id) as news:
        while clock.monotonic() < until and not events.ended:
            news.clear()
            looked = clock.monotonic()
            now = await to_thread.run_sync(requests.changes.phases, change_id)
            # A worker may have selected further stacks since.
            covers = caller.principal.covers_stack
            if now is None or not all(covers(run.stack) for run in now.runs.values()):
                return
            changed = {id_: run for id_, run in now.runs.items() if known.get(id_) != run}
            open_runs = [id_ for id_, run in now.runs.items() if run.phase != "done" or id_ in changed]
            lines = await to_thread.run_sync(logs.news, open_runs)
            for id_, number, text in lines:
                yield _message("line", {"run": id_, "number": number, "text": text})
            for id_, run in changed.items():
                yield _message("status", {"run": id_, "phase": run.phase, "status": run.status})
            known = now.runs
            if now.phase == "done":
                yield _message("end", {"phase": now.phase})
                return
            if lines or changed or now.phase != phase:
                said = clock.monotonic()
            if now.phase != phase:
                phase = now.phase
                yield _message("change", {"phase": phase})
            if is_quiet(said):
                said = clock.monotonic()
                yield NOTHING_NEW
            await wait_for(news)
            await asyncio.sleep(max(0.0, looked + _PAUSE - clock.monotonic()))


def _message(event: str, document: dict[str, object]) -> ServerSentEventMessage:
    return ServerSentEventMessage(data=msgspec.json.encode(document).decode(), event=event)
