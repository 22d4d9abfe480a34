from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_terraform import FakeTerraform
from lab_stacks import ended, held, in_state, lab_module, none_left
from program import Program, interrupt

from provider.service import Fault, LabService

SLOW_DOWN = "Throttling: Rate exceeded"
NOT_READY = "the shelf for this object is not ready yet"


def configure(program: Program, service: LabService, **retries: Any) -> None:
    entry = {"name": "a", "module": "a", "env": {"LAB_URL": service.url}}
    engine = {"use": "embedded", "retries": {"wait": "0s", **retries}}
    program.write("holdfast.yaml", json.dumps({"version": 1, "stacks": [entry], "engine": engine}))


def objects(program: Program, **bodies: str) -> None:
    blocks = [
        f'resource "lab_object" "{name}" {{\n  name = "{name}"\n  body = "{body}"\n}}\n'
        for name, body in bodies.items()
    ]
    program.write("a/main.tf", lab_module("\n".join(blocks)))


def names(service: LabService) -> list[str]:
    return sorted(str(one["name"]) for one in service.objects().values())


def notes_about(result: dict[str, Any], text: str) -> list[str]:
    return [note for note in result["notes"] if text in note]


def test_a_plan_goes_through_after_two_hiccups(with_lab: Program) -> None:
    """A service that fails twice and then works costs two tries, and each is told and recorded."""
    with LabService() as service:
        configure(with_lab, service)
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        service.misbehave(Fault(operation="read", what="fail-before", status=503, count=2))
        ran = with_lab.ok("plan", "--json")
        (result,) = json.loads(ran.out)["stacks"]
        assert result["status"] == "unchanged"
        assert len(notes_about(result, "plan failed (gateway-timeout)")) == 2
        assert ran.err.count("plan failed (gateway-timeout)") == 2
        assert len([call for call in service.calls("read") if call.status == 503]) == 2


@pytest.mark.long
def test_a_service_that_fails_for_ever_is_given_up(with_lab: Program) -> None:
    """After the attempts that are allowed the error is the answer, as Terraform said it."""
    with LabService() as service:
        configure(with_lab, service, attempts=2)
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        service.misbehave(Fault(operation="read", what="fail-before", status=503, count=None))
        before = len(service.calls("read"))
        result = with_lab.results("plan", code=1)["a"]
        assert result["status"] == "failed"
        assert result["error"]["code"] == "HF-TF-3"
        assert "503" in result["error"]["message"]
        assert len(notes_about(result, "plan failed")) == 2
        assert len(service.calls("read")) - before == 3


@pytest.mark.parametrize(
    ("retries", "text"),
    [
        ({}, "no such object"),
        pytest.param({"attempts": 0}, SLOW_DOWN, marks=pytest.mark.long),
        pytest.param({"also": ["moon"]}, "the sun is up", marks=pytest.mark.long),
    ],
)
def test_an_error_that_no_rule_names_is_told_at_once(
    with_lab: Program, retries: dict[str, Any], text: str
) -> None:
    """What is not in the table, or is turned off, is not tried again."""
    with LabService() as service:
        configure(with_lab, service, **retries)
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        service.misbehave(Fault(operation="read", what="fail-before", text=text))
        assert notes_about(with_lab.results("plan", code=1)["a"], "failed") == []


@pytest.mark.long
def test_a_text_of_the_configuration_is_worth_a_try(with_lab: Program) -> None:
    """What a repository's own provider says can be added to the table."""
    with LabService() as service:
        configure(with_lab, service, also=["The moon is up"])
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        service.misbehave(Fault(operation="read", what="fail-before", text="sorry, the moon is up"))
        assert len(notes_about(with_lab.results("plan")["a"], "The moon is up")) == 1


@pytest.mark.long
def test_ctrl_c_ends_the_wait(with_lab: Program) -> None:
    """Nobody waits for an hour because a retry does."""
    with LabService() as service:
        configure(with_lab, service, wait="1h")
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        service.misbehave(Fault(operation="read", what="fail-before", status=503, count=None))
        process = with_lab.start("plan")
        assert process.stderr is not None
        said = ""
        while "try 1 of 3" not in said:
            said += process.stderr.readline() or pytest.fail(said)
        interrupt(process)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "stopped while waiting" in out + err
        none_left(with_lab)


@pytest.mark.parametrize("command", ["init", "validate", "show", "state"])
def test_every_command_that_changes_nothing_is_tried_again(
    holdfast: Program, tmp_path: Path, command: str
) -> None:
    """Also where Terraform says why outside of its JSON."""
    fake = FakeTerraform(tmp_path / "fake")
    fake.fails(command, "\nError: read tcp: connection reset\n  by peer\n", times=2)
    holdfast.environment["PATH"] = f"{fake.folder}:{holdfast.environment['PATH']}"
    entry = {"name": "a", "module": "a"}
    engine = {"use": "binary", "retries": {"wait": "0s"}}
    holdfast.write("holdfast.yaml", json.dumps({"version": 1, "stacks": [entry], "engine": engine}))
    holdfast.write("a/main.tf", "")
    result = holdfast.results("plan")["a"]
    assert result["status"] == "planned"
    assert len(notes_about(result, "failed (connection-reset)")) == 2
    assert len(fake.calls(command)) == 3


# After an apply that failed


def test_a_throttled_update_is_followed_by_a_new_plan(with_lab: Program) -> None:
    """An update that was refused for a moment is planned again and made, once."""
    with LabService() as service:
        configure(with_lab, service)
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        objects(with_lab, one="y", two="new")
        service.misbehave(Fault(operation="update", what="throttle", text=SLOW_DOWN))
        result = with_lab.results("apply", "--yes")["a"]
        assert result["status"] == "applied"
        assert len(notes_about(result, "the apply failed (aws-throttled); planning again")) == 1
        assert result["changes"]["update"] == 1
        assert names(service) == ["one", "two"]
        assert sorted(str(one["body"]) for one in service.objects().values()) == ["new", "y"]
        assert len(service.calls("create")) == 2


@pytest.mark.long
def test_an_update_that_was_made_all_the_same_leaves_nothing_to_do(with_lab: Program) -> None:
    """The new plan looks before it does: what was done already is not done again."""
    with LabService() as service:
        configure(with_lab, service)
        objects(with_lab, one="x")
        with_lab.write("a/outputs.tf", 'output "it" {\n  value = "kept"\n}\n')
        with_lab.ok("apply", "--yes")
        objects(with_lab, one="y")
        service.misbehave(Fault(operation="update", what="fail-after", status=503))
        result = with_lab.results("apply", "--yes")["a"]
        assert result["status"] == "applied"
        assert len(notes_about(result, "no changes left")) == 1
        assert result["outputs"]["it"]["value"] == "kept"
        assert len(service.calls("update")) == 1


@pytest.mark.long
def test_an_update_that_is_throttled_for_ever_is_given_up(with_lab: Program) -> None:
    """There are as many new plans as attempts, and no more."""
    with LabService() as service:
        configure(with_lab, service, attempts=2)
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        objects(with_lab, one="y")
        service.misbehave(Fault(operation="update", what="throttle", text=SLOW_DOWN, count=None))
        result = with_lab.results("apply", "--yes", code=1)["a"]
        assert result["status"] == "failed"
        assert result["error"]["code"] == "HF-TF-4"
        assert len(notes_about(result, "planning again")) == 2
        assert len(service.calls("update")) == 3


@pytest.mark.parametrize("what", ["fail-after", "throttle"])
def test_a_create_that_may_have_been_made_is_not_made_again(with_lab: Program, what: Any) -> None:
    """A throttling text proves nothing about a create: it is named, and a person looks."""
    with LabService() as service:
        configure(with_lab, service)
        objects(with_lab, one="x")
        service.misbehave(Fault(operation="create", what=what, status=503, text=SLOW_DOWN))
        result = with_lab.results("apply", "--yes", code=1)["a"]
        assert result["status"] == "failed"
        assert "lab_object.one" in result["error"]["hint"]
        assert notes_about(result, "new plan") == []
        assert len(service.calls("create")) == 1
        assert names(service) == (["one"] if what == "fail-after" else [])


@pytest.mark.long
def test_a_create_that_is_known_to_be_refused_is_followed(with_lab: Program) -> None:
    """Where provider and text say that nothing was made, a new plan makes it: one object."""
    with LabService() as service:
        configure(with_lab, service, refused_creates=[{"provider": "labs/lab", "text": NOT_READY}])
        objects(with_lab, one="x", two="x")
        service.misbehave(Fault(operation="create", what="throttle", name="one", text=NOT_READY))
        result = with_lab.results("apply", "--yes")["a"]
        assert result["status"] == "applied"
        assert len(notes_about(result, f"labs/lab: {NOT_READY}")) == 1
        assert names(service) == ["one", "two"]
        assert in_state(with_lab, "a") == {"one", "two"}


@pytest.mark.long
def test_a_row_for_another_provider_proves_nothing(with_lab: Program) -> None:
    """A text is believed only of the provider whose it is."""
    with LabService() as service:
        configure(with_lab, service, refused_creates=[{"provider": "hashicorp/lab", "text": NOT_READY}])
        objects(with_lab, one="x")
        service.misbehave(Fault(operation="create", what="throttle", text=NOT_READY))
        assert "lab_object.one" in with_lab.results("apply", "--yes", code=1)["a"]["error"]["hint"]


@pytest.mark.long
@pytest.mark.parametrize("approved", [True, False])
def test_a_saved_plan_is_followed_up_unless_somebody_named_it(
    with_lab: Program, tmp_path: Path, *, approved: bool
) -> None:
    """Whoever named a plan gets that plan or nothing."""
    with LabService() as service:
        configure(with_lab, service)
        objects(with_lab, one="x")
        with_lab.ok("apply", "--yes")
        objects(with_lab, one="y")
        bundle = str(tmp_path / "bundle")
        with_lab.ok("plan", "--out", bundle)
        if approved:
            with_lab.ok("runs", "approve", "--bundle", bundle, "--reason", "looks right")
        service.misbehave(Fault(operation="update", what="throttle", text=SLOW_DOWN))
        result = with_lab.results("apply", "--plan", bundle, code=1 if approved else 0)["a"]
        assert result["status"] == ("failed" if approved else "applied")
        assert notes_about(result, "new plan") == []
        assert len(service.calls("update")) == (1 if approved else 2)
        if not approved:
            assert with_lab.results("apply", "--plan", bundle)["a"]["notes"] == ["already applied"]


@pytest.mark.long
def test_a_new_plan_that_would_do_more_is_not_applied(with_lab: Program) -> None:
    """What nobody was shown is not done: an object that vanished meanwhile is not created by itself."""
    with LabService() as service:
        configure(with_lab, service)
        objects(with_lab, one="x", two="x", three="x")
        with_lab.ok("apply", "--yes")
        objects(with_lab, one="y", two="x", three="y")
        service.misbehave(Fault(operation="update", what="throttle", name="one", text=SLOW_DOWN))
        service.misbehave(Fault(operation="update", what="hold", name="three"))
        process = with_lab.start("apply", "--yes", "--json")
        held(service, process, "update", count=2)
        (two,) = [key for key, one in service.objects().items() if one["name"] == "two"]
        service.remove(two)
        service.release()
        results, _ = ended(process, code=1)
        assert results["a"]["status"] == "failed"
        assert len(notes_about(results["a"], "because it has additional changes: lab_object.two")) == 1
        assert names(service) == ["one", "three"]
        assert len(service.calls("update")) == 2
