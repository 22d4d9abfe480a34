"""Tokens: `/api/v1/tokens`. A token is shown once, in the response that creates it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.middleware.rate_limit import RateLimitConfig
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct, convert
from msgspec import ValidationError as MsgspecError
from msgspec.structs import asdict

from holdfast.audit.entry import Entry, What
from holdfast.config.shapes import seconds
from holdfast.identity.federation import Federated, Federation, Untrusted
from holdfast.identity.principal import ALL_TENANTS, Principal, limits
from holdfast.identity.roles import GRANTABLE, Permission, Role
from holdfast.identity.token_rows import CreatedToken, TokenInfo, TokenRows
from holdfast.server.audit_log import ServerAudit
from holdfast.server.exceptions import problem, standard_denial
from holdfast.server.guards import EXCHANGE_HINT, OPEN, Authenticator, address_of, not_permitted
from holdfast.server.problems import Denial, FieldProblem
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.locks import HolderKind, caller_of, is_holder
from holdfast.store.server_states.rows import StateRows
from holdfast.system import clock

Who = NamedDependency[Principal]
Tokens = NamedDependency[TokenRows]
AuditLog = NamedDependency[ServerAudit]
AnyRequest = Request[Any, Any, Any]
Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Tenant = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?\Z")]
Pattern = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Patterns = Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=100)]
_ADMINISTER = {"permission": Permission.ADMINISTER}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST_RUN = timedelta(hours=24)


class NewToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: Role
    name: Name | None = None
    """For people; the role if it is left out."""
    tenant: Tenant | None = None
    """The creator's if it is left out."""
    stacks: Patterns | None = None
    states: Patterns | None = None
    """One of both limits stacks and states; without any the token covers all."""
    groups: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    """That rules about approvals name."""
    expires: Annotated[str, Meta(max_length=40)] | Annotated[int, Meta(ge=1)] | None = None
    """A time (RFC 3339), a duration such as `90d`, or seconds; at the latest when the creator's expires."""


class NewRunToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For the state whose lease the run holds, and until that lease ends."""

    run: Name
    state: Pattern
    reads: Annotated[tuple[Pattern, ...], Meta(max_length=200)] = ()


class Exchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Annotated[str, Meta(min_length=1, max_length=16384)]
    """Of the CI system."""


class TokenDocument(TokenInfo, frozen=True, kw_only=True):
    version: int = 1


class TokenCreated(TokenDocument, frozen=True, kw_only=True):
    token: str


class TokenList(Struct, frozen=True, kw_only=True):
    version: int = 1
    tokens: tuple[TokenInfo, ...]
    next: str | None


class CurrentToken(Struct, frozen=True, kw_only=True):
    """Whose token this request has."""

    version: int = 1
    id: str
    name: str
    kind: str
    role: Role
    tenant: str
    stacks: tuple[str, ...]
    states: tuple[str, ...]
    groups: tuple[str, ...] = ()
    expires: datetime | None = None


@post("/", opt=_ADMINISTER, sync_to_thread=True)
def create_token(
    request: AnyRequest, principal: Who, tokens: Tokens, audit: AuditLog, data: JSONBody[NewToken]
) -> Response[TokenCreated]:
    if data.role not in GRANTABLE:
        raise _invalid("/role", f"must be one of {', '.join(GRANTABLE)}")
    stacks, states = limits(data.stacks, data.states)
    wanted = Principal(
        id="",
        name=data.name or data.role.value,
        kind="token",
        role=data.role,
        tenant=data.tenant or principal.home_tenant,
        stacks=stacks,
        states=states,
        groups=data.groups,
    )
    if not wanted.is_within(principal):
        raise problem(
            Denial(
                status=403,
                code="HF-TOK-4",
                message="a token cannot permit more than the one that creates it",
                hint="Choose a role, tenant, stacks and states that your own token covers.",
            )
        )
    if not tokens.name_is_free(wanted, principal):
        raise problem(
            Denial(
                status=409,
                code="HF-TOK-9",
                message=f"the name {wanted.name} belongs to a person whose tokens you may not create",
                hint="Choose another name: approvals and locks count for the person with this name.",
            )
        )
    created = tokens.create(
        wanted, created_by=principal.name, expires=_expiry(data.expires), parent=principal
    )
    _record(audit, principal, "token-create", created.info, request)
    return _created(created)


@get("/", opt=_ADMINISTER, sync_to_thread=True)
def list_tokens(
    principal: Who,
    tokens: Tokens,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: FromQuery[str] = "",
) -> TokenList:
    """Those that the caller could have created; a page may have fewer than `limit`."""
    page = tokens.list(_tenant_filter(principal), after=cursor, limit=limit)
    shown = tuple(token for token in page if token.is_within(principal))
    return TokenList(tokens=shown, next=page[-1].id if len(page) == limit else None)


@get("/current", opt={"permission": Permission.READ}, sync_to_thread=False)
def current_token(principal: Who, tokens: Tokens) -> CurrentToken:
    known = {name: getattr(principal, name) for name in CurrentToken.__struct_fields__[1:-1]}
    return CurrentToken(**known, expires=tokens.expires(principal.id))


@delete("/{token_id:str}", opt=_ADMINISTER, sync_to_thread=True)
def revoke_token(
    request: AnyRequest,
    principal: Who,
    tokens: Tokens,
    audit: AuditLog,
    token_id: FromPath[str],
    keep_created: FromQuery[bool] = False,  # noqa: FBT002 - a parameter of the address
) -> None:
    """With the tokens that it created, unless they are kept. Revoking it again changes nothing."""
    info = tokens.revoke(token_id, principal, keep_created=keep_created)
    if info is None:
        unknown = f"there is no token {token_id}"
        raise problem(Denial(status=404, code="HF-TOK-5", message=unknown, hint="holdfast token list"))
    _record(audit, principal, "token-revoke", info, request)


@post("/run", opt={"permission": Permission.WRITE_STATE}, sync_to_thread=True)
def create_run_token(
    request: AnyRequest,
    principal: Who,
    tokens: Tokens,
    rows: NamedDependency[StateRows],
    audit: AuditLog,
    data: JSONBody[NewRunToken],
) -> Response[TokenCreated]:
    allowed = principal.may_write_state(data.state) and all(map(principal.may_read_state, data.reads))
    if principal.kind == "run" or not allowed:
        raise problem(not_permitted(principal, Permission.WRITE_STATE))
    row, _ = rows.look(StateKey(principal.home_tenant, data.state))
    lock = row.lock if row is not None else None
    mine = lock is not None and is_holder(lock, caller_of(principal))
    if lock is None or not mine or (lock.kind, lock.run) != (HolderKind.RUN, data.run):
        raise problem(
            Denial(
                status=409,
                code="HF-TOK-6",
                message=f"the run {data.run} of {principal.name} does not hold the lease of {data.state}",
                hint="Take the lease first: the token is valid until that ends.",
            )
        )
    created = tokens.create_for_run(
        principal, run=data.run, state=data.state, reads=data.reads, fence=lock.number,
        expires=clock.now() + _LONGEST_RUN,
    )  # fmt: skip
    _record(audit, principal, "token-create", created.info, request, run=data.run)
    return _created(created)


@post("/", opt=OPEN, sync_to_thread=True)
def exchange_token(
    request: AnyRequest,
    tokens: Tokens,
    federation: NamedDependency[Federation],
    authenticator: NamedDependency[Authenticator],
    audit: AuditLog,
    data: JSONBody[Exchange],
) -> Response[TokenCreated]:
    """A CI token of a trusted issuer for a short-lived one. Each CI token is exchanged once."""
    try:
        verified = federation.verify(data.token)
        _mark_exchanged(tokens, verified)
    except Untrusted as error:
        raise problem(authenticator.refuse(request.scope, str(error), EXCHANGE_HINT)) from None
    except OSError as error:
        raise problem(
            Denial(
                status=503,
                code="HF-TOK-8",
                message="the keys of the token's issuer cannot be read",
                hint="Try again. The server needs to reach the issuer over https.",
                headers=(("retry-after", "10"),),
            )
        ) from error
    tokens.remove_expired()
    until = clock.now() + timedelta(seconds=verified.lifetime)
    created = tokens.create(verified.principal, created_by=verified.issuer, expires=until)
    _record(audit, verified.principal, "token-exchange", created.info, request)
    return _created(created)


def tokens_router(exchanges: RateLimitConfig) -> Router:
    """`exchanges` limits the route that needs no token."""

    async def forget_expired(request: AnyRequest) -> None:
        await exchanges.get_store_from_app(request.app).delete_expired()  # type: ignore[attr-defined]

    limited = Router(
        path="/exchange",
        route_handlers=[exchange_token],
        middleware=[exchanges.middleware],
        after_response=forget_expired,
    )
    routes = (create_token, list_tokens, current_token, revoke_token, create_run_token)
    return Router(path="/api/v1/tokens", route_handlers=[*routes, limited])


def _mark_exchanged(tokens: TokenRows, verified: Federated) -> None:
    expires = datetime.fromtimestamp(verified.expires, tz=clock.now().tzinfo)
    if not tokens.mark_exchanged(verified.issuer, verified.replay_id, expires):
        raise Untrusted("the token was exchanged before; request a new one")


def _created(created: CreatedToken) -> Response[TokenCreated]:
    document = TokenCreated(**asdict(created.info), token=created.text)
    return Response(document, status_code=201, headers={"location": f"/api/v1/tokens/{created.info.id}"})


def _record(
    audit: ServerAudit,
    principal: Principal,
    what: What,
    info: TokenInfo,
    request: AnyRequest,
    *,
    run: str | None = None,
) -> None:
    details: dict[str, str | int | None] = {
        "id": info.id,
        "name": info.name,
        "role": info.role.value,
        "tenant": info.tenant,
        "stacks": " ".join(info.stacks),
        "states": " ".join(info.states),
        **({"groups": ", ".join(info.groups)} if info.groups else {}),
    }
    entry = Entry(what=what, outcome="done", run=run, details=details, until=_iso(info.expires))
    audit.record(info.tenant, principal, entry, address=address_of(request.scope))


def _tenant_filter(principal: Principal) -> str | None:
    return None if principal.tenant == ALL_TENANTS else principal.tenant


def _expiry(wanted: str | int | None) -> datetime | None:
    if wanted is None:
        return None
    text = f"{wanted}T00:00:00Z" if _DAY.fullmatch(str(wanted)) else str(wanted)
    duration = seconds(text)
    try:
        expires = convert(text, datetime) if duration is None else clock.now() + timedelta(seconds=duration)
        if expires.tzinfo is None or expires <= clock.now():
            raise _invalid("/expires", "must be in the future, with a time zone")
    except (MsgspecError, OverflowError):
        raise _invalid(
            "/expires",
            "must be a day (2027-01-31), a time (2027-01-31T12:00:00Z) or a duration (90d)",
        ) from None
    return expires


def _invalid(path: str, message: str) -> Exception:
    return problem(standard_denial(422, errors=(FieldProblem(path=path, message=message),)))


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
