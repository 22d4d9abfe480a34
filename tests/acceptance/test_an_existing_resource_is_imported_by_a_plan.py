"""`holdfast import`: an import block, a plan, the guard, a confirmation; and nothing but the import."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab_stacks import in_state, lab_module
from program import Program
from small import on_a_terminal

from provider.service import LabService

ONE = 'resource "lab_object" "one" {\n  name = "one"\n  body = "as it is"\n}\n'
OTHER = 'resource "lab_object" "other" {\n  name = "other"\n}\n'
IMPORT = ("import", "a", "lab_object.one", "obj-1")


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        running.put("obj-1", {"name": "one", "body": "as it is"})
        yield running


def configure(program: Program, service: LabService, body: str, *, environment: str, **more: Any) -> None:
    stack = {"name": "a", "module": "a", "environment": environment, "env": {"LAB_URL": service.url}}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "targets": {"cloud": {"owner": more.pop("owner", "developers")}},
        "stacks": [{**stack, "target": "cloud"}],
        "engine": {"use": "embedded"},
        **more,
    }
    program.environment["HOLDFAST_KEY"] = base64.b64encode(bytes(range(32))).decode()
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", lab_module(body))


def refusal(program: Program, *arguments: str, code: int) -> dict[str, Any]:
    problem: dict[str, Any] = program.results(*arguments, code=code)["a"]["error"]
    return problem


def test_only_the_import_is_applied_also_beside_other_changes(with_lab: Program, service: LabService) -> None:
    """In production, without an approval: nothing else changes. It is recorded as an import."""
    configure(with_lab, service, ONE + OTHER, environment="prod")
    assert with_lab.run(*IMPORT).code == 64
    code, shown, _ = on_a_terminal(with_lab, IMPORT, answers=["n"])
    assert (code, "imported from obj-1" in shown, in_state(with_lab, "a")) == (1, True, set())
    done = with_lab.results(*IMPORT, "--yes", "--reason", "made by hand")["a"]
    assert (done["status"], done["changes"]["import"], done["changes"]["create"]) == ("applied", 1, 0)
    assert in_state(with_lab, "a") == {"one"}
    assert not any("targeting" in note for note in done["notes"])
    run = with_lab.json("runs", "list")["runs"][0]
    assert (run["id"], run["operation"], run["status"]) == (done["run"], "import", "applied")
    entries = [one for one in with_lab.json("audit", "show")["entries"] if one["what"] == "import"]
    assert {(one["outcome"], one["reason"]) for one in entries} >= {("begun", "made by hand")}
    assert with_lab.results("plan")["a"]["changes"] == done["changes"] | {"import": 0, "create": 1}
    assert refusal(with_lab, *IMPORT, "--yes", code=3)["code"] == "HF-IMP-2"


def test_what_would_do_more_than_import_is_refused(with_lab: Program, service: LabService) -> None:
    """An update of the resource is shown and not made; a wrong id and a missing block say what to do."""
    configure(with_lab, service, ONE.replace("as it is", "another"), environment="dev")
    plan = with_lab.results(*IMPORT, "--yes", code=3)["a"]
    assert plan["error"]["code"] == "HF-IMP-1"
    assert "lab_object.one (update)" in plan["error"]["message"]
    assert service.objects()["obj-1"]["body"] == "as it is"
    configure(with_lab, service, ONE, environment="dev")
    assert "obj-9" in refusal(with_lab, *IMPORT[:3], "obj-9", "--yes", code=1)["message"]
    missing = refusal(with_lab, "import", "a", "lab_object.two", "obj-1", "--yes", code=1)
    assert (missing["code"], '"lab_object" "two"' in missing["hint"]) == ("HF-IMP-3", True)
    assert with_lab.run("import", "a", "lab_object.one }", "obj-1", "--yes").code == 64
    configure(with_lab, service, ONE, environment="dev", owner="ci")
    assert refusal(with_lab, *IMPORT, "--yes", code=3)["code"] == "HF-OWN-1"
    freeze = {"freeze": [{"from": "2020-01-01", "to": "2099-01-01", "zone": "UTC", "effect": "deny"}]}
    configure(with_lab, service, ONE, environment="dev", guard=freeze)
    frozen = refusal(with_lab, *IMPORT, "--yes", code=3)
    assert "`import` block" in frozen["hint"]
    assert in_state(with_lab, "a") == set()
