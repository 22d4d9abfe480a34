"""One base for every error a user can see: a code, a message, a hint, and the exit code it leads to.

    HoldfastError
    ├── UsageError          64  wrong usage or configuration, nothing was run
    │   └── ConfigError         one or many mistakes in a file, each with its place
    ├── Refused              3  a check, the guard or a policy said no; a used or changed bundle
    ├── Busy                 4  somebody else is at work: a lock, a lane, a stack
    ├── Waiting              5  an approval is missing
    ├── UnknownOutcome       6  nobody can say what happened; a person must look
    └── Failed               1  it was tried and did not work
        └── EngineError         Terraform, or the process it runs in, gave no usable answer

Leaves live with their stage. The CLI, and later the API and the pages, show the same fields.
Every code is described in docs/errors.md; a test keeps that page complete.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from holdfast.kernel.values import dataclass


class Exit(IntEnum):
    """What the program answers to the one who started it."""

    DONE = 0
    FAILED = 1
    CHANGES = 2
    REFUSED = 3
    BUSY = 4
    WAITING = 5
    UNKNOWN = 6
    USAGE = 64


GRAVEST_FIRST: tuple[Exit, ...] = (
    Exit.UNKNOWN,
    Exit.FAILED,
    Exit.REFUSED,
    Exit.BUSY,
    Exit.WAITING,
    Exit.CHANGES,
    Exit.DONE,
)


def gravest(exits: list[Exit]) -> Exit:
    """Of several stacks the gravest wins; of none, there was nothing to do."""
    return next((exit_ for exit_ in GRAVEST_FIRST if exit_ in exits), Exit.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something stands in a file, counted from one. The file is relative to the root if it can be."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, as it is shown: on a console, in JSON, on a page."""

    code: str
    message: str
    hint: str | None = None
    place: Place | None = None


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
    """Every mistake at once: a person mends them all before the next try."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        if not problems:
            raise ValueError("a ConfigError without problems")
        first = problems[0]
        super().__init__(first.code, first.message, hint=first.hint, place=first.place)
        self.problems = problems


class Refused(HoldfastError):  # noqa: N818 - the words of the design: a refusal is an answer
    exit = Exit.REFUSED


class Busy(HoldfastError):  # noqa: N818
    exit = Exit.BUSY


class Waiting(HoldfastError):  # noqa: N818
    exit = Exit.WAITING


class UnknownOutcome(HoldfastError):  # noqa: N818
    exit = Exit.UNKNOWN


class Failed(HoldfastError):  # noqa: N818
    exit = Exit.FAILED


class EngineError(Failed):
    """Terraform, or the process around it, gave no answer that can be believed."""
