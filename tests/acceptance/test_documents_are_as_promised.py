"""What machines read, and what stays out of their way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from documents import CHANGE, ERRORS, STACKS, require
from program import Program
from small import on_a_terminal, stacks

ESCAPE = "\x1b["


def one_document(text: str) -> Any:
    """All of it is one document: what follows or precedes it is an error."""
    return json.loads(text)


def repository(program: Program) -> None:
    stacks(
        program,
        "a",
        environment="no-such",
        more="  - { name: b, module: secret, environment: dev, depends_on: [a] }\n"
        "  - { name: broken, module: broken, environment: dev }\n"
        "  - { name: behind, module: module, environment: dev, depends_on: [broken] }\n",
    )
    program.write(
        "secret/main.tf",
        """
        output "password" {
          value     = "hunter2-is-secret"
          sensitive = true
        }
        output "list" {
          value = [1]
        }
        """,
    )
    program.write("broken/main.tf", 'resource "terraform_data" "it" {\n  colour = 1\n}\n')


def test_stacks_plan_and_apply_keep_to_their_documents(holdfast: Program) -> None:
    """Each document has every promised field, absent ones as null, statuses of the closed set, no secret."""
    repository(holdfast)
    found = holdfast.json("stacks")
    require(found, STACKS)
    assert [one["name"] for one in found["stacks"]] == ["a", "b", "behind", "broken"]
    assert found["stacks"][0]["production"] is True
    assert found["stacks"][0]["account"] is None
    assert found["stacks"][0]["variables"] == ["vars/a.tfvars"]
    assert found["removed"] == []

    planned = holdfast.json("plan", code=1)
    require(planned, CHANGE)
    by_name = {one["name"]: one for one in planned["stacks"]}
    assert {name: one["status"] for name, one in by_name.items()} == {
        "a": "planned",
        "b": "planned",
        "behind": "blocked",
        "broken": "failed",
    }
    assert planned["summary"]["planned"] == 2
    assert planned["summary"]["changes"]["create"] == 2
    assert by_name["broken"]["changes"] is None
    assert by_name["broken"]["error"]["file"] == "broken/main.tf"
    assert by_name["broken"]["error"]["line"] == 2

    ran = holdfast.ok("apply", "--yes", "--json", code=1)
    applied = one_document(ran.out)
    require(applied, CHANGE)
    outputs = {one["name"]: one["outputs"] for one in applied["stacks"]}
    assert outputs["b"] == {
        "list": {"value": [1], "sensitive": False},
        "password": {"value": None, "sensitive": True},
    }
    assert "hunter2" not in ran.text
    assert "b: applied" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [["plan", "nobody"], ["apply"], ["plan", "--nonsense"], ["nonsense"], ["apply", "--plan", "nowhere"]],
)
def test_any_failure_is_a_document_of_errors(holdfast: Program, arguments: list[str]) -> None:
    """Whoever finds the mistake, standard output holds one document of errors."""
    stacks(holdfast, "a")
    ran = holdfast.ok(*arguments, "--json", code=64)
    require(one_document(ran.out), ERRORS)


@pytest.mark.long
def test_a_removed_stack_is_told_in_both_documents(holdfast: Program) -> None:
    """What a change took away is `removed`, with what its state still holds, and adds nothing to the exit."""
    stacks(holdfast, "a", "b")
    holdfast.ok("apply", "--yes")
    holdfast.commit_all()
    (holdfast.folder / "vars/a.tfvars").unlink()
    found = holdfast.json("stacks", "--since", "HEAD")
    require(found, STACKS)
    (removed,) = found["removed"]
    assert removed["name"] == "a"
    assert removed["variables"] == "vars/a.tfvars"
    assert removed["resources"] == ["terraform_data.it"]
    for arguments in (["plan"], ["plan", "a"], ["plan", "*"]):
        document = holdfast.json(*arguments, "--since", "HEAD", "--detailed-exitcode")
        require(document, CHANGE)
        assert {one["name"]: one["status"] for one in document["stacks"]} == {"a": "removed"}
    assert holdfast.json("plan", "b", "--since", "HEAD")["stacks"] == []


def test_colour_is_for_terminals_that_want_it(holdfast: Program) -> None:
    """Colour on a terminal; none with NO_COLOR, --no-color or a pipe. The words are the same."""
    stacks(holdfast, "a")
    _, coloured, _ = on_a_terminal(holdfast, ["stacks", "nobody"])
    assert ESCAPE in coloured
    for arguments, env in (
        (["stacks", "nobody"], {"NO_COLOR": "1"}),
        (["stacks", "nobody", "--no-color"], {}),
    ):
        code, plain, _ = on_a_terminal(holdfast, arguments, env=env)
        assert code == 64
        assert ESCAPE not in plain
        assert "HF-USE-8" in plain
    _, usage, _ = on_a_terminal(holdfast, ["stacks", "--nonsense"], env={"NO_COLOR": "1"})
    assert "HF-USE-1" in usage
    assert ESCAPE not in usage
    assert ESCAPE not in holdfast.ok("stacks").text


def test_in_ci_there_is_no_moving_screen(holdfast: Program) -> None:
    """With CI set, a terminal gets plain lines, one per event that matters."""
    stacks(holdfast, "a")
    code, shown, _ = on_a_terminal(holdfast, ["plan", "--no-color"], env={"CI": "true"})
    assert code == 0
    assert "a: planned" in shown
    assert ESCAPE not in shown


@pytest.mark.long
def test_quiet_leaves_the_results(holdfast: Program) -> None:
    """`--quiet` keeps results and errors, and leaves out how they came about."""
    stacks(holdfast, "a")
    loud, quiet = holdfast.ok("plan").out, holdfast.ok("plan", "--quiet").out
    assert "a: planned" in loud
    assert "a: planned" not in quiet
    assert "1 ready" in quiet
    assert holdfast.ok("plan", "--quiet", "--json").err == ""


def test_the_configuration_is_found_from_below_and_by_name(holdfast: Program) -> None:
    """From any folder of the repository, or from anywhere with `--config`, the stacks are the same."""
    stacks(holdfast, "a")
    expected = holdfast.json("stacks")
    assert holdfast.json("stacks", cwd=holdfast.folder / "module") == expected
    elsewhere = holdfast.folder.parent
    named = str(holdfast.folder / "holdfast.yaml")
    assert holdfast.json("stacks", "--config", named, cwd=elsewhere) == expected
    assert holdfast.json("stacks", "--config", "repo/holdfast.yaml", cwd=elsewhere) == expected
    assert holdfast.json("stacks", code=64, cwd=elsewhere)["errors"][0]["code"] == "HF-CONF-1"
    assert holdfast.json("stacks", "--config", "none.yaml", code=64)["errors"][0]["code"] == "HF-CONF-2"
