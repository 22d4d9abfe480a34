"""The run store takes nothing more: an apply is not started, or it is stopped, and its end is found out."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from faults_scenarios import Victim, parse
from faults_story import Story, brought_to_an_end
from faults_world import STACK, World, places
from lab_stacks import held, none_left
from program import Program, eventually
from small_disk import fill, small_disk

from provider.service import Fault, LabService


def _world(program: Program, lab: LabService) -> World:
    scenario = parse("embedded:managed:holdfast:first:call-1-made")
    with places(scenario.home) as at:
        world = World(scenario, program, lab, at)
    world.write(changed=True)
    return world


def _full_in_the_middle(
    program: Program, lab: LabService, full: Callable[[World], None], empty: Callable[[], None]
) -> None:
    """The store takes nothing more while x is being made; afterwards it does again."""
    world = _world(program, lab)
    for name in ("x", "y"):
        lab.misbehave(Fault(operation="create", what="hold", name=name))
    process = program.start("apply", "--yes", "--json")
    held(lab, process, "create")
    full(world)
    lab.release()
    # What Terraform began before it was asked to stop, it finishes.
    eventually(
        lambda: lab.stops > 0 or lab.held("create", "y") or process.poll() is not None,
        what="Terraform goes on or is asked to stop",
    )
    lab.behave()
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err, err
    assert process.returncode == 6, out + err
    none_left(program)
    empty()
    story = Story(world)
    story.note("the apply ended with 6")
    story.said(out, err)
    brought_to_an_end(story)


@pytest.mark.long
def test_a_disk_that_fills_up_in_the_middle(with_lab: Program, tmp_path: Path) -> None:
    """No state can be saved any more: what was made is known all the same, and nothing is made twice."""
    with small_disk(tmp_path / "disk") as disk, LabService() as lab:
        (with_lab.folder / ".holdfast").symlink_to(disk)
        _full_in_the_middle(with_lab, lab, lambda _: fill(disk), (disk / "filler").unlink)


@pytest.mark.long
def test_files_that_cannot_grow(with_lab: Program) -> None:
    """Neither journal nor words nor state take a byte more: what was made is found out all the same."""

    def full(world: World) -> None:
        [journal] = (with_lab.folder / ".holdfast/runs").rglob("journal-*")
        size = journal.stat().st_size
        for pid in world.processes(Victim.SUPERVISOR):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))

    with LabService() as lab:
        _full_in_the_middle(with_lab, lab, full, lambda: None)


def test_a_disk_that_is_full_from_the_beginning(with_lab: Program, tmp_path: Path) -> None:
    """Nothing is started, and the next one finds no trace of an unknown end."""
    with small_disk(tmp_path / "disk") as disk, LabService() as lab:
        (with_lab.folder / ".holdfast").symlink_to(disk)
        world = _world(with_lab, lab)
        fill(disk)
        with_lab.ok("apply", "--yes", code=1)
        assert lab.made() == {}
        (disk / "filler").unlink()
        assert with_lab.results("plan")[STACK]["status"] == "planned"
        brought_to_an_end(Story(world))
