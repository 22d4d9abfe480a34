"""What a person sees while an apply runs, after Ctrl-C and after an error; the same in a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from lab_stacks import none_left, one_stack
from program import Program, eventually
from terminal import Terminal

from provider.service import Fault, LabService

STORY = """
resource "lab_object" "one" {
  name = "one"
}

resource "terraform_data" "build" {
  input = lab_object.one.id
  provisioner "local-exec" {
    command = "printf '\\\\033[31mbuilding a rather long thing\\\\033[0m with hunter2-hunter2\\\\n'"
  }
}

resource "lab_object" "two" {
  name = "two"
  body = terraform_data.build.id
}

resource "lab_object" "three" {
  name = "three"
  body = lab_object.two.id
}

variable "password" {
  sensitive = true
  default   = "hunter2-hunter2"
}
"""
STOPPING = (
    "Stopping after the resources in progress (1). Press Ctrl-C again to stop now: "
    "what is in progress may be lost from the state."
)


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


def test_finished_resources_and_the_answer_to_ctrl_c_stay_on_the_screen(
    with_lab: Program, service: LabService
) -> None:
    """At 60 columns: the plan, then each finished resource, what a provisioner prints, and what is left."""
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url}, body=STORY)
    service.misbehave(Fault(operation="create", what="hold", name="two"))
    terminal = Terminal(with_lab, ["apply", "--yes"], columns=60)
    terminal.until("lab_object.two")
    terminal.until("applying 1 stack")
    eventually(lambda: len(service.calls("create")) >= 2, what="two is being created")
    terminal.until("2/4")
    terminal.press("\x03")
    terminal.until("Ctrl-C again")
    eventually(lambda: service.stops > 0, what="Terraform tells its provider")
    service.release()
    assert terminal.end() == 1
    screen = terminal.screen.text
    in_one_line = " ".join(screen.split())
    assert STOPPING in in_one_line
    assert "applying 1 stack" not in screen
    assert "hunter2" not in terminal.shown
    assert "a: terraform_data.build (local-exec): building a rather long thing with ***" in in_one_line
    order = [
        *("+ lab_object.one", "✓ a: lab_object.one: create complete", "(local-exec): building"),
        *("Stopping", "✓ a: lab_object.two", "3 of 4 changes applied", "· lab_object.three"),
    ]
    places = [in_one_line.index(text) for text in order]
    assert places == sorted(places), screen
    assert max(map(len, screen.splitlines())) <= 60
    assert "create: not started" in screen
    none_left(with_lab)


def test_an_error_names_its_resource_and_what_is_left(with_lab: Program, service: LabService) -> None:
    """Without the colours of a provider, with file and line, on every surface; provisioners in a log too."""
    body = 'resource "lab_object" "zero" {\n  name = "zero"\n}\n' + STORY
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url}, body=body)
    text = "\x1b[31mquota\x1b[0m exceeded: set the environment variable LAB_QUOTA"
    service.misbehave(Fault(operation="create", what="fail-before", name="two", text=text, count=None))
    ran = with_lab.ok("apply", "--yes", code=1, env={"LAB_QUOTA": "9"})
    assert "  a: terraform_data.build (local-exec): building a rather long thing with ***\n" in ran.out
    assert "\x1b" not in ran.text
    assert "[31m" not in ran.text.replace("\\033[31m", "")
    assert re.search(r"HF-TF-4  a/main\.tf:\d+:\d+  lab_object\.two: ", ran.out)
    assert "✗ lab_object.two        create: failed" in ran.out
    assert "· lab_object.three      create: not started" in ran.out
    failed = with_lab.results("apply", "--yes", code=1, env={"LAB_QUOTA": "9"})["a"]
    error = failed["error"]
    assert error["message"].startswith("lab_object.two: ")
    assert "quota exceeded" in error["message"]
    assert "\x1b" not in error["message"]
    assert "[31m" not in error["message"]
    assert (error["address"], error["file"]) == ("lab_object.two", "a/main.tf")
    assert error["line"] is not None
    outcomes = {one["address"]: one["outcome"] for one in failed["resources"]}
    assert outcomes == {"lab_object.two": "failed", "lab_object.three": "not started"}
    planned = with_lab.results("plan")["a"]
    assert {one["outcome"] for one in planned["resources"]} == {None}
