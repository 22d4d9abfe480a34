"""Runs and changes on the server: `/api/v1/runs` and `/api/v1/changes`. A run belongs to one change."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct, convert, field

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import UsageError
from holdfast.runs.checks_document import checks_of_stack
from holdfast.server.exceptions import problem
from holdfast.server.guards import address_of
from holdfast.server.problems import Denial
from holdfast.server.run_documents import (
    ChangeDocument,
    RunDocument,
    RunList,
    change_document,
    run_document,
    run_info,
)
from holdfast.server.run_requests import (
    Caller,
    Decisions,
    RunRequest,
    RunRequests,
    invalid_field,
    is_pattern,
    require_operation,
)
from holdfast.store.approvals import ApprovalKind
from holdfast.store.server_runs.contents import ChangeOptions
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import Change

Who = NamedDependency[Principal]
Requests = NamedDependency[RunRequests]
AnyRequest = Request[Any, Any, Any]
Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Reason = Annotated[str, Meta(max_length=2000)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Revision = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_](?:[0-9A-Za-z_/+@-]|\.(?!\.)){0,199}\Z")]
Limit = Annotated[int, QueryParameter(ge=1, le=200)]
Cursor = Annotated[int, QueryParameter(ge=1, le=2**62)]
_READ: Final = {"permission": Permission.READ}
_READ_PLAN: Final = {"permission": Permission.READ_PLAN}
_PLAN: Final = {"permission": Permission.PLAN}
_RUN: Final = {"permission": Permission.RUN}
_APPROVE: Final = {"permission": Permission.APPROVE}
_SUBMITTABLE: Final = (Operation.PLAN, Operation.APPLY, Operation.DESTROY)


class CodeSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An upload, or a commit of a registered repository."""

    upload: Text | None = None
    repository: Text | None = None
    """Its name or id."""
    revision: Revision | None = None
    """A branch, a tag or a commit; the default branch if it is left out."""


class _Options(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operation: Operation
    source: CodeSource
    variables: dict[str, Any] = field(default_factory=dict)
    """Values of variables. They are stored encrypted."""
    target: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()
    """Only these resources."""
    replace: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()
    refresh_only: bool = False
    destroy: bool = False
    """Plan the destruction."""
    reason: Reason = ""


class NewRunRequest(_Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stack: Text


class NewChangeRequest(_Options, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stacks: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=1000)]
    """Names, globs, or filters such as `env:prod`."""


class Decision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    digest: Digest
    """Of the plan that was shown."""
    reason: Reason = ""


class Override(Decision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    break_glass: bool = False
    """Also of the approvals that are missing; only by an admin."""


class ShownPlans(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    plans: Annotated[dict[Text, Digest], Meta(min_length=1, max_length=1000)]
    """By the id of their run: the digest of the plan that was shown."""
    reason: Reason = ""


class ReconcileRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""
    imports: dict[Text, Text] = field(default_factory=dict)
    """Ids of resources that the run created, by address."""
    recreate: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()
    """Addresses of resources that do not exist: the next apply may create them again."""
    holder_dead: bool = False
    """The processes of the run are gone, which Holdfast cannot prove. The reason says how you know."""


class WithReason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""


class Cancel(WithReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    force: bool = False
    """Of a change that was cancelled before: at once. What was in progress may be lost from the state."""


@post("/api/v1/runs", opt=_PLAN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def submit_run(
    request: AnyRequest, principal: Who, requests: Requests, data: JSONBody[NewRunRequest]
) -> Response[RunDocument]:
    if is_pattern(data.stack):
        raise invalid_field("/stack", "must be the name of one stack; POST /api/v1/changes takes patterns")
    caller = _caller(request, principal)
    return _accepted_run(requests, caller, _submit(requests, caller, data, (data.stack,)))


@post("/api/v1/changes", opt=_PLAN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def submit_change(
    request: AnyRequest, principal: Who, requests: Requests, data: JSONBody[NewChangeRequest]
) -> Response[ChangeDocument]:
    caller = _caller(request, principal)
    return _accepted_change(requests, caller, _submit(requests, caller, data, data.stacks))


@get("/api/v1/runs", opt=_READ, sync_to_thread=True)
def list_runs(
    principal: Who,
    requests: Requests,
    stack: FromQuery[str | None] = None,
    change: FromQuery[str | None] = None,
    phase: FromQuery[RunPhase | None] = None,
    status: FromQuery[str | None] = None,
    limit: Limit = 100,
    cursor: Cursor = 2**62,
) -> RunList:
    """Newest first; of the stacks that the caller's token covers, so a page may have fewer than `limit`."""
    page = requests.runs.list(
        principal.home_tenant,
        stack=stack,
        change=change,
        phases=None if phase is None else [phase.value],
        statuses=None if status is None else [status],
        before=cursor,
        limit=limit,
    )
    shown = tuple(run_info(run) for run in page if principal.covers_stack(run.stack))
    return RunList(runs=shown, next=str(page[-1].number) if len(page) == limit else None)


@get("/api/v1/runs/{run_id:str}", opt=_READ, sync_to_thread=True)
def show_run(request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str]) -> RunDocument:
    caller = _caller(request, principal)
    return run_document(requests, caller, requests.run(caller, run_id))


@get("/api/v1/runs/{run_id:str}/plan", opt=_READ_PLAN, sync_to_thread=True)
def show_plan(
    request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str]
) -> dict[str, Any]:
    """What `holdfast plan --json` or `apply --json` shows for the stack: sensitive values are null."""
    caller = _caller(request, principal)
    run = requests.run(caller, run_id)
    result = requests.result(caller, run)
    if result is None or not result.keys() - {"error", "errors"}:  # Its worker died before it had one.
        raise problem(
            Denial(
                status=404,
                code="HF-RUN-22",
                message=f"the server has no plan of run {run.id}",
                hint=f"It is {run.status or run.phase}. Its log says why: holdfast runs log {run.id}",
            )
        )
    checks = requests.checks(caller, run.change)
    own = checks_of_stack(checks, run.stack) if checks is not None else None
    return {"version": 1, "run": run.id, "stack": run.stack, **result, "checks": own}


@get("/api/v1/changes/{change_id:str}", opt=_READ, sync_to_thread=True)
def show_change(
    request: AnyRequest, principal: Who, requests: Requests, change_id: FromPath[str]
) -> ChangeDocument:
    caller = _caller(request, principal)
    return change_document(requests, caller, requests.change(caller, change_id))


@post("/api/v1/changes/{change_id:str}/apply", opt=_RUN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def apply_change(
    request: AnyRequest,
    principal: Who,
    requests: Requests,
    change_id: FromPath[str],
    data: JSONBody[ShownPlans],
) -> Response[ChangeDocument]:
    """A new change that applies exactly these plans of a change that planned, or refuses them."""
    caller = _caller(request, principal)
    shown = requests.change(caller, change_id)
    applying = requests.apply_plans(caller, shown, data.plans, data.reason)
    return _accepted_change(requests, caller, applying)


@get("/api/v1/changes/{change_id:str}/checks", opt=_READ_PLAN, sync_to_thread=True)
def show_checks(
    request: AnyRequest, principal: Who, requests: Requests, change_id: FromPath[str]
) -> dict[str, Any]:
    """The findings of all its stacks, as `checks` of `holdfast plan --json`; null if nothing was checked."""
    caller = _caller(request, principal)
    change = requests.change(caller, change_id)
    return {"version": 1, "change": change.id, "checks": requests.checks(caller, change.id)}


@post("/api/v1/runs/{run_id:str}/approve", opt=_APPROVE, status_code=HTTPStatus.OK, sync_to_thread=True)
def approve_run(
    request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str], data: JSONBody[Decision]
) -> RunDocument:
    return _decide(_caller(request, principal), requests, run_id, ApprovalKind.APPROVAL, data)


@post("/api/v1/runs/{run_id:str}/reject", opt=_APPROVE, status_code=HTTPStatus.OK, sync_to_thread=True)
def reject_run(
    request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str], data: JSONBody[Decision]
) -> RunDocument:
    """For good. The reason is for who asked for it."""
    if not data.reason.strip():
        raise invalid_field("/reason", "a rejection needs a reason")
    return _decide(_caller(request, principal), requests, run_id, ApprovalKind.REJECTION, data)


@post("/api/v1/runs/{run_id:str}/override", opt=_APPROVE, status_code=HTTPStatus.OK, sync_to_thread=True)
def override_run(
    request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str], data: JSONBody[Override]
) -> RunDocument:
    """Of the guard's denial, for a day."""
    if not data.reason.strip():
        raise invalid_field("/reason", "an override needs a reason")
    caller = _caller(request, principal)
    return _decide(caller, requests, run_id, ApprovalKind.OVERRIDE, data, break_glass=data.break_glass)


@post("/api/v1/runs/{run_id:str}/cancel", opt=_PLAN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def cancel_run(
    request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str], data: JSONBody[Cancel]
) -> RunDocument:
    """With the other runs of its change. An apply is stopped by Terraform itself, and keeps its state."""
    caller = _caller(request, principal)
    run = requests.run(caller, run_id)
    requests.cancel(caller, requests.change(caller, run.change), data.reason, force=data.force)
    return run_document(requests, caller, requests.run(caller, run_id))


@post(
    "/api/v1/changes/{change_id:str}/cancel", opt=_PLAN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True
)
def cancel_change(
    request: AnyRequest,
    principal: Who,
    requests: Requests,
    change_id: FromPath[str],
    data: JSONBody[Cancel],
) -> ChangeDocument:
    caller = _caller(request, principal)
    cancelled = requests.cancel(caller, requests.change(caller, change_id), data.reason, force=data.force)
    return change_document(requests, caller, cancelled)


@post("/api/v1/runs/{run_id:str}/retry", opt=_PLAN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def retry_run(
    request: AnyRequest, principal: Who, requests: Requests, run_id: FromPath[str], data: JSONBody[WithReason]
) -> Response[RunDocument]:
    """A new run of the same stack, code and variables."""
    caller = _caller(request, principal)
    run = requests.run(caller, run_id)
    return _accepted_run(requests, caller, requests.retry(caller, run, data.reason))


@post("/api/v1/runs/{run_id:str}/reconcile", opt=_RUN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def reconcile_run(
    request: AnyRequest,
    principal: Who,
    requests: Requests,
    run_id: FromPath[str],
    data: JSONBody[ReconcileRequest],
) -> Response[RunDocument]:
    """A new run that finds out what an interrupted one did, and imports what it created."""
    caller = _caller(request, principal)
    run = requests.run(caller, run_id)
    decisions = Decisions(imports=data.imports, recreate=data.recreate, holder_dead=data.holder_dead)
    return _accepted_run(requests, caller, requests.reconcile(caller, run, data.reason, decisions))


def runs_router() -> Router:
    return Router(
        path="/",
        route_handlers=[
            *(submit_run, submit_change, list_runs, show_run, show_plan, show_change, show_checks),
            apply_change,
            *(approve_run, reject_run, override_run, cancel_run, cancel_change, retry_run, reconcile_run),
        ],
    )


def _caller(request: AnyRequest, principal: Principal) -> Caller:
    return Caller(principal=principal, address=address_of(request.scope))


def _submit(requests: RunRequests, caller: Caller, data: _Options, stacks: tuple[str, ...]) -> Change:
    if data.operation not in _SUBMITTABLE:
        raise invalid_field("/operation", f"must be one of {', '.join(_SUBMITTABLE)}")
    require_operation(caller.principal, data.operation)
    given = {name: getattr(data, name) for name in ChangeOptions.__struct_fields__ if hasattr(data, name)}
    options = convert(given, ChangeOptions)
    return requests.submit(
        caller,
        RunRequest(
            stacks=stacks,
            operation=data.operation,
            source=_source(requests, caller, data.source),
            options=options,
            reason=data.reason,
        ),
    )


def _source(requests: RunRequests, caller: Caller, source: CodeSource) -> str:
    if (source.upload is None) == (source.repository is None):
        raise invalid_field("/source", "must have either `upload` or `repository`")
    if source.upload is not None:
        upload = requests.sources.use(caller.tenant, source.upload)
        if upload is None or upload.kind != "upload" or upload.created_by != caller.principal.subject:
            raise UsageError(
                "HF-RUN-28",
                f"there is no upload {source.upload} of yours",
                hint="Upload the code: POST /api/v1/uploads. Uploads are removed a day after their last use.",
            )
        return upload.id
    repository = requests.repositories.of(caller.tenant, str(source.repository))
    if repository is None:
        raise UsageError(
            "HF-RUN-29",
            f"there is no repository {source.repository}",
            hint="An admin registers it: POST /api/v1/repositories",
        )
    by = caller.principal.subject
    return requests.sources.add_commit(
        caller.tenant, repository=repository.id, wanted=source.revision, by=by
    ).id


def _decide(
    caller: Caller,
    requests: RunRequests,
    run_id: str,
    kind: ApprovalKind,
    data: Decision,
    *,
    break_glass: bool = False,
) -> RunDocument:
    run = requests.run(caller, run_id)
    requests.decide(caller, run, kind, data.digest, data.reason, break_glass=break_glass)
    return run_document(requests, caller, requests.run(caller, run_id))


def _accepted_change(requests: RunRequests, caller: Caller, change: Change) -> Response[ChangeDocument]:
    location = {"location": f"/api/v1/changes/{change.id}"}
    document = change_document(requests, caller, change)
    return Response(document, status_code=HTTPStatus.ACCEPTED, headers=location)


def _accepted_run(requests: RunRequests, caller: Caller, change: Change) -> Response[RunDocument]:
    run = change.runs[0]
    location = {"location": f"/api/v1/runs/{run.id}"}
    document = run_document(requests, caller, run)
    return Response(document, status_code=HTTPStatus.ACCEPTED, headers=location)
