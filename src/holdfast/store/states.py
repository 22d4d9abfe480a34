"""States that Holdfast keeps: append-only versions, each written whole and never touched again.

A version's number is its place in the row. It is created, never overwritten: of two writers one is told that
the other was first.
"""

from __future__ import annotations

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import dataclass
from holdfast.store.encrypted_blobs import EncryptedBlobs
from holdfast.store.names import stack_of, word
from holdfast.store.snapshots import KeptCopy, StateCopy, pack, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(KeptCopy):
    number: int


class KeptStates:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def numbers(self, stack: str) -> tuple[int, ...]:
        return tuple(_number(name) for name in self._encrypted.names(_folder(stack)))

    def current(self, stack: str) -> Version | None:
        """None only where there is none: a version that went while we looked has others beside it."""
        while numbers := self.numbers(stack):
            version = self.version(stack, numbers[-1])
            if version is not None:
                return version
        return None

    def version(self, stack: str, number: int) -> Version | None:
        found = self._encrypted.read(_name(stack, number))
        if found is None:
            return None
        return Version(number=number, **unpack(found.data, what=f"{stack}: version {number} of its state"))

    def add(self, stack: str, new: StateCopy, *, after: int) -> Version | None:
        """The version that follows `after`; None when somebody else has written that one."""
        data, fields = pack(new)
        # A number can be free because its version was dropped: then others are long past it.
        if (self.numbers(stack) or (0,))[-1] != after:
            return None
        number = after + 1
        if not self._encrypted.create(_name(stack, number), data):
            return None
        return Version(number=number, **fields)

    def stacks(self) -> tuple[str, ...]:
        words = {name.split("/")[1] for name in self._encrypted.names("states")}
        return tuple(sorted(stack_of(one) for one in words))

    def withdraw(self, stack: str, number: int) -> None:
        """A version that this command has just added, and that must not count after all."""
        self._encrypted.remove(_name(stack, number))

    def drop(self, stack: str, number: int) -> None:
        """Of old versions only; the current one is never dropped."""
        if number != (self.numbers(stack) or (number,))[-1]:
            self._encrypted.remove(_name(stack, number))


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
