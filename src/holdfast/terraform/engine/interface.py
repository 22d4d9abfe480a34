"""One interface, two engines. An engine runs one command of Terraform and says how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from holdfast.kernel.values import dataclass, field
from holdfast.terraform.argv import Argv

Listen = Callable[[bytes], None]
"""Hears each line of standard output as it comes, without its line end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that a command has between one wish to stop and the next, stronger one.

    After the first interrupt Terraform waits for running provider calls, without a limit of its own. An
    apply is given the time; what changes nothing is not, so that a time limit means what it says.
    """

    apply: float = 3600.0
    reading: float = 5.0
    """init, validate, plan, show, output."""
    otherwise: float = 60.0
    """What may write a state (state push)."""
    before_kill: float = 15.0

    def before_second(self, phase: str) -> float:
        if phase == "apply":
            return self.apply
        return self.reading if phase in _READING else self.otherwise


_AGAIN = 1.0
_READING = frozenset({"init", "validate", "plan", "show", "output", "read"})


class EngineKind(StrEnum):
    BINARY = "binary"
    EMBEDDED = "embedded"


class Product(StrEnum):
    TERRAFORM = "terraform"
    TOFU = "tofu"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineId:
    """Which Terraform this is. A saved plan belongs to exactly one product and version."""

    kind: EngineKind
    product: Product
    version: str
    path: str
    """The program, or the library of the embedded engine."""

    def __str__(self) -> str:
        name = "Terraform" if self.product is Product.TERRAFORM else "OpenTofu"
        return (
            f"embedded {name} {self.version}"
            if self.kind is EngineKind.EMBEDDED
            else f"{name} {self.version}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    phase: str
    """init, validate, plan, show, apply, state: decides the time limit and the patience of a cancel."""
    argv: Argv
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    providers: str | None = None
    """A digest of the provider versions that the command loads; None for one that loads none (init).

    Terraform keeps schemas for the life of its process and does not look at versions: a warm process
    serves one set only.
    """
    seconds: float | None = None
    cancel_level: int = 1
    """Which wish to stop is for it: 1 is the first Ctrl-C. What must still be done after that says 2."""
    door: bool = False
    """It reads or writes a state that Holdfast keeps: its process needs a state door, from birth."""
    attend: Mapping[str, object] | None = field(repr=False, default=None)
    """For the supervising process: which store, journal and state belong to this command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the supervising process has to say beside the exit code."""

    not_started: str | None = None
    """Why Terraform was never started."""
    journal_failed: str | None = None
    """The journal could not be written to its end; Terraform was asked to stop."""
    unshipped: bool = False
    """The journal is whole on this machine and has not arrived in the store."""
    refusals: tuple[str, ...] = ()
    """What the state door refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a command ended."""

    code: int
    out: bytes = field(repr=False, default=b"")
    err: bytes = field(repr=False, default=b"")
    interrupted: bool = False
    """We asked it to stop."""
    force_cancelled: bool = False
    """We asked twice. Terraform then leaves at once, and what was being made may be in no state."""
    timed_out: bool = False
    killed: bool = False
    """It did not end by itself: it was killed, or crashed. After an apply, nobody knows what it did."""
    log: str | None = None
    """What is left of a crashed process, for the person who has to look."""
    told: Told = field(default_factory=Told)


class Stop:
    """A person's wish to end: once is graceful, twice is at once. Shared by all runs of a change."""

    def __init__(self) -> None:
        self.level = 0
        self._changed = asyncio.Event()

    def ask(self) -> int:
        self.level += 1
        self._changed.set()
        self._changed = asyncio.Event()
        return self.level

    async def reached(self, level: int) -> None:
        while self.level < level:
            await self._changed.wait()


class Engine(Protocol):
    identity: EngineId

    async def run(self, command: Command, *, stop: Stop, listen: Listen | None = None) -> Answer:
        """Run to the end. With `listen`, lines go there as they come and `out` stays empty."""
        ...

    async def close(self) -> None: ...


class CancelSequence:
    """Interrupt, a long grace, interrupt again, a short grace, kill. Climbed beside a running command."""

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self.interrupted = False
        self.force_cancelled = False
        self.timed_out = False
        self.killed = False

    async def climb(
        self, command: Command, stop: Stop, interrupt: Callable[[], None], kill: Callable[[], None]
    ) -> None:
        try:
            # Not wait_for: in Python 3.11 it can swallow the cancel that ends the climb.
            async with asyncio.timeout(command.seconds):
                await stop.reached(command.cancel_level)
        except TimeoutError:
            self.timed_out = True
        self.interrupted = True
        interrupt()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience.before_second(command.phase)):
                await stop.reached(2)
        self.force_cancelled = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience.before_kill):
                while True:
                    # Two signals in the same moment are one to the one who gets them.
                    interrupt()
                    await asyncio.sleep(_AGAIN)
        self.killed = True
        kill()


class LineSplitter:
    """Cuts a stream of chunks into lines, so that one line of 100 MB costs no more than its bytes."""

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._open.append(line)
            self._listen(b"".join(self._open))
            self._open.clear()
        if rest:
            self._open.append(rest)

    def close(self) -> None:
        if self._open:
            self._listen(b"".join(self._open))
            self._open.clear()
