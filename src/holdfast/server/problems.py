"""Problem documents: the body of every failed request, with the same code, message and hint as the CLI's."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from msgspec import Struct

MEDIA_TYPE = "application/problem+json"


class FieldProblem(Struct, frozen=True, kw_only=True):
    path: str
    """A JSON pointer into the request."""
    message: str


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
