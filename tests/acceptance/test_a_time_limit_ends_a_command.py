from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_terraform import FakeTerraform
from lab_stacks import ended, held, lab_module, none_left, with_engine
from program import Program

from provider.service import Fault, LabService


def configure(program: Program, *, use: str, limits: dict[str, str], env: dict[str, str]) -> None:
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [{"name": "a", "module": "a", "environment": "dev", "env": env}],
        "engine": {"use": use, "time_limits": limits},
    }
    program.write("holdfast.yaml", json.dumps(document))


@pytest.mark.long
def test_a_plan_over_its_time_is_stopped(with_lab: Program) -> None:
    """A plan that waits for something that never answers ends soon after its time, and says why."""
    with LabService() as service:
        configure(with_lab, use="embedded", limits={"plan": "4s"}, env={"LAB_URL": service.url})
        with_lab.write("a/main.tf", lab_module('data "lab_object" "it" {\n  name = "x"\n}\n'))
        service.misbehave(Fault(operation="find", what="hold"))
        process = with_lab.start("plan", "--json")
        held(service, process, "find")
        results, _ = ended(process, code=1, seconds=40)
        assert results["a"]["status"] == "failed"
        assert results["a"]["error"]["code"] == "HF-TIME-1"
        assert "plan" in results["a"]["error"]["message"]
        none_left(with_lab)


@pytest.mark.parametrize(("phase", "limit"), [("init", "init"), ("validate", "plan"), ("show", "plan")])
def test_each_phase_over_its_time_is_stopped(
    holdfast: Program, tmp_path: Path, phase: str, limit: str
) -> None:
    """A command that never answers ends soon after the limit of its phase, is named, and not tried again."""
    fake = FakeTerraform(tmp_path / "fake")
    fake.hangs(phase)
    holdfast.environment["PATH"] = f"{fake.folder}:{holdfast.environment['PATH']}"
    configure(holdfast, use="binary", limits={limit: "1s"}, env={})
    holdfast.write("a/main.tf", "")
    result = holdfast.results("plan", code=1, seconds=60)["a"]
    assert result["error"]["code"] == "HF-TIME-1"
    assert f"{phase} took longer" in result["error"]["message"]
    assert len(fake.calls(phase)) == 1
    none_left(holdfast)


@pytest.mark.long
def test_an_apply_has_a_grace_of_its_own(holdfast: Program, tmp_path: Path) -> None:
    """After the limit an apply may end what it began, for its grace; then it is left, and that is said."""
    fake = FakeTerraform(tmp_path / "fake")
    fake.hangs("apply")
    holdfast.environment["PATH"] = f"{fake.folder}:{holdfast.environment['PATH']}"
    configure(holdfast, use="binary", limits={"apply": "1s", "grace": "1s"}, env={})
    holdfast.write("a/main.tf", "")
    result = holdfast.results("apply", "--yes", code=6, seconds=60)["a"]
    assert result["status"] == "unknown"
    assert result["error"]["code"] == "HF-TIME-2"
    assert "lab_object.it" in result["error"]["message"]
    assert len(fake.calls("apply")) == 1
    none_left(holdfast)


@pytest.mark.parametrize(
    "use", ["embedded", pytest.param("binary", marks=[pytest.mark.binary, pytest.mark.long])]
)
def test_an_apply_over_its_time_is_stopped(holdfast: Program, terraform_folder: Path, use: str) -> None:
    """An apply over its time is interrupted as by Ctrl-C: what it made is saved and counted."""
    configure(holdfast, use=with_engine(holdfast, use, terraform_folder), limits={"apply": "2s"}, env={})
    holdfast.write(
        "a/main.tf",
        """
        resource "terraform_data" "quick" {}

        resource "terraform_data" "slow" {
          input = terraform_data.quick.id
          provisioner "local-exec" {
            command = "sleep 600; true"
          }
        }
        """,
    )
    process = holdfast.start("apply", "--yes", "--json")
    results, _ = ended(process, code=1)
    assert results["a"]["status"] == "failed"
    assert results["a"]["error"]["code"] == "HF-TIME-1"
    assert "1 of 2 changes completed and saved" in results["a"]["error"]["message"]
    none_left(holdfast)
