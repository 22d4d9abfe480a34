"""Problem documents: the body of every failed request, with the same code, message and hint as the CLI's."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from msgspec import Struct

from holdfast.database.errors import DatabaseBusy, DatabaseRefused, DatabaseUnavailable
from holdfast.kernel.errors import Exit, HoldfastError
from holdfast.store.server_states.locks import StateRefusal

MEDIA_TYPE = "application/problem+json"
UNAVAILABLE = 503
_STATUSES = {"HF-STATE-51": 404}
_BY_EXIT = {Exit.USAGE: 422, Exit.REFUSED: 409, Exit.BUSY: 409}


class FieldProblem(Struct, frozen=True, kw_only=True):
    path: str
    """A JSON pointer into the request."""
    message: str

    @property
    def shown(self) -> str:
        named = not self.path or f"`{self.path.rpartition('/')[2]}`" in self.message
        return self.message if named else f"`{self.path.removeprefix('/')}`: {self.message}"


class Denial(Struct, frozen=True, kw_only=True):
    """Why a request is refused; `headers` are sent with it."""

    status: int
    code: str
    message: str
    hint: str | None = None
    errors: tuple[FieldProblem, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    def body(self) -> bytes:
        return msgspec.json.encode(
            {
                "type": "about:blank",
                "title": HTTPStatus(self.status).phrase,
                "status": self.status,
                "detail": self.message,
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
                "errors": self.errors,
            }
        )


def denial_from(error: HoldfastError | StateRefusal) -> Denial:
    """4xx: the client can do something about it. 503: it may try again."""
    if isinstance(error, StateRefusal):
        status, code, message, hint = error.status, error.code, error.message, error.hint
    else:
        code, message, hint = error.problem.code, error.problem.message, error.problem.hint
        if isinstance(error, DatabaseUnavailable | DatabaseBusy | DatabaseRefused):
            # Where the database is concerns only the log of the server.
            status, message = UNAVAILABLE, "the server cannot use its database at the moment"
            hint = "Try again. If it lasts, the server's log and `holdfast db status` there say why."
        else:
            status = _STATUSES.get(code) or _BY_EXIT.get(error.exit, 500)
    headers = (("retry-after", "2"),) if status == UNAVAILABLE else ()
    return Denial(status=status, code=code, message=message, hint=hint, headers=headers)
