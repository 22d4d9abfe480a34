"""What is killed, doing what, at which moment: a scenario as a value, and lists of them. Pure.

A scenario is written as one word, such as `embedded:managed:provider:replace:call-2-made`, so that it can be
repeated by itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    EMBEDDED = "embedded"
    """Terraform as a library."""
    TOFU = "tofu"
    """OpenTofu as a library."""
    BINARY = "binary"


class Home(StrEnum):
    """Where the stack's state lives."""

    MANAGED = "managed"
    LOCAL = "local"
    HTTP = "http"
    S3 = "s3"


class Victim(StrEnum):
    HOLDFAST = "holdfast"
    SUPERVISOR = "supervisor"
    """The process that runs Terraform: with the embedded engine, Terraform itself."""
    TERRAFORM = "terraform"
    PROVIDER = "provider"
    ALL = "all"


class Operation(StrEnum):
    FIRST = "first"
    """Two objects are made where there was no state at all."""
    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    SWAP = "swap"
    """A replace that makes the new object before it deletes the old one."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a provider makes to the lab."""

    kind: str
    name: str


CALLS: dict[Operation, tuple[Call, ...]] = {
    Operation.FIRST: (Call("create", "x"), Call("create", "y")),
    Operation.CREATE: (Call("create", "x"), Call("create", "y")),
    Operation.UPDATE: (Call("update", "x"), Call("update", "y")),
    Operation.REPLACE: (Call("delete", "x"), Call("create", "x"), Call("update", "y")),
    Operation.SWAP: (Call("create", "x"), Call("update", "y"), Call("delete", "x")),
    Operation.DELETE: (Call("delete", "y"), Call("delete", "x")),
}
"""What each operation asks of the lab, in this order: y depends on x."""


class Point(StrEnum):
    BEFORE = "before"
    """The call is on its way; if its caller dies it never arrives."""
    LATE = "late"
    """The same, but it arrives and is done after its caller's death."""
    MADE = "made"
    """It is done, and the answer is not given yet."""


class Saving(StrEnum):
    LOST = "lost"
    """The state is on its way; if its sender dies it is not saved."""
    LATE = "late"
    """The same, but it is saved after its sender's death."""
    SAVED = "saved"
    """It is saved, and the answer is not given yet."""


@dataclass(frozen=True, slots=True)
class AtCall:
    """`number` counts the operation's calls from one. Before the second is after the first was answered."""

    number: int
    point: Point

    def __str__(self) -> str:
        return f"call-{self.number}-{self.point}"


@dataclass(frozen=True, slots=True)
class AtSave:
    point: Saving

    def __str__(self) -> str:
        return f"save-{self.point}"


@dataclass(frozen=True, slots=True)
class AtPlan:
    """Before anything is applied: an object is being looked at."""

    def __str__(self) -> str:
        return "plan"


@dataclass(frozen=True, slots=True)
class AtTime:
    """So long after the start of the program, or of the first call to the lab."""

    since: str
    milliseconds: int

    def __str__(self) -> str:
        return f"{self.since}+{self.milliseconds}ms"


Moment = AtCall | AtSave | AtPlan | AtTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    engine: Engine
    home: Home
    victim: Victim
    operation: Operation
    moment: Moment

    def __post_init__(self) -> None:
        if self.victim is Victim.TERRAFORM and self.engine is not Engine.BINARY:
            raise ValueError("an embedded engine is no process of its own: the victim is `supervisor`")
        match self.moment:
            case AtCall(number=number) if not 1 <= number <= len(CALLS[self.operation]):
                raise ValueError(f"{self.operation} makes {len(CALLS[self.operation])} calls")
            case AtPlan() if self.operation is Operation.FIRST:
                raise ValueError("where nothing is, nothing is looked at")
            case AtSave(point=point) if point not in SAVING[self.home]:
                raise ValueError(f"a state at home in {self.home} cannot be held as {point}")
            case _:
                pass

    def __str__(self) -> str:
        return f"{self.engine}:{self.home}:{self.victim}:{self.operation}:{self.moment}"


SAVING: dict[Home, tuple[Saving, ...]] = {
    Home.MANAGED: (Saving.SAVED,),
    Home.LOCAL: (Saving.SAVED,),
    Home.HTTP: tuple(Saving),
    Home.S3: (Saving.LATE, Saving.SAVED),
}
"""What can be held where. A local file is written in no time, and is seen only when it has changed."""


def parse(text: str) -> Scenario:
    engine, home, victim, operation, moment = text.split(":")
    return Scenario(
        engine=Engine(engine),
        home=Home(home),
        victim=Victim(victim),
        operation=Operation(operation),
        moment=_moment(moment),
    )


def _moment(text: str) -> Moment:
    if text == "plan":
        return AtPlan()
    if found := re.fullmatch(r"call-(\d+)-(\w+)", text):
        return AtCall(int(found[1]), Point(found[2]))
    if found := re.fullmatch(r"save-(\w+)", text):
        return AtSave(Saving(found[1]))
    if found := re.fullmatch(r"(start|work)\+(\d+)ms", text):
        return AtTime(found[1], int(found[2]))
    raise ValueError(f"no moment is called {text}")


def drawn(seed: int, engines: Sequence[Engine] = tuple(Engine)) -> Iterator[Scenario]:
    """Scenarios without end; the same seed gives the same ones."""
    dice = random.Random(seed)  # noqa: S311 - kills, not keys
    while True:
        engine = dice.choice(engines)
        victims = [one for one in Victim if one is not Victim.TERRAFORM or engine is Engine.BINARY]
        home = dice.choice(list(Home))
        operation = dice.choice(list(Operation))
        yield Scenario(
            engine=engine,
            home=home,
            victim=dice.choice(victims),
            operation=operation,
            moment=_drawn_moment(dice, home, operation),
        )


def _drawn_moment(dice: random.Random, home: Home, operation: Operation) -> Moment:
    match dice.choice(("call", "call", "call", "save", "work", "work", "plan", "start")):
        case "call":
            return AtCall(dice.randint(1, len(CALLS[operation])), dice.choice(list(Point)))
        case "save":
            return AtSave(dice.choice(SAVING[home]))
        case "plan" if operation is not Operation.FIRST:
            return AtPlan()
        case "work":
            return AtTime("work", dice.randint(0, 600))
        case _:
            return AtTime("start", dice.randint(0, 3000))


CHOSEN = tuple(
    parse(text)
    for text in (
        "embedded:managed:holdfast:create:call-1-made",
        "embedded:managed:supervisor:create:call-1-made",
        "embedded:managed:provider:create:call-1-late",
        "embedded:managed:all:first:call-2-before",
        "embedded:managed:all:replace:call-2-made",
        "embedded:local:all:create:call-2-before",
        "embedded:local:provider:replace:call-2-made",
        "embedded:http:all:first:save-lost",
        "embedded:http:holdfast:update:save-late",
        "embedded:s3:supervisor:swap:call-3-before",
        "binary:managed:terraform:create:call-1-made",
        "binary:local:terraform:delete:call-1-made",
        "binary:http:terraform:swap:save-late",
        "binary:s3:all:create:save-saved",
        "tofu:managed:supervisor:replace:call-2-made",
        "tofu:managed:all:create:call-1-late",
        "tofu:local:holdfast:update:call-1-made",
        "tofu:http:provider:delete:save-late",
    )
)
"""Those of every test run: each victim, operation, engine and home, and each kind of held moment."""
