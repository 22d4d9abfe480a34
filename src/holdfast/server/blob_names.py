"""Names of blobs in the run store of a server: one spelling for each, and what is wrong with others."""

from __future__ import annotations

import re
from typing import Final, TypeVar

import msgspec

from holdfast.kernel.errors import UsageError
from holdfast.server.exceptions import problem
from holdfast.server.problems import Denial
from holdfast.server.state_protocol import valid_name
from holdfast.store.blobs import decode_name, encode_name
from holdfast.store.server_blobs import ABSENT, CHANGED
from holdfast.store.server_states.blobs import LOCKS, VERSIONS

CLAIMS: Final = "claims"
RUNS: Final = "runs"
OF_STACKS: Final = frozenset(
    {CLAIMS, "backups", "errored", "files", "records", "hooks", "retired", "not-renamed", "drift"}
)
"""The second part of such a name is a stack."""
_LONGEST_NAME: Final = 1000
_RUN_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_PARTS: Final = {VERSIONS: 3, LOCKS: 2, CLAIMS: 2}
"""Of a name with this beginning."""
_SHORTEST_RUN: Final = 2
_T = TypeVar("_T")


def require_name(name: str, *, folder: bool = False) -> None:
    """`folder`: the beginning of names."""
    parts = name.split("/")
    if len(name) > _LONGEST_NAME or not name.isprintable() or any(part in {"", ".", ".."} for part in parts):
        raise invalid("the name of the blob is not valid")
    top, of = parts[0], parts[1] if len(parts) > 1 else None
    if of is not None and top in OF_STACKS | _PARTS.keys():
        _require_stack_part(top, of)
    if of is not None and top == RUNS and not _RUN_ID.fullmatch(of):
        raise invalid("the name of the blob does not have the id of a run")
    whole = len(parts) == _PARTS[top] if top in _PARTS else top != RUNS or len(parts) > _SHORTEST_RUN
    if not folder and not (whole and (top != VERSIONS or _NUMBER.fullmatch(parts[-1]))):
        raise invalid("the name of the blob is not complete")


def _require_stack_part(top: str, part: str) -> None:
    """One spelling for each stack: another one would be another blob with the same lease."""
    stack = decode_name(part)
    if encode_name(stack) != part:
        raise invalid("the stack in the name of the blob is not written as Holdfast writes it")
    if top in _PARTS:
        valid_name(stack)


def decoded(data: bytes, kind: type[_T], wrong: str) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        raise invalid(wrong) from None


def absent(name: str) -> Exception:
    return problem(Denial(status=404, code=ABSENT, message=f"there is no blob {name}"))


def changed(name: str) -> Exception:
    return problem(Denial(status=412, code=CHANGED, message=f"{name} was changed or exists"))


def invalid(message: str) -> UsageError:
    return UsageError("HF-STORE-25", message, hint="Use the client of Holdfast: `store: https://HOST`.")
