from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.terraform import stream
from holdfast.terraform.stream import read_line

STREAMS = Path(__file__).parent / "streams"
IGNORED = {
    *("version", "planned_change", "resource_drift", "refresh_start", "refresh_complete"),
    *("planned_action_invocation", "log"),
}
"""Known types of lines that Holdfast does not use."""
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def recorded(name: str) -> list[stream.Event]:
    return [read_line(line) for line in (STREAMS / f"{name}.jsonl").read_bytes().splitlines()]


def line(type_: str, **more: Any) -> stream.Event:
    head = {"@level": "info", "@message": "said", "@timestamp": "2026-01-01T00:00:00Z", "type": type_}
    return read_line(json.dumps(head | more))


@pytest.mark.parametrize("file", sorted(STREAMS.glob("*.jsonl")), ids=lambda file: file.stem)
def test_every_recorded_line_is_known(file: Path) -> None:
    """Nothing that a supported engine says is passed over as unknown."""
    found = [read_line(each) for each in file.read_bytes().splitlines()]
    unknown = {event.type for event in found if isinstance(event, stream.UnknownEvent)}
    assert unknown <= IGNORED
    assert not any(isinstance(event, stream.UnparsedLine) for event in found)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_apply_names_what_it_created_and_its_id(engine: str) -> None:
    """The id of what was created is read at once: after a crash it may be known nowhere else."""
    found = recorded(f"{engine}-create-apply")
    started = [event.address for event in found if isinstance(event, stream.ApplyStart)]
    made = {event.address: event for event in found if isinstance(event, stream.ApplyComplete)}
    assert set(made) == {
        "terraform_data.secret",
        'terraform_data.each["a b"]',
        'terraform_data.each["c"]',
        "terraform_data.depends",
    }
    assert set(made) < set(started)
    assert all(
        event.id_key == "id" and event.id_value and event.action == "create" for event in made.values()
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_failed_apply_names_the_resource_and_then_the_reason(engine: str) -> None:
    """`apply_errored` has no text; the diagnostic has it, with address, file and line."""
    found = recorded(f"{engine}-apply-fails-apply")
    assert [event.address for event in found if isinstance(event, stream.ApplyErrored)] == [
        "terraform_data.b"
    ]
    failed = [event.failed for event in found if isinstance(event, stream.Step)]
    assert (failed[0], failed[-1]) == (False, True)
    (failure,) = [event.diagnostic for event in found if isinstance(event, stream.DiagnosticEvent)]
    assert (failure.severity, failure.summary) == ("error", "local-exec provisioner error")
    assert failure.address == "terraform_data.b"
    assert failure.place is not None
    assert (failure.place.file, failure.place.line) == ("main.tf", 5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_gives_its_summary_and_its_outputs(engine: str) -> None:
    """The stream of a plan can be followed while it runs."""
    found = recorded(f"{engine}-changes-plan")
    (summary,) = [event for event in found if isinstance(event, stream.ChangeSummary)]
    assert summary.operation == "plan"
    (outputs,) = [event for event in found if isinstance(event, stream.Outputs)]
    assert {(name, output.action, output.value) for name, output in outputs.outputs.items()} == {
        ("gone", "delete", None),
        ("o", "update", None),
    }


def test_outputs_carry_values_but_never_sensitive_ones() -> None:
    """A sensitive output's value is dropped on arrival, even where an engine sends it."""
    found = line(
        "outputs",
        outputs={
            "open": {"sensitive": False, "type": "string", "value": "x"},
            "shut": {"sensitive": True, "type": "string", "value": "hunter2"},
        },
    )
    assert isinstance(found, stream.Outputs)
    assert {name: output.value for name, output in found.outputs.items()} == {"open": "x", "shut": None}
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("type_", "hook", "what", "address"),
    [
        (
            "provision_progress",
            {"resource": {"addr": "a.b"}, "output": "x"},
            "provision",
            "a.b",
        ),
        (
            "ephemeral_op_start",
            {"resource": {"addr": "ephemeral.a.b"}, "action": "open"},
            "ephemeral",
            "ephemeral.a.b",
        ),
        (
            "ephemeral_action_started",
            {"resource": {"addr": "ephemeral.a.b"}},
            "ephemeral",
            "ephemeral.a.b",
        ),
        (
            "ephemeral_action_complete",
            {"resource": {"addr": "ephemeral.a.b"}},
            "ephemeral",
            "ephemeral.a.b",
        ),
        ("action_start", {"action": {"addr": "action.a.b"}}, "action", "action.a.b"),
        (
            "action_errored",
            {"action": {"addr": "action.a.b"}, "error": "no"},
            "action",
            "action.a.b",
        ),
    ],
)
def test_steps_are_known_by_the_names_of_both_engines(
    type_: str, hook: dict[str, Any], what: str, address: str
) -> None:
    """Terraform and OpenTofu name the same steps differently."""
    found = line(type_, hook=hook)
    assert isinstance(found, stream.Step)
    assert (found.what, found.failed, found.address) == (what, type_.endswith("errored"), address)


def test_progress_contains_the_elapsed_time() -> None:
    """The slowest resource can be shown with its seconds."""
    hook = {"resource": {"addr": "a.b"}, "action": "create", "elapsed_seconds": 20}
    found = line("apply_progress", hook=hook)
    assert isinstance(found, stream.ApplyProgress)
    assert found.elapsed == 20


def test_an_unknown_kind_of_line_keeps_its_type() -> None:
    """A newer engine may print new types of lines."""
    assert line("new_thing", hook={"resource": 5}) == stream.UnknownEvent(
        type="new_thing", at="2026-01-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    "type_", ["apply_start", "planned_change", "diagnostic", "outputs", "version", "change_summary"]
)
def test_a_known_kind_of_line_in_an_unknown_shape_does_not_stop_the_reader(type_: str) -> None:
    """A surprise in one line never costs the rest of the stream."""
    assert isinstance(line(type_), stream.UnknownEvent)
    assert isinstance(line(type_, hook=5, change=5, diagnostic=5, outputs=5, changes=5), stream.UnknownEvent)


@pytest.mark.parametrize(
    "text", ["", "panic: runtime error", "{", "5", "[]", '"x"', "null", "\udcff", "[" * 100_000]
)
def test_a_line_that_is_not_json_is_kept_as_text(text: str) -> None:
    """Output of a crash or a wrapper between the lines does not stop the reader."""
    found = read_line(text + "\n")
    assert isinstance(found, stream.UnparsedLine)
    assert "\n" not in found.text
    if text.isascii():
        assert found.text == text


def test_bytes_that_are_not_text_are_noise() -> None:
    """Broken bytes in a provider's output do not end a run."""
    assert isinstance(read_line(b"\xff\xfe{}"), stream.UnparsedLine)
    assert isinstance(read_line(b'{"type": "log", "@message": "\xff"}'), stream.UnparsedLine)
