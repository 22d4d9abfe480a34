"""Plans that this version does not know, from an engine of the future."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_terraform import FakeTerraform
from program import Program
from small import stacks


@pytest.fixture
def fake(holdfast: Program, tmp_path: Path) -> FakeTerraform:
    stacks(holdfast, "a", more="engine: { use: binary }\n")
    terraform = FakeTerraform(tmp_path / "fake")
    holdfast.environment["PATH"] = f"{terraform.folder}:{holdfast.environment['PATH']}"
    return terraform


def test_what_is_understood_is_applied(holdfast: Program, fake: FakeTerraform) -> None:
    """The program of this test is believed in everything else: its ordinary plan is applied."""
    assert holdfast.results("apply", "--yes")["a"]["status"] == "applied"
    assert len(fake.calls("apply")) == 1


@pytest.mark.parametrize(
    ("actions", "reason"),
    [(["create"], "because_of_the_moon"), (["transmute"], None), (["delete", "hide"], None)],
)
def test_an_unknown_action_or_reason_is_shown_and_refused(
    holdfast: Program, fake: FakeTerraform, actions: list[str], reason: str | None
) -> None:
    """What a plan means to do and this version does not know is shown as it is, and refused, exit 3."""
    fake.plans(actions=actions, reason=reason)
    one = holdfast.results("plan", "--out", "out", code=3)["a"]
    assert one["status"] == "refused"
    assert one["guard"]["decision"] == "deny"
    assert one["guard"]["reasons"][0]["code"] == "HF-GUARD-0"
    assert one["guard"]["reasons"][0]["address"] == "lab_object.it"
    assert one["error"]["code"] == "HF-GUARD-0"
    shown = {"address": "lab_object.it", "actions": actions, "reason": reason}
    assert {name: one["resources"][0][name] for name in shown} == shown
    ran = holdfast.ok("apply", "--yes", code=3)
    assert "lab_object.it" in ran.out
    assert (reason or actions[-1]) in ran.out
    again = holdfast.results("apply", "--plan", "out", code=3)["a"]
    assert again["status"] == "refused"
    assert again["error"]["code"] == "HF-BUND-3"  # Its plan file is not one of Terraform's.
    assert fake.calls("apply") == []


@pytest.mark.parametrize("version", ["1.3", "2.0", ""])
def test_an_unknown_plan_format_fails(holdfast: Program, fake: FakeTerraform, version: str) -> None:
    """A format that is not known is not read as if it were: `failed`, exit 1, nothing applied."""
    fake.plans(format_version=version)
    one = holdfast.results("apply", "--yes", code=1)["a"]
    assert one["status"] == "failed"
    assert one["error"]["code"].startswith("HF-PLAN-")
    assert one["changes"] is None
    assert fake.calls("apply") == []


DIAGNOSTIC = {
    "severity": "error",
    "summary": "Unsupported argument",
    "detail": "An argument named colour is not expected here.",
    "range": {
        "filename": "../shared/main.tf",
        "start": {"line": 7, "column": 3, "byte": 80},
        "end": {"line": 7, "column": 9, "byte": 86},
    },
}


@pytest.mark.long
def test_validate_runs_once_for_one_content(holdfast: Program, fake: FakeTerraform) -> None:
    """Stacks on one module are validated once, the next command reuses the answer; new code is new."""
    holdfast.write("vars/b.tfvars", 'x = "b"\n')
    for arguments in (["plan"], ["plan"], ["apply", "--yes"]):
        holdfast.ok(*arguments)
        assert len(fake.calls("validate")) == 1
    assert len(fake.calls("plan")) == 6
    holdfast.write("vars/b.tfvars", 'x = "other"\n')
    holdfast.ok("plan")
    assert len(fake.calls("validate")) == 1
    with (holdfast.folder / "module/main.tf").open("a") as file:
        file.write("# other content\n")
    holdfast.ok("plan")
    assert len(fake.calls("validate")) == 2


def test_what_validate_finds_is_shown_with_its_place_in_the_source(
    holdfast: Program, fake: FakeTerraform
) -> None:
    """File and line are those a person can open, for every stack on the module, and nothing is planned."""
    holdfast.write("vars/b.tfvars", 'x = "b"\n')
    fake.validates(valid=False, diagnostics=[DIAGNOSTIC])
    results = holdfast.results("plan", code=1)
    assert set(results) == {"a", "b"}
    for one in results.values():
        assert one["status"] == "failed"
        error = one["error"]
        assert (error["code"], error["file"], error["line"]) == ("HF-TF-2", "shared/main.tf", 7)
        assert "colour" in error["message"]
    assert "shared/main.tf:7" in holdfast.ok("plan", "a", code=1).out
    assert fake.calls("plan") == []
    fake.validates(valid=True)
    assert holdfast.results("plan")["a"]["status"] == "planned"


def test_an_answer_that_is_nonsense_is_an_error(holdfast: Program, fake: FakeTerraform) -> None:
    """A program that prints something else than a plan is `failed`, never `unchanged`."""
    (fake.folder / "plan.json").write_text("Segmentation fault? No idea.")
    one = holdfast.results("plan", code=1)["a"]
    assert one["status"] == "failed"
    assert one["error"]["code"] == "HF-PLAN-2"
