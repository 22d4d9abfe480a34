"""What the caller tells the supervisor about a command: run store, managed state and journal."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.store.blobs import encode_name
from holdfast.store.run_store import RunStore


class StateWriter(NamedTuple):
    """A run whose command may write the state."""

    run: str
    why: str
    journal: str | None = None
    """The id of its journal; None for a command without one."""


async def supervision_request(
    store: RunStore, stack: str, who: str, writer: StateWriter | None, *, managed: bool
) -> dict[str, object] | None:
    """None for a command that needs no supervision: a backend of the code, and nothing to record.

    The supervisor runs code of providers beside it, so it gets only the keys of its own state and journal.
    """
    if not managed and (writer is None or writer.journal is None):
        return None
    own = encode_name(stack)
    states, claims = f"states/{own}", f"claims/{own}"
    runs = () if writer is None or writer.journal is None else (f"runs/{writer.journal}",)
    written = (states, *runs) if managed and writer is not None else runs
    request = await store.ask_access(
        read=(states, claims) if managed else (),
        write=written,
        run=writer.run if writer is not None else "",
        stack=stack,
    )
    if managed:
        request["state"] = {
            "stack": stack,
            "run": writer.run if writer is not None else "",
            "who": who,
            "why": writer.why if writer is not None else "",
            "write": writer is not None,
        }
    if writer is not None and writer.journal is not None:
        request["journal"] = {"run": writer.journal, "spool": str(store.spool)}
    return request
