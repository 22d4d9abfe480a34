"""The real opa, conftest and checkov, where they are: on PATH, or in HOLDFAST_TOOLS.

Checkov must live in an environment of its own, never in this one: it pins old versions of what others need.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from tools_made import asked, found, skipped

from holdfast.checks.tools import checkov, rego
from holdfast.checks.tools.rego_policies import Policy
from holdfast.checks.tools.rego_tests import Outcome, run_tests

_PLACES = [*([os.environ["HOLDFAST_TOOLS"]] if os.environ.get("HOLDFAST_TOOLS") else [])]
SEARCHED = os.pathsep.join([*_PLACES, *(f"{one}/bin" for one in _PLACES), os.environ["PATH"]])
POLICY = """
    package main
    import rego.v1
    deny_public contains {"msg": sprintf("%s is public", [n]), "team": "core"} if {
      some n, blocks in input.resource.aws_s3_bucket
      blocks[_].acl == "public-read"
    }
    deny_planned contains "planned" if {
      some r in input.resource_changes
      regex.match(`^pub`, r.change.after.acl)
    }
    warn contains "has resources" if count(input.resource) > 0
    exception contains rules if { rules := ["planned"]; input.variables.allowed.value }
    """
TESTS = """
    package main
    import rego.v1
    bucket := {"resource": {"aws_s3_bucket": {"a": [{"acl": "public-read"}]}}}
    test_found if count(deny_public) == 1 with input as bucket
    test_wrong if count(deny_public) == 1 with input as {}
    """
CODE = 'resource "aws_s3_bucket" "a" {\n  bucket = "quote \\" inside"\n  acl    = "public-read"\n}\n'


def program(name: str, folder: Path) -> str:
    """A PATH that has this program and what it needs, and no other of the three."""
    real = shutil.which(name, path=SEARCHED)
    if real is None:
        pytest.skip(f"no {name} on PATH or in HOLDFAST_TOOLS")
    folder.mkdir()
    (folder / name).symlink_to(Path(real))
    return os.pathsep.join([str(folder), "/usr/bin", "/bin"])


def plan(*, allowed: bool = False) -> bytes:
    resource = {
        "address": "aws_s3_bucket.a",
        "mode": "managed",
        "type": "aws_s3_bucket",
        "name": "a",
        "provider_name": "registry.terraform.io/hashicorp/aws",
    }
    after = {"acl": "public-read", "bucket": "x"}
    change: dict[str, object] = {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}
    change |= {"before_sensitive": False, "after_sensitive": {}}
    values = {**resource, "schema_version": 0, "values": after, "sensitive_values": {}}
    expressions = {"bucket": {"constant_value": "x"}, "acl": {"constant_value": "public-read"}}
    return json.dumps(
        {
            "format_version": "1.2",
            "terraform_version": "1.11.4",
            "variables": {"allowed": {"value": allowed}},
            "planned_values": {"root_module": {"resources": [values]}},
            "resource_changes": [{**resource, "change": change}],
            "configuration": {"root_module": {"resources": [{**resource, "expressions": expressions}]}},
        }
    ).encode()


@pytest.mark.parametrize("name", ["opa", "conftest"])
def test_policies_mean_the_same_to_every_evaluator(name: str, tmp_path: Path) -> None:
    """Code, plans, metadata, exceptions: what regopy says is what the real ones say."""
    path = program(name, tmp_path / "tools")
    said = {}
    for tool, where in ((name, path), ("regopy", "")):
        root = tmp_path / tool
        root.mkdir()
        files = {"main.tf": CODE, "policy/a.rego": POLICY}
        about = asked("rego", files, root=root, plans={"root": plan()}, path=where)
        spared = asked("rego", files, root=root, plans={"root": plan(allowed=True)}, path=where)
        said[tool] = (
            sorted(found(rego.look, about)),
            sorted(found(rego.look, spared)),
            len(skipped(rego.look, spared)),
        )
    assert said[name] == said["regopy"]
    assert [id_ for id_, _ in said[name][0]] == [
        "rego.main.deny_planned",
        "rego.main.deny_public",
        "rego.main.warn",
    ]
    assert "rego.main.deny_planned" not in [id_ for id_, _ in said[name][1]]


@pytest.mark.parametrize("name", ["opa", "conftest"])
def test_a_policy_that_cannot_be_read_is_an_error(name: str, tmp_path: Path) -> None:
    """Whoever evaluates it."""
    path = program(name, tmp_path / "tools")
    files = {"main.tf": CODE, "policy/a.rego": "package main\ndeny contains x if { y }\n"}
    assert [id_ for id_, _ in found(rego.look, asked("rego", files, root=tmp_path, path=path))] == ["HF908"]


def test_opa_runs_the_tests_of_policies(tmp_path: Path) -> None:
    """With the same ends as regopy gives."""
    path = program("opa", tmp_path / "tools")
    files = {"main.tf": "", "policy/a.rego": POLICY, "policy/a_test.rego": TESTS}
    about = asked("rego", files, root=tmp_path, path=path)
    policies = [Policy(path=file, text=files[file]) for file in files if file.endswith(".rego")]
    tested = run_tests(tmp_path, about.environment, policies)
    assert tested is not None
    assert {one.name: one.outcome for one in tested.tests} == {
        "test_found": Outcome.PASSED,
        "test_wrong": Outcome.FAILED,
    }


def test_checkov_looks_at_code_and_plans(tmp_path: Path) -> None:
    """Its findings have their ids and places; a plan's have their stack."""
    path = program("checkov", tmp_path / "tools")
    about = asked("checkov", {"main.tf": CODE}, root=tmp_path, plans={"root": plan()}, path=path)
    answers = list(checkov.look(about))
    assert {rule.id for rule, _ in answers} >= {"CKV_AWS_20", "CKV_AWS_21"}
    assert {str(getattr(one, "place", None)) for _, one in answers} == {"main.tf:1", "None"}
    assert {getattr(one, "stack", None) for _, one in answers} == {"root", None}


def test_what_checkov_passes_over_is_an_error(tmp_path: Path) -> None:
    """Code it cannot read, and a plan without a format it knows: it ends with 0 on both."""
    path = program("checkov", tmp_path / "tools")
    broken = {"main.tf": CODE, "b.tf": 'resource "aws_s3_bucket" "b" {\n  bucket = = 1\n}\n'}
    about = asked("checkov", broken, root=tmp_path, path=path)
    assert "checkov: could not read b.tf" in [message for _, message in found(checkov.look, about)]
    no_plan = json.loads(plan())
    del no_plan["resource_changes"], no_plan["configuration"], no_plan["terraform_version"]
    other = tmp_path / "other"
    other.mkdir()
    odd = asked(
        "checkov", {"main.tf": ""}, root=other, plans={"root": json.dumps(no_plan).encode()}, path=path
    )
    assert "HF908" in [id_ for id_, _ in found(checkov.look, odd)]
