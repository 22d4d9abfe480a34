"""Where the code of runs comes from: `/api/v1/uploads` and `/api/v1/repositories`."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter, RawBody
from msgspec import Meta, Struct

from holdfast.audit.entry import Entry, What
from holdfast.config.secret_refs import SCHEMES, parse_locator
from holdfast.identity.principal import ALL_TENANTS, Principal
from holdfast.identity.roles import Permission
from holdfast.server.audit_log import TenantStores
from holdfast.server.exceptions import problem
from holdfast.server.guards import address_of, not_permitted, require_covered
from holdfast.server.problems import Denial
from holdfast.server.run_requests import RunRequests, invalid_field
from holdfast.store.server_runs.contents import upload_name
from holdfast.store.server_runs.sources import Repository
from holdfast.system import clock

Who = NamedDependency[Principal]
Requests = NamedDependency[RunRequests]
AnyRequest = Request[Any, Any, Any]
Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[0-9A-Za-z][0-9A-Za-z._/-]*\Z")]
Branch = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_](?:[0-9A-Za-z_/+@-]|\.(?!\.)){0,199}\Z")]
_HOST: Final = r"[0-9A-Za-z.-]+(?::[0-9]{1,5})?"
_URL: Final = rf"^(?:https://{_HOST}/|ssh://(?:[0-9A-Za-z._-]+@)?{_HOST}/|[0-9A-Za-z._-]+@[0-9A-Za-z.-]+:)[^\x00-\x20\x7f@?#]+\Z"
_ADDRESS: Final = (
    "must be https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH, without a password; http, file and "
    "git are not supported"
)
Address = Annotated[str, Meta(max_length=500, pattern=_URL, description=_ADDRESS)]
"""Without a user and a password: those are in `credentials`."""
_ADMINISTER: Final = {"permission": Permission.ADMINISTER}
_GZIP: Final = b"\x1f\x8b"
_ALL_STACKS: Final = ("*",)
"""Any of them may run the code behind the name of a repository."""
_LOCAL_SCHEMES: Final = frozenset({"env", "file", "dotenv"})


class UploadCreated(Struct, frozen=True, kw_only=True):
    version: int = 1
    id: str
    digest: str
    """SHA-256."""
    size: int


class NewRepository(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    url: Address
    branch: Branch = "main"
    """The default branch."""
    credentials: Annotated[str, Meta(max_length=2100)] | None = None
    """A reference to a secret, such as `vault:kv/git#token`; a worker reads it."""


class RepositoryDocument(Repository, frozen=True, kw_only=True):
    version: int = 1


class RepositoryList(Struct, frozen=True, kw_only=True):
    version: int = 1
    repositories: tuple[Repository, ...]
    next: str | None


@post("/api/v1/uploads", opt={"permission": Permission.PLAN}, sync_to_thread=True)
def upload(
    principal: Who, requests: Requests, stores: NamedDependency[TenantStores], body: RawBody
) -> Response[UploadCreated]:
    """A tar.gz of the repository. It is stored encrypted; a worker checks its paths when it unpacks it."""
    if not body.startswith(_GZIP):
        raise problem(
            Denial(
                status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                code="HF-SRV-23",
                message="the upload is not a tar.gz",
                hint="Send the bytes of a gzip file: tar cz . | curl --data-binary @- …",
            )
        )
    id_, digest = clock.new_id(), hashlib.sha256(body).hexdigest()
    stores.of(principal.tenant).encrypted.write(upload_name(id_), body)
    requests.sources.add_upload(
        principal.home_tenant, id_=id_, digest=digest, size=len(body), by=principal.subject
    )
    return Response(
        UploadCreated(id=id_, digest=digest, size=len(body)),
        status_code=HTTPStatus.CREATED,
        media_type="application/json",
    )


@post("/api/v1/repositories", opt=_ADMINISTER, sync_to_thread=True)
def add_repository(
    request: AnyRequest, principal: Who, requests: Requests, data: JSONBody[NewRepository]
) -> Response[RepositoryDocument]:
    require_covered(principal, _ALL_STACKS)
    if data.credentials is not None:
        _require_reference(principal, data.credentials)
    added = requests.repositories.add(
        principal.home_tenant,
        name=data.name,
        url=data.url,
        branch=data.branch,
        credentials=data.credentials,
        by=principal.name,
    )
    if added is None:
        raise problem(
            Denial(
                status=HTTPStatus.CONFLICT,
                code="HF-SRV-24",
                message=f"there is a repository {data.name} already",
                hint="Remove it first: DELETE /api/v1/repositories/ID",
            )
        )
    _record(request, principal, requests, "repository-add", added)
    location = {"location": f"/api/v1/repositories/{added.id}"}
    return Response(_document(added), status_code=HTTPStatus.CREATED, headers=location)


@get("/api/v1/repositories", opt=_ADMINISTER, sync_to_thread=True)
def list_repositories(
    principal: Who,
    requests: Requests,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: FromQuery[str] = "",
) -> RepositoryList:
    page = requests.repositories.list(principal.home_tenant, after=cursor, limit=limit)
    return RepositoryList(repositories=page, next=page[-1].id if len(page) == limit else None)


@delete("/api/v1/repositories/{repository_id:str}", opt=_ADMINISTER, sync_to_thread=True)
def remove_repository(
    request: AnyRequest, principal: Who, requests: Requests, repository_id: FromPath[str]
) -> None:
    """Runs of it that have not begun fail."""
    require_covered(principal, _ALL_STACKS)
    repository = requests.repositories.of(principal.home_tenant, repository_id)
    if repository is None or not requests.repositories.remove(principal.home_tenant, repository.id):
        message = f"there is no repository {repository_id}"
        raise problem(Denial(status=404, code="HF-RUN-29", message=message, hint="GET /api/v1/repositories"))
    _record(request, principal, requests, "repository-remove", repository)


def sources_router(*, largest: int) -> Router:
    uploads = Router(path="/", route_handlers=[upload], request_max_body_size=largest)
    return Router(path="/", route_handlers=[uploads, add_repository, list_repositories, remove_repository])


def _require_reference(principal: Principal, text: str) -> None:
    """What is on the machine of a worker is the operator's: another tenant could send it anywhere."""
    scheme, _, locator = text.partition(":")
    try:
        parse_locator(scheme, locator)
    except (KeyError, ValueError):
        forms = ", ".join(rules.form for rules in SCHEMES.values())
        raise invalid_field("/credentials", f"must be a reference to a secret: {forms}") from None
    if scheme in _LOCAL_SCHEMES and principal.tenant != ALL_TENANTS:
        raise problem(not_permitted(principal, Permission.ADMINISTER))


def _document(repository: Repository) -> RepositoryDocument:
    return RepositoryDocument(**{name: getattr(repository, name) for name in Repository.__struct_fields__})


def _record(
    request: AnyRequest, principal: Principal, requests: RunRequests, what: What, repository: Repository
) -> None:
    entry = Entry(what=what, details={"name": repository.name, "url": repository.url})
    address = address_of(request.scope)
    requests.audit.record(principal.home_tenant, principal, entry, address=address)
