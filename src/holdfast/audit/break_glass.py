"""Break-glass acts: which of them no normal apply has followed yet. Pure.

An override, an unlock, a holder declared dead: each is shown with its stack until an apply of that stack has
ended well without any of these. The act that made an apply possible is not undone by that very apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

from msgspec import Struct

from holdfast.audit.entry import BREAK_GLASS

_CLOSING: Final = frozenset({"apply", "destroy"})
_WELL: Final = frozenset({"applied", "unchanged"})


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
            who=str(shown or "somebody"),
            reason=_text(line.get("reason")),
            run=_text(line.get("run")),
            digest=_text(line.get("digest")),
        )

    def document(self) -> dict[str, object]:
        return {
            "seq": self.seq,
            "what": self.what,
            "at": self.at,
            "who": {"shown": self.who},
            "reason": self.reason,
            "run": self.run,
            "digest": self.digest,
        }

    @property
    def shown(self) -> str:
        """For a person: `unlock by ada@laptop at 2026-07-25T10:00: "the runner is gone"`."""
        why = f': "{self.reason}"' if self.reason else ""
        return f"{self.what} by {self.who} at {self.at[:16]}{why}"


Open = Mapping[str, tuple[Act, ...]]


def breaks_glass(line: Mapping[str, object]) -> bool:
    return line.get("break_glass") is True or line.get("what") in BREAK_GLASS


def closes(line: Mapping[str, object]) -> bool:
    """A normal apply that ended well."""
    return line.get("what") in _CLOSING and line.get("outcome") in _WELL and not breaks_glass(line)


def after(acts: tuple[Act, ...], line: Mapping[str, object]) -> tuple[Act, ...]:
    """What is open in a stack once this line of it is written. Saying a line twice changes nothing."""
    if closes(line):
        return tuple(one for one in acts if one.seq > int(str(line.get("seq"))))
    if not breaks_glass(line):
        return acts
    new = Act.of(line)
    others = [one for one in acts if not _same(one, new)]
    newest = max([one for one in acts if _same(one, new)] + [new], key=lambda one: one.seq)
    return tuple(sorted((*others, newest), key=lambda one: one.seq))


def open_acts(lines: Iterable[Mapping[str, object]]) -> Open:
    """Of every stack that has any, from the whole log."""
    found: dict[str, tuple[Act, ...]] = {}
    for line in lines:
        stack = line.get("stack")
        if isinstance(stack, str) and (breaks_glass(line) or closes(line)):
            found[stack] = after(found.get(stack, ()), line)
    return {stack: acts for stack, acts in found.items() if acts}


def _same(one: Act, other: Act) -> bool:
    """One act has several lines: an override and its apply share a digest, start and end share a run."""
    if one.digest is not None and one.digest == other.digest:
        return True
    return one.seq == other.seq or (one.run is not None and (one.run, one.what) == (other.run, other.what))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
