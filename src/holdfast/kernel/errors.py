"""One base class for every error a user can see: a code, a message, a hint, and an exit code.

    HoldfastError
    ├── UsageError          64  invalid usage or configuration, nothing was run
    │   └── ConfigError         one or more mistakes in a file, each with its place
    ├── Refused              3  by a check, the guard or a policy; a used or changed bundle
    ├── Busy                 4  another run holds a lock, a lane or a stack
    ├── UnknownOutcome       6  an apply was interrupted; reconcile it
    └── Failed               1  it was tried and did not work
        └── EngineError         Terraform, or the process it runs in, gave no usable answer

Subclasses live with their stage. docs/errors.md describes every code; a test keeps that page complete.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, NamedTuple


class Exit(IntEnum):
    """Exit codes of the program."""

    DONE = 0
    FAILED = 1
    CHANGES = 2
    REFUSED = 3
    BUSY = 4
    WAITING = 5
    UNKNOWN = 6
    USAGE = 64


MOST_SEVERE_FIRST: tuple[Exit, ...] = (
    Exit.UNKNOWN,
    Exit.FAILED,
    Exit.REFUSED,
    Exit.BUSY,
    Exit.WAITING,
    Exit.CHANGES,
    Exit.DONE,
)


def most_severe(exits: list[Exit]) -> Exit:
    """With several stacks, the most severe result sets the exit code; without any it is 0."""
    return next((exit_ for exit_ in MOST_SEVERE_FIRST if exit_ in exits), Exit.DONE)


class Place(NamedTuple):
    """A position in a file, counted from one. The file is relative to the root if possible."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class Problem(NamedTuple):
    """One problem as it is shown on a console or in JSON."""

    code: str
    message: str
    hint: str | None = None
    place: Place | None = None
    address: str | None = None
    """The resource that it is about. The message begins with it."""


class HoldfastError(Exception):
    """An error with a code, a message and a hint; never a traceback for the user."""

    exit: ClassVar[Exit] = Exit.FAILED

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, place: Place | None = None
    ) -> None:
        super().__init__(f"{code} {message}")
        self.problems: tuple[Problem, ...] = (Problem(code=code, message=message, hint=hint, place=place),)

    @property
    def problem(self) -> Problem:
        return self.problems[0]


class UsageError(HoldfastError):
    exit = Exit.USAGE


class ConfigError(UsageError):
    """All mistakes at once, so that a user can fix them before the next try."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        if not problems:
            raise ValueError("a ConfigError without problems")
        first = problems[0]
        super().__init__(first.code, first.message, hint=first.hint, place=first.place)
        self.problems = problems


class Refused(HoldfastError):  # noqa: N818 - a refusal is an answer, not a failure
    exit = Exit.REFUSED


class Busy(HoldfastError):  # noqa: N818
    exit = Exit.BUSY


class UnknownOutcome(HoldfastError):  # noqa: N818
    exit = Exit.UNKNOWN


class Failed(HoldfastError):  # noqa: N818
    exit = Exit.FAILED


def internal_error(error: Exception, during: str) -> Failed:
    """A mistake in Holdfast, as the error of what it was doing: one stack never stops another.

    It names the type of the exception and the line of code, not its text, which may contain file contents.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2] if trace else "?"
    line = trace.tb_lineno if trace else 0
    failed = Failed(
        "HF-BUG-1",
        f"unexpected error in Holdfast while {during}: {type(error).__name__} in {file}, line {line}",
        hint="Please report this line. Other stacks are not affected.",
    )
    failed.__cause__ = error
    return failed


class EngineError(Failed):
    """Terraform, or the process it runs in, gave no usable answer."""
