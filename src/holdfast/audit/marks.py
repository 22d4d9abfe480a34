"""Marks of break-glass acts, one for each stack that has an open one: a plan need not read the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from holdfast.audit.break_glass import Act, Open, after, breaks_glass, closes
from holdfast.audit.layout import MARKS, unreadable
from holdfast.kernel.errors import Busy
from holdfast.store.blobs import decode_name, encode_name
from holdfast.store.encrypted_blobs import Opened, to_json
from holdfast.store.run_store import RunStore

_ROUNDS = 100


def open_break_glass(store: RunStore, stacks: Iterable[str] | None = None) -> Open:
    """Acts that no normal apply has followed yet, by stack: of these stacks, or of all.

    One look at a folder that is nearly always empty; only what is there is read.
    """
    wanted = None if stacks is None else set(stacks)
    found = {stack: _read(store, stack) for stack in marked(store) if wanted is None or stack in wanted}
    return {stack: acts for stack, (acts, _) in found.items() if acts}


def marked(store: RunStore) -> tuple[str, ...]:
    """Stacks that have a mark."""
    return tuple(decode_name(name.rpartition("/")[2]) for name in store.encrypted.names(MARKS))


def keep_marks(store: RunStore, lines: Sequence[Mapping[str, object]]) -> None:
    """Bring the marks up to these lines, which follow each other in the log."""
    concerned = [line for line in lines if isinstance(line.get("stack"), str)]
    breaking = {str(line["stack"]) for line in concerned if breaks_glass(line)}
    closing = {str(line["stack"]) for line in concerned if closes(line)} - breaking
    if closing:
        closing &= set(marked(store))
    for stack in sorted(breaking | closing):
        _bring_up(store, stack, [line for line in concerned if line["stack"] == stack])


def _bring_up(store: RunStore, stack: str, lines: Sequence[Mapping[str, object]]) -> None:
    for _ in range(_ROUNDS):
        acts, opened = _read(store, stack)
        now = acts
        for line in lines:
            now = after(now, line)
        if now == acts or _written(store, _name(stack), now, opened):
            return
    raise Busy(
        "HF-AUDIT-3",
        f"the break-glass mark of {stack} changes all the time",
        hint="Many commands write at once, or the run store does not keep what it is told. Try again.",
    )


def _written(store: RunStore, name: str, acts: tuple[Act, ...], opened: Opened | None) -> bool:
    """False when somebody came between."""
    data = to_json({"acts": [act.document() for act in acts]})
    if opened is None:
        return not acts or store.encrypted.create(name, data)
    if not acts:
        return store.encrypted.remove(name, tag=opened.tag)
    return store.encrypted.replace(name, data, tag=opened.tag) is not None


def _read(store: RunStore, stack: str) -> tuple[tuple[Act, ...], Opened | None]:
    opened = store.encrypted.read(_name(stack))
    if opened is None:
        return (), None
    try:
        return tuple(Act.of(one) for one in json.loads(opened.data)["acts"]), opened
    except (ValueError, KeyError, TypeError, AttributeError):
        raise unreadable(_name(stack)) from None


def _name(stack: str) -> str:
    return f"{MARKS}/{encode_name(stack)}"
