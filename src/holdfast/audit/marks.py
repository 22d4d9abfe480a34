"""Marks of open break-glass acts, one per stack: a plan need not read the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from holdfast.audit.break_glass import Act, Open, acts_after, breaks_glass, closes
from holdfast.audit.layout import MARKS, unreadable
from holdfast.kernel.errors import Busy
from holdfast.store.blobs import StoredBlob, decode_name, encode_name, to_json
from holdfast.store.run_store import RunStore

_ATTEMPTS = 100


def open_break_glass(store: RunStore, stacks: Iterable[str] | None = None) -> Open:
    """Acts that no normal apply has followed yet, of these stacks or of all.

    Lists one folder that is nearly always empty, and reads only what is there.
    """
    selected = None if stacks is None else set(stacks)
    marks = {
        stack: _read(store, stack) for stack in marked_stacks(store) if selected is None or stack in selected
    }
    return {stack: acts for stack, (acts, _) in marks.items() if acts}


def marked_stacks(store: RunStore) -> tuple[str, ...]:
    return tuple(decode_name(name.rpartition("/")[2]) for name in store.encrypted.names(MARKS))


def update_marks(store: RunStore, lines: Sequence[Mapping[str, object]]) -> None:
    """Apply these lines of the log, in their order."""
    of_stacks = [line for line in lines if isinstance(line.get("stack"), str)]
    breaking = {str(line["stack"]) for line in of_stacks if breaks_glass(line)}
    closing = {str(line["stack"]) for line in of_stacks if closes(line)} - breaking
    if closing:
        closing &= set(marked_stacks(store))
    for stack in sorted(breaking | closing):
        _update(store, stack, [line for line in of_stacks if line["stack"] == stack])


def _update(store: RunStore, stack: str, lines: Sequence[Mapping[str, object]]) -> None:
    for _ in range(_ATTEMPTS):
        acts, blob = _read(store, stack)
        now = acts
        for line in lines:
            now = acts_after(now, line)
        if now == acts or _write(store, _name(stack), now, blob):
            return
    raise Busy(
        "HF-AUDIT-3",
        f"cannot update the break-glass mark of {stack}: it keeps changing",
        hint="Many commands write at once, or the run store loses writes. Try again.",
    )


def _write(store: RunStore, name: str, acts: tuple[Act, ...], blob: StoredBlob | None) -> bool:
    """False if another writer was first."""
    data = to_json({"acts": [act.document() for act in acts]})
    if blob is None:
        return not acts or store.encrypted.create(name, data)
    if not acts:
        return store.encrypted.remove(name, tag=blob.tag)
    return store.encrypted.replace(name, data, tag=blob.tag) is not None


def _read(store: RunStore, stack: str) -> tuple[tuple[Act, ...], StoredBlob | None]:
    blob = store.encrypted.read(_name(stack))
    if blob is None:
        return (), None
    try:
        return tuple(map(Act.of, json.loads(blob.data)["acts"])), blob
    except (ValueError, KeyError, TypeError, AttributeError):
        raise unreadable(_name(stack)) from None


def _name(stack: str) -> str:
    return f"{MARKS}/{encode_name(stack)}"
