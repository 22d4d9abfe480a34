"""Webhooks of code hosts: `/api/v1/hooks/HOST/REPOSITORY` receives events, the rest are their settings.

An event has no token: it counts because of its signature. It is only stored here; `server/webhooks.py` acts
on it.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, Router, delete, get, post, put
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, RawBody
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from holdfast.audit.entry import Entry, What
from holdfast.identity.principal import ALL_TENANTS, Principal
from holdfast.identity.roles import Permission
from holdfast.notify.webhooks.catalogue import WEBHOOK_HOSTS, webhook_host
from holdfast.notify.webhooks.github import GITHUB_WEBHOOK
from holdfast.notify.webhooks.github_app import require_key
from holdfast.notify.webhooks.interface import (
    MAX_AGE,
    ApplyMode,
    GithubApp,
    WebhookEvent,
    WebhookSettings,
)
from holdfast.server.audit_log import ServerAudit, TenantStores
from holdfast.server.exceptions import problem, standard_denial
from holdfast.server.guards import OPEN, address_of, require_covered
from holdfast.server.problems import Denial, FieldProblem
from holdfast.server.webhooks import read_settings
from holdfast.store.server_runs.sources import Repository, RepositoryRows
from holdfast.store.server_runs.webhooks import Delivery, NewEvent, WebhookRows, settings_name
from holdfast.system import clock

Who = NamedDependency[Principal]
Stores = NamedDependency[TenantStores]
Webhooks = NamedDependency[WebhookRows]
Repositories = NamedDependency[RepositoryRows]
AuditLog = NamedDependency[ServerAudit]
AnyRequest = Request[Any, Any, Any]
_ADMINISTER: Final = {"permission": Permission.ADMINISTER}
_SETTINGS: Final = "/repositories/{repository:str}/webhook"
_SECRET_BYTES: Final = 32
_DELIVERIES: Final = 30
_AHEAD: Final = 3600.0
"""Seconds that the clock of a host may be ahead."""
Project = Annotated[str, Meta(min_length=3, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
Address = Annotated[str, Meta(max_length=300, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._/-]*)?\Z")]
Hidden = Annotated[str, Meta(min_length=1, max_length=1000, pattern=r"^[\x21-\x7e]+\Z")]
Login = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.@+-]{1,200}\Z")]
Pattern = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+\Z")]


class NewApp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(pattern=r"^[0-9A-Za-z.]{1,40}\Z")]
    """Or its client id."""
    installation: Annotated[str, Meta(pattern=r"^[0-9]{1,20}\Z")]
    private_key: Annotated[str, Meta(max_length=20_000)]
    """In PEM."""


class NewWebhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    project: Project
    """The repository's name on the host, such as `acme/infra`."""
    token: Hidden | None = None
    """Of the host's API."""
    app: NewApp | None = None
    """A GitHub App, in place of a token."""
    host: Annotated[str, Meta(max_length=20)] = "github"
    api: Address | None = None
    """Of the host; its usual address if it is left out."""
    secret: Annotated[str, Meta(min_length=16, max_length=200, pattern=r"^[\x21-\x7e]+\Z")] | None = None
    """Signs events; created, and shown once, if there is none before."""
    apply: ApplyMode = ApplyMode.ON_COMMENT
    users: Annotated[tuple[Login, ...], Meta(max_length=200)] = ()
    stacks: Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=100)] = ("*",)


class WebhookDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    repository: str
    """Its id."""
    path: str
    """Where the host sends events, after the address of the server."""
    host: str
    project: str
    api: str
    apply: ApplyMode
    users: tuple[str, ...]
    stacks: tuple[str, ...]
    app: str | None = None
    """The id of the GitHub App."""
    secret: str | None = None
    """Only if it was just created."""
    deliveries: tuple[Delivery, ...] = ()
    """The last events, newest first, with what became of them; only in the answer to GET."""


class Received(Struct, frozen=True, kw_only=True):
    version: int = 1
    status: str
    """`accepted`, or `known`: it was received before."""


@post("/hooks/{host:str}/{repository:str}", opt=dict(OPEN), sync_to_thread=True)
def receive_event(
    request: AnyRequest,
    stores: Stores,
    webhooks: Webhooks,
    host: FromPath[str],
    repository: FromPath[str],
    body: RawBody,
) -> Response[Received | None]:
    registered = webhooks.repository(repository)
    settings = read_settings(stores, registered) if registered is not None else None
    headers = {name.lower(): value for name, value in request.headers.items()}
    if registered is None or settings is None or settings.host != host:
        raise problem(_UNSIGNED)
    webhook = webhook_host(settings.host)
    if not webhook.is_signed(headers, body, settings.secret):
        raise problem(_UNSIGNED)
    if request.content_type[0] != "application/json":
        raise problem(standard_denial(HTTPStatus.UNSUPPORTED_MEDIA_TYPE))
    try:
        event, delivery = webhook.read_event(headers, body), webhook.delivery(headers, body)
    except ValueError as error:
        raise problem(_invalid(f"{webhook.host.title} does not send such events: {error}")) from None
    if event is None:
        return Response(None, status_code=HTTPStatus.NO_CONTENT)
    _require_fitting(event, settings)
    if delivery is None:
        raise problem(_invalid("the event has no delivery id"))
    new = NewEvent(
        tenant=registered.tenant,
        repository=registered.id,
        delivery=delivery,
        body=hashlib.sha256(body).digest(),
        number=event.number,
        head=event.head,
        at=event.at,
        event=msgspec.to_builtins(event),
    )
    if webhooks.receive(new):
        return Response(Received(status="accepted"), status_code=HTTPStatus.ACCEPTED)
    return Response(Received(status="known"), status_code=HTTPStatus.OK)


_UNSIGNED: Final = Denial(
    status=403,
    code="HF-WEBHOOK-1",
    message="the signature of the event is wrong, or there is no such webhook",
    hint="The secret at the code host must be that of PUT /api/v1/repositories/NAME/webhook, and the address "
    "the `path` of its answer.",
)
"""The same for both: who cannot sign learns nothing about repositories."""


def _invalid(message: str) -> Denial:
    hint = "Send the events of pull requests and comments as application/json, from the host itself."
    return Denial(status=422, code="HF-WEBHOOK-2", message=message, hint=hint)


def _require_fitting(event: WebhookEvent, settings: WebhookSettings) -> None:
    if event.project.lower() != settings.project.lower():
        raise problem(
            Denial(
                status=422,
                code="HF-WEBHOOK-3",
                message=f"the event is about another repository than {settings.project}",
                hint="Each repository has a webhook of its own. If it was renamed, set the new name.",
            )
        )
    age = (clock.now() - event.at).total_seconds()
    if not -_AHEAD < age < MAX_AGE:
        raise problem(
            Denial(
                status=422,
                code="HF-WEBHOOK-4",
                message="the event is older than 7 days, or from the future",
                hint="Check the clock of the server. To plan now, comment `holdfast plan`.",
            )
        )


@put(_SETTINGS, opt=_ADMINISTER, sync_to_thread=True)
def set_webhook(
    request: AnyRequest,
    principal: Who,
    stores: Stores,
    repositories: Repositories,
    audit: AuditLog,
    repository: FromPath[str],
    data: JSONBody[NewWebhook],
) -> WebhookDocument:
    """Of a registered repository, by name or id. It replaces the one before.

    Of the same project on the same host, it keeps the token or app and the secret that are left out.
    """
    registered = _registered(repositories, principal, repository)
    before = read_settings(stores, registered)
    require_covered(principal, (*data.stacks, *(before.stacks if before is not None else ())))
    known = [webhook.host.name for webhook in WEBHOOK_HOSTS]
    if data.host not in known:
        raise problem(_field("/host", f"must be one of {', '.join(known)}"))
    webhook = webhook_host(data.host)
    api = data.api or webhook.api
    if webhook.project.match(data.project) is None or {".", ".."} & set(data.project.split("/")):
        raise problem(_field("/project", f"must be the name of a repository on {webhook.host.title}"))
    if api is None:
        raise problem(_field("/api", "must be the address of your organization or server"))
    if not api.startswith("https://") and principal.tenant != ALL_TENANTS:
        raise problem(_field("/api", "must begin with https://"))
    api = api.rstrip("/")
    # A secret is never sent to another place than the one that it was given for.
    place = (data.host, api, data.project)
    kept = before if before is not None and (before.host, before.api, before.project) == place else None
    token, app = data.token or "", GithubApp(**asdict(data.app)) if data.app is not None else None
    if kept is not None and data.token is None and data.app is None:
        token, app = kept.token, kept.app
    else:
        _require_one_login(data)
    new = None if data.secret or kept else webhook.new_secret(clock.random_bytes(_SECRET_BYTES))
    secret = data.secret or (kept.secret if kept is not None else str(new))
    given = {**asdict(data), "secret": secret, "api": api, "token": token, "app": app}
    settings = WebhookSettings(**given)
    stores.of(registered.tenant).encrypted.write(settings_name(registered.id), msgspec.json.encode(settings))
    _record(audit, principal, "webhook-set", registered, settings, request)
    return _document(registered, settings, secret=new)


def _require_one_login(data: NewWebhook) -> None:
    if (data.token is None) == (data.app is None):
        raise problem(_field("/token", "must be there, or `app`, and not both"))
    if data.app is not None and data.host != GITHUB_WEBHOOK.host.name:
        raise problem(_field("/app", "must be left out: only GitHub has apps"))
    if data.app is not None:
        try:
            require_key(data.app.private_key)
        except ValueError as error:
            raise problem(_field("/app/private_key", str(error))) from None


@get(_SETTINGS, opt=_ADMINISTER, sync_to_thread=True)
def show_webhook(
    principal: Who, stores: Stores, webhooks: Webhooks, repositories: Repositories, repository: FromPath[str]
) -> WebhookDocument:
    """With the last events that were accepted, newest first, and what became of them."""
    registered = _registered(repositories, principal, repository)
    document = _document(registered, _settings(stores, registered))
    return replace(document, deliveries=webhooks.deliveries(registered.id, limit=_DELIVERIES))


@delete(_SETTINGS, opt=_ADMINISTER, sync_to_thread=True)
def remove_webhook(
    request: AnyRequest,
    principal: Who,
    stores: Stores,
    repositories: Repositories,
    audit: AuditLog,
    repository: FromPath[str],
) -> None:
    registered = _registered(repositories, principal, repository)
    settings = _settings(stores, registered)
    require_covered(principal, settings.stacks)
    stores.of(registered.tenant).encrypted.remove(settings_name(registered.id))
    _record(audit, principal, "webhook-remove", registered, settings, request)


def _registered(repositories: RepositoryRows, principal: Principal, name: str) -> Repository:
    registered = repositories.of(principal.home_tenant, name)
    if registered is None:
        raise problem(_absent(f"there is no repository {name}"))
    return registered


def _settings(stores: TenantStores, registered: Repository) -> WebhookSettings:
    settings = read_settings(stores, registered)
    if settings is None:
        raise problem(_absent(f"the repository {registered.name} has no webhook"))
    return settings


def _absent(message: str) -> Denial:
    hint = "Register it: POST /api/v1/repositories, then PUT /api/v1/repositories/NAME/webhook."
    return Denial(status=404, code="HF-WEBHOOK-5", message=message, hint=hint)


def _field(path: str, message: str) -> Denial:
    return standard_denial(422, errors=(FieldProblem(path=path, message=message),))


def _document(
    registered: Repository, settings: WebhookSettings, *, secret: str | None = None
) -> WebhookDocument:
    return WebhookDocument(
        repository=registered.id,
        path=f"/api/v1/hooks/{settings.host}/{registered.id}",
        host=settings.host,
        project=settings.project,
        api=settings.api,
        apply=settings.apply,
        users=settings.users,
        stacks=settings.stacks,
        app=settings.app.id if settings.app is not None else None,
        secret=secret,
    )


def _record(
    audit: ServerAudit,
    principal: Principal,
    what: What,
    registered: Repository,
    settings: WebhookSettings,
    request: AnyRequest,
) -> None:
    details: dict[str, str | int | None] = {
        "repository": registered.name,
        "project": settings.project,
        "apply": settings.apply.value,
    }
    entry = Entry(what=what, outcome="done", details=details)
    audit.record(registered.tenant, principal, entry, address=address_of(request.scope))


def webhooks_router() -> Router:
    return Router(path="/api/v1", route_handlers=[receive_event, set_webhook, show_webhook, remove_webhook])
