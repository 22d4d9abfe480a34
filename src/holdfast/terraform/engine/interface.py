"""The interface of both engines: run one Terraform command and report how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from holdfast.kernel.values import MaskedStruct
from holdfast.system.confine import Confinement
from holdfast.terraform.argv import Argv

Listen = Callable[[bytes], None]
"""Gets each line of standard output as it arrives, without its line end."""


class CancelTimeouts(Struct, frozen=True, kw_only=True):
    """Seconds between the first interrupt, the second one and the kill.

    After the first interrupt Terraform waits for running provider calls, without a limit of its own. An apply
    gets that time; a command that changes nothing does not, so that a time limit means what it says.
    """

    apply: float = 3600.0
    reading: float = 5.0
    """init, validate, plan, show, output."""
    otherwise: float = 60.0
    """Commands that may write a state (state push)."""
    before_kill: float = 15.0

    def before_second(self, phase: str) -> float:
        if phase == "apply":
            return self.apply
        return self.reading if phase in _READING else self.otherwise


_REPEAT_SECONDS = 1.0
_READING = frozenset({"init", "validate", "plan", "show", "output", "read"})


class EngineKind(StrEnum):
    BINARY = "binary"
    EMBEDDED = "embedded"


class Product(StrEnum):
    TERRAFORM = "terraform"
    TOFU = "tofu"

    @property
    def shown(self) -> str:
        return "Terraform" if self is Product.TERRAFORM else "OpenTofu"


class EngineId(Struct, frozen=True, kw_only=True):
    """An engine. A saved plan belongs to exactly one product and version."""

    kind: EngineKind
    product: Product
    version: str
    path: str
    """The program, or the library of the embedded engine."""

    def __str__(self) -> str:
        return f"{'embedded ' if self.kind is EngineKind.EMBEDDED else ''}{self.product.shown} {self.version}"

    @property
    def licence(self) -> str:
        """Terraform 1.5 was the last one under a free licence."""
        free = self.product is Product.TOFU or self.version.startswith("1.5.")
        return "MPL-2.0" if free else "BUSL-1.1"


class WarmProviders(Struct, frozen=True, kw_only=True):
    """Provider processes that a worker keeps. It then serves only commands with the same ones."""

    configuration: str
    """A digest of what configures them, beside the environment."""
    programs: tuple[tuple[str, str], ...]
    """Addresses of providers, and the programs of their verified packages."""


class Command(MaskedStruct, frozen=True, kw_only=True):
    phase: str
    """init, validate, plan, show, apply, state: decides the time limit and the timeouts of a cancel."""
    argv: Argv
    folder: Path
    environment: Mapping[str, str]
    providers: str | None = None
    """A digest of the provider versions that the command loads; None for one that loads none (init).

    Terraform caches schemas for the life of its process and ignores versions: a worker serves one set only.
    """
    warm: WarmProviders | None = None
    """The embedded engine keeps these provider processes; None: Terraform starts them itself."""
    seconds: float | None = None
    cancel_level: int = 1
    """The number of Ctrl-C that cancels it; 2 for a command that must still run after the first."""
    managed_state: bool = False
    """It reads or writes a managed state: its worker needs a local state backend from the start."""
    writes: Path | None = None
    """The folder of a local state, in which Terraform must be able to create files."""
    own: tuple[Path, ...] = ()
    """The folders of its compartment: others cannot read them, and what it leaves running is ended."""
    supervision: Mapping[str, object] | None = None
    """For the supervisor: which store, journal and state belong to this command."""
    then: Command | None = None
    """What the worker runs next by itself, if this command exits with 0 or 2 (a plan with changes).

    It has a time limit of its own, and the environment, the folder and the supervision of this one.
    """


class SupervisorReport(Struct, frozen=True, kw_only=True):
    """What the supervisor reports beside the exit code."""

    not_started: str | None = None
    """Why Terraform was not started."""
    journal_failed: str | None = None
    """The journal could not be written completely; Terraform was interrupted."""
    left_running: bool = False
    """Programs that it started could not be ended."""
    refusals: tuple[str, ...] = ()
    """What the local state backend refused."""


class CommandResult(MaskedStruct, frozen=True, kw_only=True):
    """The result of a command."""

    code: int
    out: bytes = b""
    err: bytes = b""
    interrupted: bool = False
    """It was interrupted."""
    force_cancelled: bool = False
    """It was interrupted twice. Terraform then exits at once; a resource in progress may be in no state."""
    timed_out: bool = False
    killed: bool = False
    """It was killed or crashed. After an apply the outcome is unknown."""
    log: str | None = None
    """The last output of a crashed process."""
    report: SupervisorReport = field(default_factory=SupervisorReport)
    then: CommandResult | None = None
    """Of the command that followed; None if none did."""

    @property
    def ends_worker(self) -> bool:
        """Its worker serves no other command."""
        return self.killed or self.interrupted or (self.then is not None and self.then.ends_worker)

    @property
    def left_running(self) -> bool:
        """Programs that it started may still run."""
        unclean = self.killed or self.force_cancelled or self.report.left_running
        return unclean or (self.then is not None and self.then.left_running)


class Stop:
    """Ctrl-C: the first cancels gracefully, the second at once. Shared by all runs of a change."""

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
    confinement: Confinement
    """Of its processes so far: what one of them can read, all count as able to."""

    async def run(self, command: Command, *, stop: Stop, listen: Listen | None = None) -> CommandResult:
        """Run to completion. With `listen`, lines go there as they arrive and `out` stays empty."""
        ...

    async def end_idle(self) -> None:
        """End what waits for commands; one that follows starts it again."""
        ...

    async def end_expired(self) -> None:
        """End what has waited too long with warm providers."""
        ...

    async def close(self) -> None: ...


class CancelSequence:
    """Interrupt, a long grace period, interrupt again, a short one, kill. Runs beside a command."""

    def __init__(self, timeouts: CancelTimeouts | None = None) -> None:
        self._timeouts = timeouts or CancelTimeouts()
        self.interrupted = False
        self.force_cancelled = False
        self.timed_out = False
        self.killed = False

    async def run(
        self, command: Command, stop: Stop, interrupt: Callable[[], None], kill: Callable[[], None]
    ) -> None:
        try:
            # Not wait_for: in Python 3.11 it can swallow the cancellation that ends this task.
            async with asyncio.timeout(command.seconds):
                await stop.reached(command.cancel_level)
        except TimeoutError:
            self.timed_out = True
        self.interrupted = True
        interrupt()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.before_second(command.phase)):
                await stop.reached(2)
        self.force_cancelled = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.before_kill):
                while True:
                    # Signals sent at the same moment arrive as one.
                    interrupt()
                    await asyncio.sleep(_REPEAT_SECONDS)
        self.killed = True
        kill()


class LineSplitter:
    """Splits chunks into lines; a line of 100 MB costs no more than its bytes.

    Of one that is longer than `longest`, the rest may be left out: an untrusted program may never end it.
    """

    def __init__(self, listen: Listen, longest: int | None = None) -> None:
        self._listen = listen
        self._longest = longest
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._open.append(line)
            self._listen(b"".join(self._open))
            self._open.clear()
        if rest and (self._longest is None or sum(map(len, self._open)) < self._longest):
            self._open.append(rest)

    def close(self) -> None:
        if self._open:
            self._listen(b"".join(self._open))
            self._open.clear()
