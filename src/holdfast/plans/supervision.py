"""What the supervising process must know of a command: which store, which journal, which kept state."""

from __future__ import annotations

import base64

from msgspec import Struct

from holdfast.plans.workdir import StackWorkdir
from holdfast.store.place import describe
from holdfast.store.run_store import RunStore


class StateWriter(Struct, frozen=True, kw_only=True):
    """A command that may write the state, and the run it does so for."""

    run: str
    why: str
    journal: str | None = None
    """The id that its journal has; None for what has none."""


def attend(
    store: RunStore, who: str, prepared: StackWorkdir, writes: StateWriter | None
) -> dict[str, object] | None:
    """None where there is nothing to attend to: the code's own backend, and a command that only reads."""
    if not prepared.home.managed and (writes is None or writes.journal is None):
        return None
    told: dict[str, object] = {
        "store": {
            "place": describe(store.blobs),
            "key": base64.b64encode(store.key.secret).decode(),
        }
    }
    if prepared.home.managed:
        told["door"] = {
            "stack": prepared.stack.name,
            "run": writes.run if writes is not None else "",
            "who": who,
            "why": writes.why if writes is not None else "",
            "write": writes is not None,
        }
    if writes is not None and writes.journal is not None:
        told["journal"] = {"run": writes.journal, "spool": str(store.spool)}
    return told
