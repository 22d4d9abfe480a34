"""What an apply has done and what is left, from the lines that Terraform prints."""

from __future__ import annotations

import json

from guard_made import plan, resource

from holdfast.plans.events import Event, ProgramOutput
from holdfast.runs.apply_watch import ApplyWatch, known_outcomes
from holdfast.terraform.stream import read_line


def line(kind: str, address: str, action: str = "create", **hook: str) -> bytes:
    resource = {"addr": address}
    return json.dumps({"type": kind, "hook": {"resource": resource, "action": action, **hook}}).encode()


def test_each_change_has_its_outcome() -> None:
    """Half a replacement is not done, and a failure in an unknown apply is not known."""
    changes = plan(
        resource("a.done", "create"),
        resource("a.half", "delete", "create"),
        resource("a.whole", "delete", "create"),
        resource("a.failed", "update"),
        resource("a.open", "create"),
        resource("a.left", "create"),
    )
    outcomes: dict[str, str] = {}
    watch = ApplyWatch(lambda _: None, "s", changes, outcomes)
    for data in (
        line("apply_start", "a.done"),
        line("apply_complete", "a.done"),
        line("apply_start", "a.half", "delete"),
        line("apply_complete", "a.half", "delete"),
        line("apply_complete", "a.whole", "delete"),
        line("apply_start", "a.whole"),
        line("apply_complete", "a.whole"),
        line("apply_start", "a.failed", "update"),
        line("apply_errored", "a.failed", "update"),
        line("apply_start", "a.open"),
    ):
        watch.event(read_line(data))
    expected = {
        "a.done": "applied",
        "a.half": "incomplete",
        "a.whole": "applied",
        "a.failed": "failed",
        "a.open": "unknown",
    }
    assert outcomes == expected
    assert watch.applied == "2 of 6 changes", "as many as are listed"
    assert known_outcomes(outcomes, unknown=False) == expected
    assert known_outcomes(outcomes, unknown=True) == {**expected, "a.failed": "unknown"}


def test_a_provisioner_is_heard_line_by_line() -> None:
    heard: list[Event] = []
    watch = ApplyWatch(heard.append, "s", plan(resource("a.b", "create")))
    for data in (
        line("provision_start", "a.b", provisioner="local-exec"),
        line("provision_progress", "a.b", provisioner="local-exec", output="one\ntwo"),
        line("provision_errored", "a.b", provisioner="local-exec"),
        line("ephemeral_op_complete", "a.b"),
    ):
        watch.event(read_line(data))
    assert [event.text for event in heard if isinstance(event, ProgramOutput)] == ["one", "two", "failed"]
    assert {event.program for event in heard if isinstance(event, ProgramOutput)} == {"a.b (local-exec)"}
    assert watch.outcome(()).steps_failed
