"""What clients of the run store record in the audit log: `POST /api/v1/store/audit`.

The server adds who and when, and refuses acts that the caller could not have done. It records itself what it
does: tokens, and changes of states beside runs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Annotated, Any, Final

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta, Struct, field

from holdfast.audit.entry import ACCEPT_LOSS, Entry, document_of
from holdfast.audit.layout import piece_seqs, read_piece
from holdfast.audit.log import append_lines
from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Permission
from holdfast.secrets.redact import Redactor
from holdfast.server.audit_log import TenantStores, actor_of
from holdfast.server.exceptions import problem
from holdfast.server.guards import address_of, not_permitted
from holdfast.store.server_blobs import ATTEMPT_FIELD
from holdfast.system import clock

_LOOK_BACK: Final = 50
"""Pieces of the audit log in which entries that are sent again are looked for."""
_LOG: Final = threading.Lock()
"""Of the audit logs: writers in one process need not race."""
_PERMISSIONS: Final[Mapping[str, Permission | None]] = {
    "plan": Permission.PLAN,
    "pull": Permission.READ_STATE,
    "output": Permission.READ_STATE,
    **dict.fromkeys(("approve", "reject", "override"), None),
    **dict.fromkeys((ACCEPT_LOSS, "rotate"), Permission.ADMINISTER),
    **dict.fromkeys(("pin", "purge", "delete", "unlocked-writes"), None),
    **dict.fromkeys(("token-create", "token-revoke", "token-exchange"), None),
    **dict.fromkeys(("webhook-set", "webhook-remove"), None),
    **dict.fromkeys(("outgoing-webhook-add", "outgoing-webhook-remove"), None),
    "notify-test": None,
    **dict.fromkeys(("event-submit", "event-retry", "event-rollback"), None),
    **dict.fromkeys(("cancel", "repository-add", "repository-remove"), None),
}
"""What an act needs; None: only the server records it. The others need `run`."""


class NewLine(Entry, frozen=True, kw_only=True):
    details: Mapping[str, str | int | None] = field(default_factory=dict)
    change: str | None = None


class NewLines(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    batch: Annotated[str, Meta(pattern=r"^[0-9A-Za-z-]{1,64}\Z")]
    """The same when the request is sent again."""
    entries: Annotated[tuple[NewLine, ...], Meta(min_length=1, max_length=1000)]


class LogEnd(Struct, frozen=True, kw_only=True):
    version: int = 1
    seq: int
    hash: str


@post("/audit", opt={"permission": Permission.STORE}, sync_to_thread=True)
def append_audit(
    request: Request[Any, Any, Any],
    principal: NamedDependency[Principal],
    stores: NamedDependency[TenantStores],
    data: JSONBody[NewLines],
) -> LogEnd:
    """Durable with the response."""
    for line in data.entries:
        _require(principal, line)
    who, at, redactor = actor_of(principal, address_of(request.scope)), clock.now().isoformat(), Redactor()
    documents: list[dict[str, object]] = [
        {**document_of(line, who=who, at=at, change=line.change, redactor=redactor), "batch": data.batch}
        for line in data.entries
    ]
    with _LOG, stores.transaction(principal.tenant) as store:
        if request.headers.get(ATTEMPT_FIELD, "1") != "1":
            mark = f'"batch":"{data.batch}"'.encode()
            for seq in reversed(piece_seqs(store)[-_LOOK_BACK:]):
                piece = read_piece(store, seq)
                if piece is not None and any(mark in line for line in piece.lines or ()):
                    documents = []
        end = append_lines(store, documents)
    return LogEnd(seq=end.seq, hash=end.hash)


def _require(principal: Principal, line: NewLine) -> None:
    permission = _PERMISSIONS.get(line.what, Permission.RUN)
    covered = line.stack is None or principal.covers_stack(line.stack)
    if principal.kind == RUN or permission is None or not principal.may(permission) or not covered:
        raise problem(not_permitted(principal, permission or Permission.ADMINISTER))
