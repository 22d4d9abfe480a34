"""Blobs of the run store by name: `/api/v1/store/blobs`, their names, and several of them at once."""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import unquote

from anyio import to_thread
from litestar import Request, Response, Router, delete, get, post, put
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers.base import BaseRouteHandler
from litestar.params import FromQuery, JSONBody, RawBody
from msgspec import Meta, Struct

from holdfast.identity.roles import Permission
from holdfast.server.audit_log import TenantStores
from holdfast.server.blob_names import RUNS, require_name
from holdfast.server.claims import FencedChange
from holdfast.server.store_access import StoreAccess
from holdfast.store.blobs import StoredBlob
from holdfast.store.server_blobs import SIGNED_FIELD, TAG_FIELD
from holdfast.store.server_states.rows import StateRows

AnyRequest = Request[Any, Any, Any]
Access = NamedDependency[StoreAccess]
_STORE: Final = {"permission": Permission.STORE}
_TAG: Final = re.compile(r"[A-Za-z0-9_-]{8,64}")
PAGE: Final = 5000


class NameList(Struct, frozen=True, kw_only=True):
    version: int = 1
    names: tuple[str, ...]
    next: str | None


class Wanted(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names of blobs; one that ends with `/` is a folder, whose names are wanted."""

    names: Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(max_length=20)]


class Blob(Struct, frozen=True, kw_only=True):
    data: str
    tag: str
    signed: bool


class Found(Struct, frozen=True, kw_only=True):
    """What is large, long or not for the caller is left out: it has a request and an error of its own."""

    version: int = 1
    blobs: dict[str, Blob | None]
    """None: there is no such blob. Of a folder with versions of a state, also the newest."""
    folders: dict[str, tuple[str, ...]]


@get("/blobs/{name:path}", opt=_STORE, sync_to_thread=True)
def read_blob(request: AnyRequest, access: Access) -> Response[bytes]:
    blob = access.read(_name(request.scope))
    signed = "1" if blob.signed else "0"
    headers = {"etag": f'"{blob.tag}"', SIGNED_FIELD: signed}
    return Response(blob.data, media_type="application/octet-stream", headers=headers)


@put("/blobs/{name:path}", opt=_STORE, sync_to_thread=True)
def write_blob(
    request: AnyRequest,
    access: Access,
    body: RawBody,
    durable: FromQuery[bool] = True,  # noqa: FBT002 - a parameter of the address
) -> Response[None]:
    """If-None-Match: * creates it, If-Match replaces the one with this tag; without both, it is written."""
    name, match = _name(request.scope), _match(request)
    if request.headers.get("if-none-match") == "*":
        tag = access.create(name, body)
    elif match is not None:
        tag = access.replace(name, body, match)
    else:
        tag = access.write(name, body, durable=durable)
    return Response(None, status_code=HTTPStatus.OK, headers={"etag": f'"{tag}"'})


@delete("/blobs/{name:path}", opt=_STORE, sync_to_thread=True)
def remove_blob(request: AnyRequest, access: Access) -> None:
    access.remove(_name(request.scope), _match(request))


@get("/names", opt=_STORE, sync_to_thread=True)
def list_names(access: Access, folder: FromQuery[str] = "", cursor: FromQuery[str] = "") -> NameList:
    if folder:
        require_name(folder, folder=True)
    names = access.names(folder)
    begin = bisect_right(names, cursor) if cursor else 0
    page = names[begin : begin + PAGE]
    return NameList(names=page, next=page[-1] if begin + PAGE < len(names) else None)


@post("/reads", opt=_STORE, status_code=HTTPStatus.OK, sync_to_thread=True)
def read_several(access: Access, data: JSONBody[Wanted]) -> Found:
    """What a command reads next, in one request."""
    blobs, folders = access.read_several(data.names)
    return Found(
        blobs={name: _blob(blob) if blob is not None else None for name, blob in blobs.items()},
        folders={name: names for name, names in folders.items() if len(names) <= PAGE},
    )


HANDLERS: Final = (read_blob, write_blob, remove_blob, list_names, read_several)


def access_of(
    stores: TenantStores, rows: StateRows, request: AnyRequest, change: FencedChange | None = None
) -> StoreAccess:
    """For its principal, with the tag that the client chose for a write."""
    given = request.headers.get(TAG_FIELD, "")
    tag = given if _TAG.fullmatch(given) else None
    return StoreAccess(stores, rows, request.scope["user"], tag=tag, change=change)


def blobs_router(stores: TenantStores, rows: StateRows) -> Router:
    def access(request: AnyRequest) -> StoreAccess:
        return access_of(stores, rows, request)

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        """Before the body is read: what a token may not write takes no memory."""
        scope: Any = connection.scope
        if scope["method"] == "PUT" and _name(scope).startswith(f"{RUNS}/"):
            # Whose run it is, the database knows.
            await to_thread.run_sync(require_writable, stores, rows, scope)
        else:
            require_writable(stores, rows, scope)

    return Router(
        path="/",
        route_handlers=HANDLERS,
        dependencies={"access": Provide(access, sync_to_thread=False)},
        guards=[guard],
    )


def require_writable(stores: TenantStores, rows: StateRows, scope: Any) -> None:
    """As far as that is known without the body."""
    if scope["method"] == "PUT":
        StoreAccess(stores, rows, scope["user"]).require_writable(_name(scope))


def _blob(blob: StoredBlob) -> Blob:
    return Blob(data=base64.b64encode(blob.data).decode(), tag=blob.tag, signed=blob.signed)


def _name(scope: Any) -> str:
    """Percent-decoded once."""
    raw = scope["raw_path"].decode("latin-1").partition("?")[0]
    return unquote(raw.partition("/store/blobs/")[2])


def _match(request: AnyRequest) -> str | None:
    text = request.headers.get("if-match")
    return text.strip('"') if text is not None else None
