"""One scenario from its beginning to its end: the kill, the person who comes next, and what must hold.

Whatever breaks a promise is a `Violation`; it tells everything that was done and said.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults_scenarios import AtCall, AtTime, Home, Operation, Scenario, Victim
from faults_states import CANARY
from faults_world import STACK, World
from lab_stacks import left_behind
from program import Ran, eventually

_UNKNOWN_CODES = {"HF-RUN-8", "HF-STATE-3", "HF-STATE-5"}
_UNCHANGED, _CHANGES, _BUSY, _UNKNOWN = 0, 2, 4, 6


class Violation(AssertionError):  # noqa: N818 - what it is called
    """A promise was broken."""

    def __init__(self, what: str, story: str) -> None:
        super().__init__(f"{what}\n{story}")
        self.what = what


@dataclass(slots=True, kw_only=True)
class Ending:
    """How it came out right."""

    killed: bool
    """False: the moment never came, or the victim was not there any more."""
    reconciled: bool = False


@dataclass(slots=True)
class Story:
    world: World
    lines: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.lines.append(text)

    def require(self, true: object, what: str) -> None:
        if not true:
            raise Violation(what, self.told())

    def told(self) -> str:
        made = f"made: {self.world.lab.made()}\nthere: {list(self.world.lab.objects().values())}"
        return "\n".join([f"{self.world.scenario}:", *self.lines, made])

    def run(self, *arguments: str) -> Ran:
        began = time.monotonic()
        ran = self.world.program.run(*arguments, seconds=120)
        seconds = time.monotonic() - began
        self.note(f"$ holdfast {' '.join(arguments)}\n  exit {ran.code} after {seconds:.1f} s")
        self.said(ran.out, ran.err)
        self.require("Traceback" not in ran.text, "a traceback was shown")
        self.require(CANARY not in ran.err, "a secret was shown")
        return ran

    def said(self, out: str, err: str) -> None:
        """What a command said, with as little of the document as tells the story."""
        with contextlib.suppress(ValueError):
            out = json.dumps(_telling(json.loads(out)))
        self.note("\n".join(f"  {line}" for line in (out + "\n" + err).splitlines() if line.strip()))

    def document(self, ran: Ran) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(ran.out)
        except ValueError:
            raise Violation("it gave no document", self.told()) from None
        return found


def played(world: World, *files: Path) -> Ending:
    """Everything in its order; `files` are the folders in which nothing may be left in clear."""
    story = Story(world)
    try:
        _before(story)
        ending = _killed(story)
        ending.reconciled = brought_to_an_end(story)
        leaks = world.leaks(*files)
        story.require(not leaks, f"a secret is left in {leaks}")
    except (subprocess.TimeoutExpired, AssertionError) as error:
        if isinstance(error, Violation):
            raise
        raise Violation(f"{type(error).__name__}: {error}", story.told()) from error
    finally:
        world.release()
        world.kill(Victim.ALL)
    return ending


def brought_to_an_end(story: Story) -> bool:
    """The person who comes next: plans, reconciles what is unknown, and finishes. True: it was unknown."""
    code = _next_plan(story)
    reconciled = code == _UNKNOWN
    _finished(story, _planned(story) if reconciled else code)
    return reconciled


def _before(story: Story) -> None:
    world = story.world
    world.write(changed=False)
    file = world.program.folder.parent / "before.json"
    if world.seed(file):
        ran = story.run("state", "push", STACK, str(file))
        story.require(ran.code == 0, "the world before the kill could not be made")
        file.unlink()
    world.lab.forget_made()
    world.write(changed=True)


def _killed(story: Story) -> Ending:
    """The apply that is killed, until nothing of it is at work any more."""
    world, scenario = story.world, story.world.scenario
    come = world.arm()
    process = world.program.start("apply", "--yes", "--json")
    began = time.monotonic()

    def over() -> bool:
        return process.poll() is not None

    match scenario.moment:
        case AtTime(since=since, milliseconds=wait):
            if since == "work":
                eventually(lambda: come() or over(), what="work begins")
                began = time.monotonic()
            _until(began + wait / 1000)
            if not _is_there(world, scenario) and not over():
                eventually(lambda: _is_there(world, scenario) or over(), what=f"{scenario.victim} is there")
        case _:
            _quickly(lambda: come() or over())
    killed = world.kill(scenario.victim)
    story.note(f"killed {scenario.victim} {killed}, {time.monotonic() - began:.2f} s after the beginning")
    if scenario.victim is not Victim.HOLDFAST:
        eventually(lambda: not set(world.processes(Victim.PROVIDER)) or not killed, what="providers end")
    elif killed and isinstance(scenario.moment, AtCall):
        _busy(story)
    world.release()
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    story.note(f"it ended with {process.returncode}")
    story.said(out, err)
    story.require("Traceback" not in err, "a traceback was shown")
    story.require(CANARY not in err + out, "a secret was shown")
    allowed = (-9,) if scenario.victim in (Victim.HOLDFAST, Victim.ALL) and killed else (0, 1, 6)
    story.require(process.returncode in allowed, f"the killed apply ended with {process.returncode}")
    eventually(lambda: not left_behind(world.program), what="survivors end", seconds=60)
    return Ending(killed=bool(killed))


def _busy(story: Story) -> None:
    """Killing the one who asked kills nothing else: the stack is at work, and the next one is told so."""
    ran = story.run("plan", STACK, "--json", "--detailed-exitcode")
    story.require(ran.code == _BUSY, f"a stack at work was planned: exit {ran.code}")
    error = story.document(ran)["stacks"][0]["error"]
    story.require(error["code"] in {"HF-LOCK-1", "HF-LOCK-2"}, f"busy is said as {error['code']}")


def _next_plan(story: Story) -> int:
    """The next one plans. What is unknown says so, and is reconciled."""
    ran = story.run("plan", STACK, "--json", "--detailed-exitcode")
    if ran.code == _BUSY and "state unlock" in ran.text and "does not report who" in ran.text:
        # A killed plan, and a Terraform that does not name the holder of its lock.
        story.run("state", "unlock", STACK, "ID", "--reason", "the harness killed it")
        ran = story.run("plan", STACK, "--json", "--detailed-exitcode")
    if ran.code == _UNKNOWN and "HF-STATE-3" in ran.text and _never_held_anything(story):
        # A killed plan leaves the file that Terraform made to lock it. Nothing was there before, so it goes.
        file = story.world.program.folder / STACK / "terraform.tfstate"
        story.require("If it never had resources, delete the file" in ran.text, "no way on is named")
        story.require(file.read_bytes() == b"", "the file is not empty")
        file.unlink()
        ran = story.run("plan", STACK, "--json", "--detailed-exitcode")
    if ran.code in (_UNCHANGED, _CHANGES):
        return ran.code
    story.require(ran.code == _UNKNOWN, f"the next plan ended with {ran.code}")
    error = story.document(ran)["stacks"][0]["error"]
    story.require(error["code"] in _UNKNOWN_CODES, f"unknown is said as {error['code']}")
    _reconciled(story, _run_named(story, error), error["message"])
    return ran.code


def _never_held_anything(story: Story) -> bool:
    """There was no state, it would be Terraform's own local one, and nothing was made."""
    scenario = story.world.scenario
    first = scenario.operation is Operation.FIRST and scenario.home is Home.LOCAL
    return first and not story.world.lab.made()


def _planned(story: Story) -> int:
    return story.run("plan", STACK, "--json", "--detailed-exitcode").code


def _run_named(story: Story, error: dict[str, Any]) -> str:
    words = f"{error['message']} {error['hint']}".replace("`", " ").split()
    after = [word for before, word in itertools.pairwise(words) if before == "reconcile"]
    story.require(after, "the run is not named with the command that settles it")
    return after[0].rstrip(".,;:)")


def _reconciled(story: Story, run: str, shown: str) -> None:
    """The person looks at the provider's side for what is in doubt, and names what is there.

    Only what was listed is looked for. An object that nobody listed is found in the end: as one too many.
    """
    listed = _listed(shown)
    before = story.world.recorded() if listed else {}
    given = {
        address: id_
        for address, line in listed.items()
        if (id_ := _on_the_providers_side(story, address, before)) and id_ not in line
    }
    words = [word for address, id_ in given.items() for word in ("--import", f"{address}={id_}")]
    ran = story.run("runs", "reconcile", run, "--yes", "--json", *words)
    for _ in range(3):
        error: dict[str, Any] = story.document(ran)["errors"][0] if ran.code else {"code": None}
        match error["code"]:
            case "HF-REC-8":
                # It found the object by itself after all.
                words = []
            case "HF-REC-11":
                # The person looked for it on the provider's side, and it is not there.
                hint = itertools.pairwise(error["hint"].split())
                again = [address for before, address in hint if before == "--recreate"]
                story.require(again and not set(again) & set(given), "what is in doubt is not named")
                words += [word for address in again for word in ("--recreate", address)]
            case "HF-LOCK-7":
                # This Terraform does not say whose the lock is: the person does.
                words += ["--holder-dead", "--reason", "the harness killed it"]
            case _:
                break
        ran = story.run("runs", "reconcile", run, "--yes", "--json", *words)
    story.require(ran.code == 0, f"reconcile ended with {ran.code}")


def _listed(shown: str) -> dict[str, str]:
    """The addresses that the words of an unknown outcome name, each with its line."""
    lines = [line.strip() for line in shown.splitlines() if line.strip().startswith("lab_object.")]
    return {line.split()[0]: line for line in lines}


def _on_the_providers_side(story: Story, address: str, known: Collection[str]) -> str | None:
    """The newest object of that name that the state does not know."""
    there = story.world.lab.objects()
    made = story.world.lab.made().get(address.rpartition(".")[2], ())
    mine = [id_ for id_ in made if id_ in there and id_ not in known]
    return mine[-1] if mine else None


def _finished(story: Story, code: int) -> None:
    """The change is brought to its end, and the world is exactly what was asked for, once."""
    world = story.world
    if code == _CHANGES:
        applied = story.run("apply", STACK, "--yes", "--json")
        story.require(applied.code == 0, f"what was left could not be applied: exit {applied.code}")
        code = _planned(story)
    story.require(code == _UNCHANGED, f"in the end plan says {code}")
    there = world.lab.objects()
    names = sorted(one["name"] for one in there.values())
    story.require(names == sorted(world.wanted), f"there are {names}, wanted are {sorted(world.wanted)}")
    recorded = world.recorded()
    # A record of an object that is gone and unwanted is harmless: Terraform drops it when it saves.
    unwanted = world.deposed()
    known = {
        id_
        for id_, name in recorded.items()
        if id_ in there or (name in world.wanted and id_ not in unwanted)
    }
    story.require(known == set(there), f"the state knows {recorded}, there are {sorted(there)}")
    made = {name: len(ids) for name, ids in world.lab.made().items()}
    story.require(made == world.creates, f"made {made}, planned were {world.creates}")
    eventually(lambda: not left_behind(world.program), what="everything ended", seconds=60)
    if world.at.http is not None:
        story.require(not world.at.http.locks, "the state is still locked")
    if world.scenario.home is Home.LOCAL:
        lock = world.program.folder / "a/.terraform.tfstate.lock.info"
        story.require(not lock.exists(), "the local state is still locked")


_DULL = {"guard", "outputs", "engine", "environment", "digest", "summary", "duration_ms"}


def _telling(document: Any) -> Any:
    match document:
        case dict():
            dull = _DULL | ({"errors"} if "error" in document else set())
            return {name: _telling(one) for name, one in document.items() if one and name not in dull}
        case list():
            return [_telling(one) for one in document]
        case _:
            return document


def _is_there(world: World, scenario: Scenario) -> bool:
    return bool(world.processes(scenario.victim))


def _until(moment: float) -> None:
    """A random time is the point of it here."""
    time.sleep(max(0.0, moment - time.monotonic()))


def _quickly(condition: Any, seconds: float = 60) -> None:
    """Wait as `eventually` does, with a closer look: what is seen is killed at once."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the moment to kill never came")
        time.sleep(0.001)
