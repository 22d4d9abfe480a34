"""Two Holdfast processes on one stack: one changes it, the other is told who, or waits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from faults_scenarios import parse
from faults_world import STACK, World, places
from lab_stacks import held, none_left
from program import ME, Program

from provider.service import Fault, LabService


def error(document: dict[str, Any]) -> dict[str, Any]:
    """Of the stack, or of the whole command."""
    found = [*document.get("errors", ()), *(one["error"] for one in document.get("stacks", ()))]
    first: dict[str, Any] = found[0]
    return first


HOMES = pytest.mark.parametrize("home", ["managed", pytest.param("http", marks=pytest.mark.long)])


@HOMES
def test_the_second_is_told_who_is_first_or_waits_for_it(with_lab: Program, home: str) -> None:
    """Exit 4 names the holder and its run; with --wait the same command goes on when the first is done."""
    scenario = parse(f"embedded:{home}:holdfast:first:call-1-before")
    with LabService() as lab, places(scenario.home) as at:
        world = World(scenario, with_lab, lab, at)
        world.write(changed=True)
        lab.misbehave(Fault(operation="create", what="hold", name="x"))
        first = with_lab.start("apply", "--yes", "--json")
        held(lab, first, "create")
        said = error(with_lab.json("plan", code=4))["message"]
        for told in (said, error(with_lab.json("apply", "--yes", code=4))["message"]):
            assert f"{ME}@" in told
        waiting = with_lab.start("apply", "--yes", "--json", "--wait", "2m")
        assert waiting.stderr is not None
        while "lane" not in (line := waiting.stderr.readline()) and line:
            pass
        lab.release()
        out, err = first.communicate(timeout=60)
        assert first.returncode == 0, err
        run = json.loads(out)["stacks"][0]["run"]
        assert run in said
        out, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 0, out + err
        assert json.loads(out)["stacks"][0]["status"] == "unchanged"
        assert {name: len(ids) for name, ids in lab.made().items()} == {"x": 1, "y": 1}
    none_left(with_lab)


@HOMES
def test_both_at_the_same_moment_make_it_once(with_lab: Program, home: str) -> None:
    """Whoever wins, each object is made once; the loser changes nothing and says why."""
    scenario = parse(f"embedded:{home}:holdfast:first:call-1-before")
    with LabService() as lab, places(scenario.home) as at:
        world = World(scenario, with_lab, lab, at)
        world.write(changed=True)
        both = [with_lab.start("apply", "--yes", "--json") for _ in range(2)]
        codes = []
        for process in both:
            out, err = process.communicate(timeout=60)
            assert "Traceback" not in err, err
            codes.append(process.returncode)
            assert process.returncode in (0, 1, 3, 4), out + err
            if process.returncode:
                assert error(json.loads(out))["code"] in {"HF-LOCK-1", "HF-LOCK-2", "HF-LOCK-4"}, out
        assert 0 in codes
        assert {name: len(ids) for name, ids in lab.made().items()} == {"x": 1, "y": 1}
        assert with_lab.results("plan", "--detailed-exitcode")[STACK]["status"] == "unchanged"
    none_left(with_lab)
