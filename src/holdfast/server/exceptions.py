"""What an exception of a route becomes: a problem document, by Litestar's own plugin."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from http import HTTPStatus

from litestar.exceptions import HTTPException, ValidationException
from litestar.plugins.problem_details import (
    ProblemDetailsConfig,
    ProblemDetailsException,
    ProblemDetailsPlugin,
)

from holdfast.kernel.errors import HoldfastError, internal_error
from holdfast.server.problems import Denial, FieldProblem, denial_from
from holdfast.server.validation import in_words, pointer
from holdfast.store.server_states.locks import StateRefusal

_CODES = {
    400: ("HF-SRV-10", "the request is malformed", "Is the body valid JSON, without NUL characters?"),
    403: ("HF-SRV-22", "another site sent this request through a browser", None),
    404: ("HF-SRV-11", "there is nothing at this address", "The addresses are in /openapi.json."),
    405: ("HF-SRV-12", "this address does not support the method", "The Allow header names those it does."),
    408: ("HF-SRV-13", "the request took too long to arrive", None),
    413: ("HF-SRV-14", "the request is larger than the server accepts", "Split it, or raise `limits`."),
    415: ("HF-SRV-15", "the body must be application/json", "Send Content-Type: application/json."),
    422: ("HF-SRV-16", "the request is not valid", "/openapi.json has the fields of every request."),
    429: ("HF-SRV-17", "too many requests", "Wait as long as Retry-After says."),
    503: ("HF-SRV-18", "the server has too many requests at the moment", "Try again in a moment."),
}
_SHOWN = 5
"""Wrong fields that the message names; `errors` has all of them."""
_UNAVAILABLE = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class SlowBodyError(HTTPException):
    """The body of a request does not arrive in time."""

    status_code = HTTPStatus.REQUEST_TIMEOUT


def standard_denial(status: int, *, errors: tuple[FieldProblem, ...] = (), wait: int = 1) -> Denial:
    """The problem of a status that needs no more explanation."""
    code, message, hint = _CODES.get(status) or ("HF-SRV-10", HTTPStatus(status).phrase.lower(), None)
    shown = "; ".join(error.shown for error in errors[:_SHOWN])
    message = f"{message}: {shown}" if errors else message
    headers = (("retry-after", str(wait)),) if status in _UNAVAILABLE else ()
    return Denial(status=status, code=code, message=message, hint=hint, errors=errors, headers=headers)


def problem(denial: Denial) -> ProblemDetailsException:
    return ProblemDetailsException(
        status_code=denial.status,
        type_="about:blank",
        title=HTTPStatus(denial.status).phrase,
        detail=denial.message,
        headers=dict(denial.headers) or None,
        extra={
            "code": denial.code,
            "message": denial.message,
            "hint": denial.hint,
            "errors": [{"path": error.path, "message": error.message} for error in denial.errors],
        },
    )


def problem_details(on_fault: Callable[[Exception], None]) -> ProblemDetailsPlugin:
    """`on_fault` gets what is a mistake of the server."""
    kinds = (HTTPException, HoldfastError, StateRefusal, Exception)
    convert = functools.partial(problem_from, on_fault=on_fault)
    return ProblemDetailsPlugin(
        ProblemDetailsConfig(exception_to_problem_detail_map=dict.fromkeys(kinds, convert))
    )


def problem_from(error: Exception, on_fault: Callable[[Exception], None]) -> ProblemDetailsException:
    if isinstance(error, ProblemDetailsException):
        return error
    if isinstance(error, HTTPException) and error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
        return _from_http(error)
    if not isinstance(error, HoldfastError | StateRefusal):
        error = internal_error(error, "serving a request")
    denial = denial_from(error)
    if denial.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        on_fault(error)
    return problem(denial)


def _from_http(error: HTTPException) -> ProblemDetailsException:
    if isinstance(error, ValidationException):
        errors = tuple(map(_field_problem, error.extra)) if isinstance(error.extra, list) else ()
        return problem(standard_denial(HTTPStatus.UNPROCESSABLE_ENTITY, errors=errors))
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    wait = int(headers.get("ratelimit-reset", "1"))
    found = problem(standard_denial(error.status_code, wait=max(1, wait)))
    found.headers = {**headers, **(found.headers or {})}
    return found


def _field_problem(extra: dict[str, str]) -> FieldProblem:
    """A JSON pointer into the body; for a parameter, its name in the address."""
    key, message = extra.get("key", ""), extra.get("message", "")
    if message == "'data'":
        message = "the request has no body"
    parts = [part for part in re.split(r"[.\[\]]+", key.removeprefix("data")) if part]
    return FieldProblem(path=pointer(parts), message=in_words(message))
