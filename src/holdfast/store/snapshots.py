"""A state in the run store: a version of a managed state, or a backup of one that is stored elsewhere.

One line of JSON describes it; the state follows, byte for byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypedDict

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import dataclass, field
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.terraform.statefile.model import State

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCopy:
    serial: int
    lineage: str
    resources: int | None
    """Managed resources; None if the state is encrypted."""
    run: str | None
    who: str
    why: str
    """The operation: apply, push, rollback, adopt."""
    state: bytes = field(repr=False)

    @classmethod
    def of(cls, content: bytes, state: State, *, run: str | None, who: str, why: str) -> StateCopy:
        """`state` is the decoded `content`."""
        return StateCopy(
            serial=state.serial,
            lineage=state.lineage,
            resources=state.managed,
            run=run,
            who=who,
            why=why,
            state=content,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCopy(StateCopy):
    at: str


class CopyFields(TypedDict):
    serial: int
    lineage: str
    resources: int | None
    run: str | None
    who: str
    why: str
    at: str
    state: bytes


def pack(new: StateCopy) -> tuple[bytes, CopyFields]:
    """The bytes, and the fields that reading them gives."""
    fields: CopyFields = {
        "serial": new.serial,
        "lineage": new.lineage,
        "resources": new.resources,
        "run": new.run,
        "who": new.who,
        "why": new.why,
        "at": clock.now().isoformat(),
        "state": new.state,
    }
    described = {name: value for name, value in fields.items() if name != "state"}
    head = json.dumps({"version": _FORMAT, **described}, ensure_ascii=False).encode()
    return head + b"\n" + new.state, fields


def unpack(data: bytes, *, what: str) -> CopyFields:
    head, _, state = data.partition(b"\n")
    document = json.loads(head)
    if document.pop("version") != _FORMAT:
        raise UnknownOutcome("HF-STORE-2", f"{what} has an unknown format")
    fields: CopyFields = document | {"state": state}
    return fields
