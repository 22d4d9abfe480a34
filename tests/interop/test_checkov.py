"""The real Checkov, where it is: on PATH, or in HOLDFAST_TOOLS.

It must live in an environment of its own, never in this one: it pins old versions of what others need.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import other_tools
import pytest
import sarif_read
from msgspec.structs import replace
from program import Program
from tool_requests import tool_findings, tool_request

from holdfast.checks.model.interface import Finding, Skipped
from holdfast.checks.tools import checkov
from holdfast.checks.tools.checkov_report import CheckovReport, read_report
from holdfast.config.checks import Use
from holdfast.system import processes
from holdfast.system.environment import Environment

CODE = 'resource "aws_s3_bucket" "a" {\n  bucket = "quote \\" inside"\n  acl    = "public-read"\n}\n'
BROKEN = 'resource "aws_s3_bucket" "b" {\n  bucket = = 1\n}\n'


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"{other_tools.only('checkov', tmp_path / 'bin')}:/usr/bin:/bin"


def plan(**more: Any) -> dict[str, Any]:
    resource = {
        "address": "aws_s3_bucket.a",
        "mode": "managed",
        "type": "aws_s3_bucket",
        "name": "a",
        "provider_name": "registry.terraform.io/hashicorp/aws",
    }
    after = {"acl": "public-read", "bucket": "x"}
    change = {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}
    values = {**resource, "schema_version": 0, "values": after, "sensitive_values": {}}
    expressions = {"bucket": {"constant_value": "x"}, "acl": {"constant_value": "public-read"}}
    return {
        "format_version": "1.2",
        "terraform_version": "1.11.4",
        "planned_values": {"root_module": {"resources": [values]}},
        "resource_changes": [
            {**resource, "change": {**change, "before_sensitive": False, "after_sensitive": {}}}
        ],
        "configuration": {"root_module": {"resources": [{**resource, "expressions": expressions}]}},
        **more,
    }


def test_it_lives_in_an_environment_of_its_own() -> None:
    """What it pins must not decide what Holdfast is tested with."""
    other_tools.real("checkov")
    assert importlib.util.find_spec("checkov") is None


def test_it_looks_at_code_and_plans(tmp_path: Path, path: str) -> None:
    """Its findings have their ids, places and addresses; a plan's have their stack."""
    plans = {"root": json.dumps(plan()).encode()}
    about = tool_request("checkov", {"main.tf": CODE}, root=tmp_path, plans=plans, path=path)
    results = [(rule.id, str(one.place), one.stack, one.address) for rule, one in checkov.check(about)]  # type: ignore[union-attr] # every answer is a finding, or the test fails
    for id_ in ("CKV_AWS_20", "CKV_AWS_21"):
        assert (id_, "main.tf:1", None, "aws_s3_bucket.a") in results
        assert (id_, "None", "root", "aws_s3_bucket.a") in results
    assert {id_[:4] for id_, *_ in results} == {"CKV_", "CKV2"}


def test_what_it_passes_over_is_an_error(tmp_path: Path, path: str) -> None:
    """Code it cannot read, and a plan without what it looks for: it ends with 0 on both."""
    files = {"main.tf": CODE, "b.tf": BROKEN}
    empty = {key: value for key, value in plan().items() if key in ("format_version", "planned_values")}
    about = tool_request(
        "checkov", files, root=tmp_path, plans={"root": json.dumps(empty).encode()}, path=path, use=Use.ON
    )
    messages = [message for id_, message in tool_findings(checkov.check, about) if id_ == "HF908"]
    assert "checkov: could not read b.tf" in messages
    assert "checkov: could not read the plan" in messages


@pytest.mark.parametrize("content", [None, '{"no": "plan"}'])
def test_its_false_greens_are_known(tmp_path: Path, path: str, content: str | None) -> None:
    """A file that is missing and one that is no plan: 0 both times, and nothing of it may be believed."""
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_text(content)
    finished = processes.run(
        [str(tmp_path / "bin/checkov"), f"--file={file}", "--framework=terraform_plan", *checkov.ALWAYS],
        folder=tmp_path,
        environment={"PATH": path, "HOME": str(tmp_path)},
        seconds=120,
    )
    report = read_report(finished)
    assert finished.code == 0
    assert isinstance(report, CheckovReport)
    assert (report.seen, report.failed) == (frozenset(), ())


def test_resources_it_has_no_check_for_are_seen(tmp_path: Path, path: str) -> None:
    """It says nothing about them, as it does where it saw nothing: that is no error."""
    change = {"actions": ["create"], "before": None, "after": {"input": "v"}, "after_unknown": {}}
    resource = {
        "address": "terraform_data.x",
        "mode": "managed",
        "type": "terraform_data",
        "name": "x",
        "provider_name": "terraform.io/builtin/terraform",
    }
    made = plan(
        planned_values={"root_module": {"resources": [{**resource, "values": {"input": "v"}}]}},
        resource_changes=[{**resource, "change": change}],
        configuration={"root_module": {"resources": [{**resource, "expressions": {}}]}},
    )
    code = 'resource "terraform_data" "x" {\n  input = "v"\n}\n'
    files = {"main.tf": code, "sub/a.tf": code, "b.tf.json": '{"resource": {"null_resource": {"n": {}}}}'}
    about = tool_request(
        "checkov", files, root=tmp_path, plans={"root": json.dumps(made).encode()}, path=path
    )
    assert [(rule.id, answer) for rule, answer in checkov.check(about)] == [
        ("checkov", Skipped(reason="Checkov did not check this file", file="b.tf.json"))
    ]


def test_settings_of_the_repository_are_not_its_own_to_read(tmp_path: Path, path: str) -> None:
    """No code of theirs is run, no file written; what they skip is told, and so is what the code skips."""
    marker = tmp_path / "ran"
    run = f"open({str(marker)!r}, 'w').close()\n"
    files = {
        "main.tf": CODE.replace("{\n", "{\n  #checkov:skip=CKV_AWS_21:no versions here\n", 1),
        ".checkov.yaml": f"skip-check: [CKV_AWS_20]\nsoft-fail: true\noutput-file-path: {tmp_path}/out\n"
        "external-checks-dir: [checks, more]\n",
        "checks/__init__.py": run,
        "checks/a.py": run,
        "more/a.yaml": "metadata: {id: CKV2_ACME_1, name: acme, category: GENERAL_SECURITY}\n"
        "definition: {cond_type: attribute, resource_types: all, attribute: acme, operator: exists}\n",
    }
    about = tool_request("checkov", files, root=tmp_path / "repository", path=path)
    home = Environment(variables={**about.environment.variables, "HOME": str(tmp_path)})
    results = list(checkov.check(replace(about, environment=home)))
    ids = {rule.id for rule, answer in results if isinstance(answer, Finding)}
    assert "CKV2_ACME_1" in ids
    assert not ids & {"CKV_AWS_20", "CKV_AWS_21", "HF908"}
    assert not marker.exists()
    assert not (tmp_path / "out").exists()
    assert [(rule.id, answer.reason) for rule, answer in results if isinstance(answer, Skipped)] == [
        ("CKV_AWS_20", "skipped in the settings of Checkov"),
        ("checkov", "the checks in checks are not run: the folder contains code"),
        ("CKV_AWS_21", "skipped by a comment in the code: no versions here"),
    ]


def test_its_findings_stand_in_the_same_report(holdfast: Program, path: str) -> None:
    """Weighed and waived like our own, in every format; what it needs is not taken from the caller."""
    holdfast.environment["PATH"] = f"{path}:{holdfast.environment['PATH']}"
    holdfast.environment["CHECKOV_RUN_SCA_PACKAGE_SCAN_V2"] = "nonsense"
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks: [{ name: a, module: ., environment: dev }]
        checks:
          tools: { checkov: on, rego: off }
          rules: { "HF*": off, "CKV*": off, CKV_AWS_20: error, CKV_AWS_21: note, CKV_AWS_18: error }
          waivers:
            - { rule: CKV_AWS_18, owner: us, reason: no logs here, until: 2999-01-01 }
        """,
    )
    holdfast.write("main.tf", CODE)
    ran = holdfast.run("check", "--format", "sarif")
    assert ran.code == 3, ran.text
    run = sarif_read.read(ran.out)
    assert {(one["ruleId"], one["level"]) for one in run["results"]} == {
        ("CKV_AWS_20", "error"),
        ("CKV_AWS_21", "note"),
    }
    (waived,) = run["invocations"][0]["toolConfigurationNotifications"]
    assert waived["associatedRule"] == {"id": "CKV_AWS_18"}
    assert waived["message"]["text"].endswith("waived until 2999-01-01, us: no logs here")
