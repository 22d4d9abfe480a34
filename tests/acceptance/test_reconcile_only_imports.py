"""Reconcile imports. What else it would change is decided like any plan; nothing in doubt is made again."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from lab_stacks import held, in_state, lab_module, none_left, warm_processes
from program import Program, eventually

from provider.service import Fault, LabService

ONE = 'resource "lab_object" "one" {{\n  name = "one"\n  body = "{body}"\n}}\n'
TWO = 'resource "lab_object" "two" {\n  name = "two"\n  body = lab_object.one.id\n}\n'
FROZEN = {"freeze": [{"from": "2020-01-01", "to": "2099-01-01", "zone": "UTC", "effect": "deny"}]}


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


def configure(program: Program, service: LabService, body: str, **more: Any) -> None:
    stack = {"name": "a", "module": "a", "environment": "dev", "env": {"LAB_URL": service.url}}
    document = {
        "version": 1,
        "store": ".store",
        "environments": {"dev": {"match": ["dev"]}},
        "targets": {"cloud": {"owner": more.pop("owner", "developers")}},
        "stacks": [{**stack, "target": "cloud"}],
        "engine": {"use": "embedded"},
        **more,
    }
    program.environment["HOLDFAST_KEY"] = base64.b64encode(bytes(range(32))).decode()
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", lab_module(body))


def kill_during_create_of_two(program: Program, service: LabService) -> str:
    """`two` is made and Terraform has not heard it; the run. What came before is done and not saved."""
    service.misbehave(Fault(operation="create", what="hold", name="two"))
    process = program.start("apply", "--yes", "--json", env={"CI": "true"})
    held(service, process, "create")
    eventually(lambda: service.held("create", "two"), what="two is made, and Terraform waits")
    (victim,) = warm_processes(program)
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 6
    service.behave()
    none_left(program)
    return str(program.json("runs", "list")["runs"][0]["id"])


def named(service: LabService) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in service.objects().values()}


def refusal(program: Program, *words: str, code: int, **options: Any) -> dict[str, Any]:
    (error,) = program.json("runs", "reconcile", *words, "--yes", code=code, **options)["errors"]
    return dict(error)


def test_an_import_that_also_updates_is_a_change_like_any_other(
    with_lab: Program, service: LabService
) -> None:
    """The code changed after the kill: importing `one` would update it. A freeze and an owner stop that."""
    configure(with_lab, service, ONE.format(body="old") + TWO, owner="ci")
    run = kill_during_create_of_two(with_lab, service)
    before = service.objects()
    # From a laptop nothing is done to a target of CI, not even an import or a lane that is freed.
    for words in ((run,), (run, "--recreate", "lab_object.two"), (run, "--holder-dead", "--reason", "gone")):
        assert refusal(with_lab, *words, code=3)["code"] == "HF-OWN-1"
    # `two` may exist, so it is not made again by a yes.
    assert refusal(with_lab, run, code=6, env={"CI": "true"})["code"] == "HF-REC-11"
    wrong = refusal(with_lab, run, "--recreate", "lab_object.one", code=64, env={"CI": "true"})
    assert wrong["code"] == "HF-REC-8"
    decided = (run, "--recreate", "lab_object.two")
    configure(with_lab, service, ONE.format(body="new") + TWO, owner="ci", guard=FROZEN)
    refused = refusal(with_lab, *decided, code=3, env={"CI": "true"})
    assert (refused["code"], "lab_object.one" in refused["message"]) == ("HF-GUARD-12", True)
    # What the imported resource depends on is never changed along with it.
    base = 'resource "lab_object" "base" {\n  name = "base"\n}\n'
    leaning = ONE.format(body="old").replace('"old"', "lab_object.base.id")
    configure(with_lab, service, base + leaning + TWO, owner="ci")
    assert refusal(with_lab, *decided, code=3, env={"CI": "true"})["code"] == "HF-REC-10"
    # Nor does a laptop become the owner by an edited configuration.
    configure(with_lab, service, ONE.format(body="old") + TWO)
    assert refusal(with_lab, *decided, code=3)["code"] == "HF-OWN-1"
    assert service.objects() == before
    assert in_state(with_lab, "a") == set()
    assert with_lab.results("plan", code=6)["a"]["status"] == "unknown"
    # Without the freeze the update is allowed, shown and done with the import.
    for id_, each in before.items():
        if each["name"] == "two":
            service.remove(id_)
    configure(with_lab, service, ONE.format(body="new") + TWO, owner="ci")
    ran = with_lab.ok("runs", "reconcile", *decided, "--yes", env={"CI": "true"})
    assert "The import also updates lab_object.one in place" in ran.text
    assert "old → new" in ran.text.replace('"', "")
    assert named(service)["one"]["body"] == "new"
    runs = with_lab.json("runs", "list")["runs"]
    assert [(each["operation"], each["stack"], each["status"]) for each in runs] == [
        ("apply", "a", "applied"),
        ("reconcile", "a", "applied"),
        ("apply", "a", "failed"),
    ]


def test_what_follows_does_no_other_action_than_the_interrupted_run(
    with_lab: Program, service: LabService
) -> None:
    """It was to update `one`; now the code deletes it. The address is the same, the action is not."""
    configure(with_lab, service, ONE.format(body="old"))
    with_lab.ok("apply", "--yes")
    configure(with_lab, service, ONE.format(body="new") + TWO)
    run = kill_during_create_of_two(with_lab, service)
    (two,) = [id_ for id_, each in service.objects().items() if each["name"] == "two"]
    configure(with_lab, service, TWO.replace("lab_object.one.id", '"nothing"'))
    document = with_lab.json("runs", "reconcile", run, "--yes", "--import", f"lab_object.two={two}")
    assert document["resolved"]
    rest = document["remaining"]
    assert rest["status"] == "planned"
    (note,) = [note for note in rest["notes"] if note.startswith("not applied")]
    assert "lab_object.one: delete" in note
    assert "holdfast apply a" in note
    assert named(service).keys() == {"one", "two"}


def test_an_interrupted_deletion_of_one_resource_is_not_continued_as_a_destroy(
    with_lab: Program, service: LabService
) -> None:
    """All its changes were deletions, as in a destroy. What stays in the code stays; so does the name."""
    configure(with_lab, service, ONE.format(body="old") + TWO)
    with_lab.ok("apply", "--yes")
    configure(with_lab, service, ONE.format(body="old"))
    service.misbehave(Fault(operation="delete", what="hold", name="two"))
    process = with_lab.start("apply", "--yes", "--json")
    eventually(lambda: service.held("delete", "two") or process.poll() is not None, what="it is deleted")
    (victim,) = warm_processes(with_lab)
    os.kill(victim, signal.SIGKILL)
    process.communicate(timeout=60)
    service.behave()
    none_left(with_lab)
    run = str(with_lab.json("runs", "list")["runs"][0]["id"])
    # Under another name there is no stack to reconcile, and no state to move yet.
    own = (with_lab.folder / "holdfast.yaml").read_text()
    with_lab.write("holdfast.yaml", own.replace('"name": "a"', '"name": "b"'))
    assert refusal(with_lab, run, code=64)["code"] == "HF-REC-12"
    (busy,) = with_lab.json("state", "rename", "a", "b", code=4)["errors"]
    assert f"holdfast runs reconcile {run}" in busy["hint"]
    with_lab.write("holdfast.yaml", own)
    rest = with_lab.json("runs", "reconcile", run, "--yes")["remaining"]
    assert rest["status"] == "unchanged"
    assert named(service).keys() == {"one"}
