"""Applies that are killed: a small engine, a small world, and what is left of both.

The engine says what it begins, asks the provider, keeps what it got in memory, says that it is done, and
saves now and then. It is stopped anywhere; the provider may finish what it was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from recovery_made import SERIAL, body, complete, errored, intent, planned, start, state

from holdfast.recovery.evidence import Evidence, compare
from holdfast.runs.intent import PlannedChange
from holdfast.terraform.statefile.model import read_contents

Held = dict[str, list[dict[str, Any]]]
ACTIONS = [
    ("create",),
    ("update",),
    ("delete",),
    ("delete", "create"),
    ("create", "delete"),
    ("create", "forget"),
    ("forget",),
]


@dataclass(kw_only=True)
class Engine:
    """The world is a set of objects; memory is what the engine would write as its state.

    `mark` in a record says which object it is of; nothing but the tests reads it.
    """

    world: set[str]
    memory: Held
    lines: list[bytes] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    """What the provider is at, by object: it can be done after the engine is dead."""
    saved: Held | None = None

    def provider(self, object_: str) -> None:
        action = self.asked.pop(object_)
        (self.world.add if action == "create" else self.world.discard)(object_)

    def current(self, address: str) -> dict[str, Any] | None:
        return next((one for one in self.memory.get(address, ()) if "deposed" not in one), None)

    def drop(self, address: str, object_: str) -> None:
        self.memory[address] = [
            one for one in self.memory.get(address, ()) if one["attributes"]["mark"] != object_
        ]

    def make(self, job: Job) -> Iterator[None]:
        address = job.change.address
        self.lines.append(start(address, "create"))
        self.asked[job.new] = "create"
        yield
        if job.fails:
            if not job.made_all_the_same:
                self.asked.pop(job.new)
            else:
                self.provider(job.new)
            self.lines.append(errored(address, "create"))
            return
        self.provider(job.new)
        yield
        self.memory.setdefault(address, []).insert(0, body(job.new_named, size=2, mark=job.new))
        yield
        self.lines.append(complete(address, "create", job.new_named))
        yield

    def destroy(self, job: Job) -> Iterator[None]:
        address = job.change.address
        self.lines.append(start(address, "delete", job.old_named))
        self.asked[job.old] = "delete"
        yield
        self.provider(job.old)
        yield
        self.drop(address, job.old)
        yield
        self.lines.append(complete(address, "delete"))
        yield


@dataclass(frozen=True, kw_only=True)
class Job:
    """One planned change: its objects in the world, and how the engine calls them."""

    change: PlannedChange
    old: str
    new: str = ""
    old_named: str | None
    new_named: str | None = None
    fails: bool = False
    made_all_the_same: bool = False

    def steps(self, engine: Engine) -> Iterator[None]:
        address = self.change.address
        match self.change.actions:
            case ("create",):
                yield from engine.make(self)
            case ("update",):
                engine.lines.append(start(address, "update", self.old_named))
                yield
                engine.memory[address][0]["attributes"]["size"] = 2
                yield
                engine.lines.append(complete(address, "update", self.old_named))
            case ("delete",):
                yield from engine.destroy(self)
            case ("forget",):
                engine.drop(address, self.old)
            case ("delete", "create"):
                yield from engine.destroy(self)
                yield from engine.make(self)
            case _:
                yield from self._create_first(engine)

    def _create_first(self, engine: Engine) -> Iterator[None]:
        record = engine.current(self.change.address)
        assert record is not None
        record["deposed"] = "dd44"
        yield
        yield from engine.make(self)
        if engine.current(self.change.address) is None:
            del record["deposed"]
        elif "forget" in self.change.actions:
            engine.drop(self.change.address, self.old)
        else:
            yield from engine.destroy(self)


@dataclass(frozen=True, kw_only=True)
class Wreck:
    jobs: tuple[Job, ...]
    world: frozenset[str]
    lines: tuple[bytes, ...]
    before: Held
    saved: Held | None

    @property
    def kept(self) -> Held:
        """What the state holds."""
        return self.before if self.saved is None else self.saved

    @property
    def records(self) -> dict[tuple[str, str | None], str]:
        return {
            (address, one.get("deposed")): one["attributes"]["mark"]
            for address, instances in self.kept.items()
            for one in instances
        }

    @property
    def forgotten(self) -> set[str]:
        return {job.old for job in self.jobs if "forget" in job.change.actions}

    def evidence(self, lines: tuple[bytes, ...], *, backup: bool = True) -> Evidence:
        serial = SERIAL if self.saved is None else SERIAL + 2
        before = read_contents(state(self.before)) if backup else None
        kept = read_contents(state(self.kept, serial=serial))
        return compare(intent(*(job.change for job in self.jobs)), lines, kept, before)


@st.composite
def _jobs(draw: st.DrawFn, number: int) -> tuple[list[Job], list[dict[str, Any]]]:
    """The changes of one address, and what the state holds there before."""
    address = f"lab_object.o{number}"
    actions = draw(st.sampled_from(ACTIONS))
    style = draw(st.sampled_from(["id", "id", "none", "name"]))
    old, new = f"{address}-old", f"{address}-new"
    old_named, new_named = (None, None) if style == "none" else (old, new)
    if style == "name" and actions == ("delete", "create"):
        old_named = new_named = address
    one = Job(
        change=planned(address, *actions, before_id=None if actions == ("create",) else old_named),
        old=old,
        new=new if "create" in actions else "",
        old_named=old_named,
        new_named=new_named,
        fails=draw(st.integers(0, 4)) == 0,
        made_all_the_same=draw(st.booleans()),
    )
    held = [] if actions == ("create",) else [body(old_named, size=1, mark=old)]
    if draw(st.booleans()):
        return [one], held
    older = f"{address}-older"
    name = None if style == "none" else older
    change = planned(address, "delete", before_id=name, deposed="aa11")
    held.append(body(name, size=0, mark=older, deposed="aa11"))
    return [one, Job(change=change, old=older, old_named=name)], held


@st.composite
def wrecks(draw: st.DrawFn) -> Wreck:
    before: Held = {}
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 3))):
        of_address, held = draw(_jobs(number))
        jobs += of_address
        before |= {f"lab_object.o{number}": held} if held else {}
    world = {one["attributes"]["mark"] for held in before.values() for one in held}
    engine = Engine(world=world, memory=deepcopy(before))
    running = [job.steps(engine) for job in jobs]
    length = draw(st.integers(0, 8 * len(jobs)))
    last_save = draw(st.none() | st.integers(0, length))
    for number, turn in enumerate(draw(st.lists(st.integers(0, 5), min_size=length, max_size=length))):
        if number == last_save:
            engine.saved = deepcopy(engine.memory)
        step = running[turn % len(running)] if running else iter(())
        if next(step, running) is running and step in running:
            running.remove(step)
    for object_ in list(engine.asked):
        if draw(st.booleans()):
            engine.provider(object_)
    return Wreck(
        jobs=tuple(jobs),
        world=frozenset(engine.world),
        lines=tuple(engine.lines),
        before=before,
        saved=engine.saved,
    )
