"""The run store, `/api/v1/store`: what the server itself writes for a verified actor."""

from __future__ import annotations

import base64
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar import Request, Router, get, post
from litestar.connection import ASGIConnection
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.handlers.base import BaseRouteHandler
from litestar.params import JSONBody
from msgspec import Meta, Struct

from holdfast import __version__
from holdfast.audit.entry import Entry
from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Permission, Role
from holdfast.identity.token_rows import TokenRows
from holdfast.kernel.errors import UsageError
from holdfast.secrets.encryption import sealed_message_key
from holdfast.secrets.keys import KEY_SIZE
from holdfast.secrets.redact import Redactor
from holdfast.server.audit_log import ServerAudit, TenantStores, actor_of
from holdfast.server.claims import no_claim
from holdfast.server.decisions import (
    BREAK_GLASS_DETAILS,
    DecidedPlan,
    add_decision,
    expiry_of,
    require_break_glass,
    require_decidable,
)
from holdfast.server.exceptions import problem
from holdfast.server.guards import address_of, not_permitted
from holdfast.server.problems import Denial
from holdfast.server.routes.store_audit import append_audit
from holdfast.server.routes.store_blobs import blobs_router
from holdfast.server.store_access import StoreAccess
from holdfast.store.approval_rules import ApprovalRule
from holdfast.store.approvals import ApprovalKind, is_same_person
from holdfast.store.server_blobs import PROTOCOL, PROTOCOL_FIELD
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.locks import caller_of
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_store import RUN_KEY
from holdfast.system import clock

Who = NamedDependency[Principal]
Stores = NamedDependency[TenantStores]
Rows = NamedDependency[StateRows]
AnyRequest = Request[Any, Any, Any]
Text = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Id = Annotated[str, Meta(pattern=r"^[0-9A-Za-z-]{1,64}\Z")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_STORE: Final = {"permission": Permission.STORE}
_LONGEST_RUN: Final = timedelta(hours=24)


class Session(Struct, frozen=True, kw_only=True):
    """The store, and what the caller may do with it."""

    version: int = 1
    holdfast: str = __version__
    id: str
    key: str
    """The id of the server's key; bundles are sealed for its public half."""
    seal: str
    sign: str
    tenant: str
    role: Role
    can_apply: bool
    can_read_states: bool
    who: dict[str, Any]
    approval_rules: tuple[ApprovalRule, ...] = ()
    """Those of the tenant: a client applies nothing that does not meet them."""


class NewGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For the process that hosts Terraform: one state, and the journal of one run."""

    stack: Text
    run: Annotated[str, Meta(max_length=64)] = ""
    journal: Id | None = None
    reads_state: bool = False
    writes_state: bool = False


class Grant(Struct, frozen=True, kw_only=True):
    version: int = 1
    token: str
    key: str | None
    """Encrypts the journal."""


class TakeOver(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stack: Text
    run: Id
    reason: Text | None = None
    """Why its holder is declared dead; None: that is proved."""


class Rename(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: Text
    new: Text


class NewApproval(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: ApprovalKind
    digest: Digest
    stack: Text
    run: Id
    reason: Annotated[str, Meta(max_length=2000)] = ""
    until: Annotated[str, Meta(max_length=40)] | None = None
    break_glass: bool = False
    """Of an override by an admin: also of the approvals that are missing, and of their own plan."""


class NewAuthor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    digest: Digest
    stack: Text
    run: Id


class MessageKey(Struct, frozen=True, kw_only=True):
    version: int = 1
    key: str


class SealedMessage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a bundle: the public key that it starts with, and its context."""

    public: Annotated[str, Meta(max_length=64)]
    context: Annotated[tuple[Text, ...], Meta(min_length=2, max_length=4)]
    """`bundle`, run, stack and file; or `change` and its id."""


@get("/", opt=_STORE, sync_to_thread=True)
def session(request: AnyRequest, principal: Who, stores: Stores) -> Session:
    store = stores.of(principal.tenant)
    key = store.key
    return Session(
        id=store.id(),
        key=key.id,
        seal=_text(key.public.seal),
        sign=_text(key.public.sign),
        tenant=principal.home_tenant,
        role=principal.role,
        can_apply=principal.may(Permission.RUN),
        can_read_states=principal.may(Permission.READ_STATE),
        who=actor_of(principal, address_of(request.scope)).document(),
        approval_rules=stores.rules(principal.tenant).approvals,
    )


@post("/grants", opt=_STORE, sync_to_thread=True)
def create_grant(
    principal: Who,
    stores: Stores,
    rows: Rows,
    tokens: NamedDependency[TokenRows],
    data: JSONBody[NewGrant],
) -> Grant:
    """A token for one run. One that writes ends with the lease of the run, which its claim took."""
    writes = data.writes_state or data.journal is not None
    _require_grant(principal, data)
    store = stores.of(principal.tenant)
    claims = {"state": data.stack, "run": data.run}
    access = StoreAccess(stores, rows, principal)
    if data.journal is not None and not access.owns_run(data.journal, data.stack):
        raise problem(not_permitted(principal, Permission.RUN))
    if writes:
        lease = access.lease(data.stack, data.run)
        if lease is None:
            raise no_claim(data.stack, data.run)
        claims["fence"] = str(lease.number)
    if data.journal is not None:
        claims["journal"] = data.journal
    granted = tokens.create_run(
        principal,
        claims,
        states=(data.stack,) if data.writes_state else (),
        reads=(data.stack,) if data.reads_state or data.writes_state else (),
        expires=clock.now() + _LONGEST_RUN,
    )
    key = None
    if data.journal is not None:
        name = f"runs/{data.journal}/{RUN_KEY}"
        secret = clock.random_bytes(KEY_SIZE)
        if not store.encrypted.create(name, secret):
            existing = store.encrypted.read(name)
            secret = existing.data if existing is not None else secret
        key = _text(secret)
    return Grant(token=granted.text, key=key)


@post("/takeovers", opt={"permission": Permission.RUN}, status_code=204, sync_to_thread=True)
def take_over(principal: Who, stores: Stores, rows: Rows, data: JSONBody[TakeOver]) -> None:
    """Of the claim of a run that is proved dead, or declared dead for a reason."""
    access = StoreAccess(stores, rows, principal)
    access.take_over(data.stack, data.run, declared=data.reason)


@post("/renames", opt={"permission": Permission.RUN}, status_code=204, sync_to_thread=True)
def rename_state(principal: Who, rows: Rows, data: JSONBody[Rename]) -> None:
    """By who holds both names: the state with its versions passes to the new one."""
    for name in (data.old, data.new):
        if principal.kind == RUN or not (principal.covers_stack(name) and principal.may_write_state(name)):
            raise problem(not_permitted(principal, Permission.RUN))
    tenant = principal.home_tenant
    rows.rename(StateKey(tenant, data.old), StateKey(tenant, data.new), caller_of(principal))


@post("/approvals", opt={"permission": Permission.APPROVE}, sync_to_thread=True)
def approve(request: AnyRequest, principal: Who, stores: Stores, data: JSONBody[NewApproval]) -> None:
    """Of the verified caller, now. A plan is not approved by the person who made it,
    and its denial not overridden by them unless they are an admin who breaks the glass.

    The audit log comes first: a decision that cannot be logged does not count.
    """
    if data.kind is not ApprovalKind.APPROVAL and not data.reason.strip():
        what = "an override" if data.kind is ApprovalKind.OVERRIDE else "a rejection"
        raise UsageError("HF-STORE-25", f"{what} needs a reason", hint="Say why: --reason TEXT")
    who, store = actor_of(principal, address_of(request.scope)), stores.of(principal.tenant)
    _require_stack(principal, data.stack, Permission.APPROVE)
    plan = DecidedPlan(data.digest, data.stack, data.run)
    if data.break_glass:
        require_break_glass(principal, data.kind)
    emergency = f"apply --plan DIR --override {data.digest}"
    require_decidable(store, who, data.kind, plan, emergency, break_glass=data.break_glass)
    until = expiry_of(data.kind, stores.rules(principal.tenant))
    entry = Entry(
        what=data.kind.value,
        reason=data.reason or None,
        until=until,
        details=BREAK_GLASS_DETAILS if data.break_glass else {},
        **plan._asdict(),
    )
    audit = ServerAudit(stores, Redactor())
    audit.record(principal.tenant, principal, entry, address=address_of(request.scope))
    add_decision(
        *(store, principal, who, data.kind, plan),
        reason=data.reason,
        until=until,
        break_glass=data.break_glass,
    )


@post("/authors", opt={"permission": Permission.PLAN}, sync_to_thread=True)
def record_author(
    request: AnyRequest, principal: Who, stores: Stores, rows: Rows, data: JSONBody[NewAuthor]
) -> None:
    """Of a plan of the caller's own run."""
    _require_stack(principal, data.stack, Permission.PLAN)
    if not StoreAccess(stores, rows, principal).owns_run(data.run, data.stack, or_new=True):
        raise problem(not_permitted(principal, Permission.PLAN))
    who = actor_of(principal, address_of(request.scope)).document()
    approvals = stores.of(principal.tenant).approvals
    approvals.record_author(data.digest, who, stack=data.stack, run=data.run)
    recorded = approvals.author(data.digest) or {}
    if not approvals.is_recorded(data.digest, stack=data.stack, run=data.run) or not is_same_person(
        recorded, who
    ):
        raise problem(
            Denial(
                status=409,
                code="HF-APPR-6",
                message=f"{data.stack}: another run or person recorded the same plan before",
                hint=f"Plan again: holdfast plan {data.stack} --out DIR. Find out who recorded this one.",
            )
        )


@post("/exchange", opt={"permission": Permission.OPEN_PLAN}, sync_to_thread=True)
def exchange_key(principal: Who, stores: Stores, data: JSONBody[SealedMessage]) -> MessageKey:
    """Opens one file of a bundle, which is sealed for the tenant's key, if the caller covers its stack."""
    match data.context:
        case ("bundle", _, stack, _):
            if not principal.covers_stack(stack) or not principal.covers_state(stack):
                raise problem(not_permitted(principal, Permission.OPEN_PLAN))
        case ("change", _):
            """Names and digests of its plans."""
        case _:
            raise UsageError("HF-STORE-25", "the context is not that of a file in a bundle")
    try:
        public = base64.b64decode(data.public, validate=True)
        key = sealed_message_key(stores.of(principal.tenant).key, public, "\0".join(data.context))
        return MessageKey(key=_text(key))
    except ValueError:
        raise UsageError("HF-STORE-25", "the public key is not valid") from None


HANDLERS: Final = (
    *(session, create_grant, take_over, rename_state, approve, record_author, append_audit, exchange_key),
)


def store_router(stores: TenantStores, rows: StateRows, *, largest: int) -> Router:
    return Router(
        path="/api/v1/store",
        route_handlers=[*HANDLERS, blobs_router(stores, rows)],
        guards=[_require_protocol],
        response_headers=[ResponseHeader(name=PROTOCOL_FIELD, value=PROTOCOL)],
        request_max_body_size=largest,
    )


async def _require_protocol(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    require_protocol(connection.headers.get(PROTOCOL_FIELD))


def require_protocol(spoken: str | None) -> None:
    if spoken not in {None, PROTOCOL}:
        raise problem(
            Denial(
                status=HTTPStatus.BAD_REQUEST,
                code="HF-STORE-22",
                message=f"the client speaks version {spoken} of the protocol of the run store, and this "
                f"server (Holdfast {__version__}) version {PROTOCOL}",
                hint=f"Install Holdfast {__version__} on the client, or upgrade the server.",
            )
        )


def _require_stack(principal: Principal, stack: str, permission: Permission) -> None:
    if not principal.covers_stack(stack):
        raise problem(not_permitted(principal, permission))


def _require_grant(principal: Principal, data: NewGrant) -> None:
    permission = Permission.RUN if data.writes_state or data.journal else Permission.READ_STATE
    state = principal.may_write_state if data.writes_state else principal.may_read_state
    allowed = principal.kind != "run" and principal.may(permission) and principal.covers_stack(data.stack)
    if not allowed or ((data.reads_state or data.writes_state) and not state(data.stack)):
        raise problem(not_permitted(principal, permission))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
