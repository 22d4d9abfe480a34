"""States that Holdfast keeps: append-only versions, each written whole and never touched again.

A version's number is its place in the row. It is created, never overwritten: of two writers one is told that
the other was first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from holdfast.doors import clock
from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.names import stack_of, word
from holdfast.store.sealed import SealedShelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    number: int
    serial: int
    lineage: str
    resources: int | None
    """How many it holds that Terraform made; None where the state is encrypted."""
    at: str
    run: str | None
    who: str
    why: str
    """What wrote it: apply, push, rollback, adopt."""
    state: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    serial: int
    lineage: str
    resources: int | None
    run: str | None
    who: str
    why: str
    state: bytes = field(repr=False)


class KeptStates:
    def __init__(self, sealed: SealedShelf) -> None:
        self._sealed = sealed

    def numbers(self, stack: str) -> tuple[int, ...]:
        return tuple(_number(name) for name in self._sealed.names(_folder(stack)))

    def current(self, stack: str) -> Version | None:
        """None only where there is none: a version that went while we looked has others beside it."""
        while numbers := self.numbers(stack):
            version = self.version(stack, numbers[-1])
            if version is not None:
                return version
        return None

    def version(self, stack: str, number: int) -> Version | None:
        found = self._sealed.read(_name(stack, number))
        if found is None:
            return None
        head, _, state = found.data.partition(b"\n")
        document = json.loads(head)
        if document.pop("version") != 1:
            raise UnknownOutcome(
                "HF-STORE-2", f"{stack}: version {number} of its state has an unknown format"
            )
        return Version(number=number, state=state, **document)

    def add(self, stack: str, new: NewVersion, *, after: int) -> Version | None:
        """The version that follows `after`; None when somebody else has written that one."""
        document = {
            "version": 1,
            "serial": new.serial,
            "lineage": new.lineage,
            "resources": new.resources,
            "at": clock.now().isoformat(),
            "run": new.run,
            "who": new.who,
            "why": new.why,
        }
        head = json.dumps(document, ensure_ascii=False).encode()
        # A number can be free because its version was dropped: then others are long past it.
        if (self.numbers(stack) or (0,))[-1] != after:
            return None
        number = after + 1
        if not self._sealed.create(_name(stack, number), head + b"\n" + new.state):
            return None
        document.pop("version")
        return Version(number=number, state=new.state, **document)  # type: ignore[arg-type]

    def stacks(self) -> tuple[str, ...]:
        words = {name.split("/")[1] for name in self._sealed.names("states")}
        return tuple(sorted(stack_of(one) for one in words))

    def withdraw(self, stack: str, number: int) -> None:
        """A version that this command has just added, and that must not count after all."""
        self._sealed.remove(_name(stack, number))

    def drop(self, stack: str, number: int) -> None:
        """Of old versions only; the current one is never dropped."""
        if number != (self.numbers(stack) or (number,))[-1]:
            self._sealed.remove(_name(stack, number))


def _number(name: str) -> int:
    last = name.rpartition("/")[2]
    if not last.isascii() or not last.isdigit():
        raise UnknownOutcome(
            "HF-STORE-2",
            f"the run store holds {name}, which is no version of a state",
            hint="Nothing of Holdfast's has such a name: take it away, and ask who put it there.",
        )
    return int(last)


def _folder(stack: str) -> str:
    return f"states/{word(stack)}"


def _name(stack: str, number: int) -> str:
    return f"{_folder(stack)}/{number:010d}"
