"""Open break-glass acts: those that no normal apply has followed yet.

An override, an unlock or a holder declared dead is shown with its stack until an apply of that stack succeeds
without any of these. An apply that an act made possible does not close that act. Marks, one per stack, hold
the open acts, so that a plan need not read the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.audit.entry import BREAK_GLASS
from holdfast.audit.layout import MARKS, unreadable
from holdfast.kernel.errors import Busy
from holdfast.store.blobs import StoredBlob, decode_name, encode_name, to_json
from holdfast.store.run_store import RunStore

_CLOSING: Final = frozenset({"apply", "destroy"})
_SUCCESS: Final = frozenset({"applied", "unchanged"})


class Act(Struct, frozen=True, kw_only=True):
    seq: int
    what: str
    at: str
    who: str
    reason: str | None
    run: str | None
    digest: str | None

    @classmethod
    def of(cls, line: Mapping[str, object]) -> Self:
        who = line.get("who")
        shown = who.get("shown") if isinstance(who, Mapping) else None
        return cls(
            seq=int(str(line.get("seq"))),
            what=str(line.get("what")),
            at=str(line.get("at")),
            who=str(shown or "unknown"),
            **{name: _text(line.get(name)) for name in ("reason", "run", "digest")},
        )

    def document(self) -> dict[str, object]:
        return {**asdict(self), "who": {"shown": self.who}}

    @property
    def shown(self) -> str:
        """Such as `unlock by ada@laptop at 2026-07-25T10:00: "the runner is gone"`."""
        why = f': "{self.reason}"' if self.reason else ""
        return f"{self.what} by {self.who} at {self.at[:16]}{why}"


Open = Mapping[str, tuple[Act, ...]]


def is_break_glass(line: Mapping[str, object]) -> bool:
    return line.get("break_glass") is True or line.get("what") in BREAK_GLASS


def closes(line: Mapping[str, object]) -> bool:
    """A normal apply that succeeded."""
    return line.get("what") in _CLOSING and line.get("outcome") in _SUCCESS and not is_break_glass(line)


def acts_after(acts: tuple[Act, ...], line: Mapping[str, object]) -> tuple[Act, ...]:
    """The open acts of a stack after this line. Repeating a line changes nothing."""
    if closes(line):
        return tuple(act for act in acts if act.seq > int(str(line.get("seq"))))
    if not is_break_glass(line):
        return acts
    new = Act.of(line)
    others = [act for act in acts if not _same(act, new)]
    newest = max([act for act in acts if _same(act, new)] + [new], key=lambda act: act.seq)
    return tuple(sorted((*others, newest), key=lambda act: act.seq))


def open_acts(lines: Iterable[Mapping[str, object]]) -> Open:
    """By stack, from the whole log."""
    acts: dict[str, tuple[Act, ...]] = {}
    for line in lines:
        stack = line.get("stack")
        if isinstance(stack, str) and (is_break_glass(line) or closes(line)):
            acts[stack] = acts_after(acts.get(stack, ()), line)
    return {stack: open_ for stack, open_ in acts.items() if open_}


def _same(act: Act, other: Act) -> bool:
    """One act has several lines: an override and its apply share a digest, start and end share a run."""
    if act.digest is not None and act.digest == other.digest:
        return True
    return act.seq == other.seq or (act.run is not None and (act.run, act.what) == (other.run, other.what))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


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
    breaking = {str(line["stack"]) for line in of_stacks if is_break_glass(line)}
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
        hint="Many commands write at the same time, or the run store loses writes. Try again.",
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
