"""A whole state as the store keeps it, be it a version of a kept one or a copy of one that lies elsewhere.

One line says what it is and who wrote it; the state follows, byte for byte.
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
    """How many it holds that Terraform made; None where the state is encrypted."""
    run: str | None
    who: str
    why: str
    """What wrote it: apply, push, rollback, adopt."""
    state: bytes = field(repr=False)

    @classmethod
    def of(cls, content: bytes, state: State, *, run: str | None, who: str, why: str) -> StateCopy:
        """`state` is what was read in `content`."""
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
    """What is written, and what will be read of it."""
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
    said = {name: value for name, value in fields.items() if name != "state"}
    head = json.dumps({"version": _FORMAT, **said}, ensure_ascii=False).encode()
    return head + b"\n" + new.state, fields


def unpack(data: bytes, *, what: str) -> CopyFields:
    head, _, state = data.partition(b"\n")
    said = json.loads(head)
    if said.pop("version") != _FORMAT:
        raise UnknownOutcome("HF-STORE-2", f"{what} has an unknown format")
    said["state"] = state
    found: CopyFields = said
    return found
