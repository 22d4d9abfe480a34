"""A state in the run store: a version of a managed state, or a backup of one that is stored elsewhere.

One line of JSON describes it; the state follows, byte for byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.secret import masked_repr
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.terraform.statefile.model import State

_FORMAT = 1
_NOT_DESCRIBED = ("state", "number", "name")


class StateSnapshot(NamedTuple):
    serial: int
    lineage: str
    resources: int | None
    """Managed resources; None if the state is encrypted."""
    run: str | None
    who: str
    why: str
    """The operation: apply, push, rollback, adopt."""
    state: bytes
    at: str = ""
    """When it was written; set by the store."""
    number: int = 0
    """The version's number, for a managed state."""
    name: str = ""
    """The backup's name, which sorts by time."""

    def __repr__(self) -> str:
        return masked_repr(self)

    @classmethod
    def of(cls, content: bytes, state: State, *, run: str | None, who: str, why: str) -> StateSnapshot:
        """`state` is the decoded `content`."""
        return cls(
            serial=state.serial,
            lineage=state.lineage,
            resources=state.managed,
            run=run,
            who=who,
            why=why,
            state=content,
        )


def pack(new: StateSnapshot) -> tuple[bytes, StateSnapshot]:
    """The bytes to write, and the copy as it will be read back."""
    new = new._replace(at=clock.now().isoformat())
    described = {name: value for name, value in new._asdict().items() if name not in _NOT_DESCRIBED}
    head = json.dumps({"version": _FORMAT, **described}, ensure_ascii=False).encode()
    return head + b"\n" + new.state, new


def unpack(data: bytes, *, what: str, number: int = 0, name: str = "") -> StateSnapshot:
    head, _, state = data.partition(b"\n")
    described = json.loads(head)
    if described.pop("version") != _FORMAT:
        raise UnknownOutcome("HF-STORE-2", f"{what} has an unknown format")
    return StateSnapshot(**described, state=state, number=number, name=name)
