"""The state's server is gone at the moment of saving: what was made is kept, said, and brought back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults_scenarios import parse
from faults_world import STACK, Places, World, places
from lab_stacks import none_left, with_engine
from program import Program

from provider.service import LabService


@pytest.fixture
def at() -> Iterator[Places]:
    with places(parse("embedded:http:all:first:save-lost").home) as found:
        yield found


@pytest.mark.parametrize(
    "use", ["embedded", pytest.param("binary", marks=[pytest.mark.binary, pytest.mark.long])]
)
def test_a_state_that_could_not_be_saved_is_brought_back(
    with_lab: Program, at: Places, terraform_folder: Path, scratch: Path, use: str
) -> None:
    """Exit 6 and a copy under lock and key; when the server answers again, one command saves it."""
    assert at.http is not None
    with_engine(with_lab, use, terraform_folder)
    with_lab.environment["TMPDIR"] = str(scratch)
    with LabService() as lab:
        world = World(parse(f"{use}:http:all:first:save-lost"), with_lab, lab, at)
        world.write(changed=True)
        at.http.hang_up_on_writes = True
        applied = with_lab.results("apply", "--yes", code=6)[STACK]
        assert applied["error"]["code"] == "HF-STATE-5"
        assert at.http.versions == {}
        assert world.leaks(with_lab.folder, with_lab.home, scratch) == []
        refused = with_lab.results("plan", code=6)[STACK]
        assert refused["status"] == "unknown"
        at.http.hang_up_on_writes = False
        if use == "embedded":
            with_lab.ok("state", "push", STACK)
        else:
            with_lab.ok("runs", "reconcile", applied["run"], "--yes")
        after = with_lab.results("plan", "--detailed-exitcode")[STACK]
        assert after["status"] == "unchanged"
        assert set(world.recorded()) == set(lab.objects())
        assert {name: len(ids) for name, ids in lab.made().items()} == {"x": 1, "y": 1}
        assert at.http.locks == {}
    none_left(with_lab)
