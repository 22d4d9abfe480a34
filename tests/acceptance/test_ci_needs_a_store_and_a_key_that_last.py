"""A CI runner is thrown away: what must be known afterwards is not left to it, nor sealed by its own key."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from program import Program
from small import MODULE

KEY = base64.b64encode(bytes(32)).decode()
CI = {"CI": "true"}
ELSEWHERE = 'terraform {\n  backend "local" {}\n}\n'


def repository(program: Program, store: str | None) -> None:
    """Two stacks with a backend of their own, production and not, and two whose states Holdfast keeps."""
    stacks = [
        {"name": f"{environment}-{module}", "module": f"{environment}-{module}", "environment": environment}
        for environment in ("dev", "prod")
        for module in ("kept", "own")
    ]
    document: dict[str, Any] = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}, "prod": {"match": ["prod"], "production": True}},
        "stacks": stacks,
        **({"store": store} if store is not None else {}),
    }
    program.write("holdfast.yaml", json.dumps(document))
    for stack in stacks:
        own = stack["module"].endswith("own")
        program.write(f"{stack['module']}/main.tf", (ELSEWHERE if own else "") + MODULE)


def statuses(results: dict[str, Any]) -> dict[str, str]:
    return {name: one["status"] for name, one in results.items()}


def untouched(program: Program) -> bool:
    return not (program.folder / ".holdfast").exists() and not (program.home / "key").exists()


def test_the_default_folder_of_a_runner_is_for_planning(holdfast: Program) -> None:
    """Production, and what Holdfast keeps, is refused there with the hint; planning needs not even a key."""
    repository(holdfast, None)
    assert set(statuses(holdfast.results("plan", env=CI)).values()) == {"planned"}
    refused = ("dev-kept", "prod-kept", "prod-own")
    wanted = {**dict.fromkeys(refused, "refused"), "dev-own": "applied"}
    results = holdfast.results("apply", "--yes", env=CI, code=3)
    assert statuses(results) == wanted
    for name in refused:
        error = results[name]["error"]
        assert error["code"] == "HF-STORE-10"
        assert "store: s3://" in error["hint"]
        assert "HOLDFAST_KEY" in error["hint"]
    assert not (holdfast.folder / "prod-own/terraform.tfstate").exists()
    assert not (holdfast.folder / ".holdfast/states").exists()


@pytest.mark.long
def test_a_plan_from_elsewhere_changes_nothing_about_that(holdfast: Program) -> None:
    """`apply --plan` is refused in the same way, before the plan counts as used."""
    repository(holdfast, None)
    key = {"HOLDFAST_KEY": KEY}
    holdfast.ok("plan", "dev-kept", "--out", "out", env={**CI, **key})
    result = holdfast.results("apply", "--plan", "out", env={**CI, **key}, code=3)["dev-kept"]
    assert result["error"]["code"] == "HF-STORE-10"
    assert holdfast.results("apply", "--plan", "out", env=key)["dev-kept"]["status"] == "applied"


@pytest.mark.parametrize("store", ["kept-here", "s3://acme/runs"])
def test_a_store_that_outlives_the_machine_needs_a_key_that_was_given(holdfast: Program, store: str) -> None:
    """Without one every command that would write is exit 64, before a key, a record or a state is written."""
    repository(holdfast, store)
    holdfast.write("state.json", json.dumps({"version": 4, "serial": 1, "lineage": "l", "resources": []}))
    env: dict[str, str] = {} if store.startswith("s3://") else CI
    for arguments in (
        ("plan", "dev-kept"),
        ("apply", "dev-kept", "--yes"),
        ("state", "push", "dev-kept", "state.json"),
    ):
        (error,) = holdfast.json(*arguments, env=env, code=64)["errors"]
        assert error["code"] == "HF-KEY-8"
        assert store in error["message"]
        assert "HOLDFAST_KEY_FILE" in error["hint"]
    assert untouched(holdfast)
    assert not (holdfast.folder / "kept-here").exists()


def test_with_a_named_folder_and_a_key_everything_is_applied(holdfast: Program) -> None:
    """The key may come by a file that its owner alone can read, and is the same key there."""
    repository(holdfast, ".holdfast")
    file = holdfast.folder.parent / "key-of-the-pipeline"
    file.write_text(f"{KEY}\n")
    by_file = {**CI, "HOLDFAST_KEY_FILE": str(file)}
    file.chmod(0o644)
    (error,) = holdfast.json("apply", "--yes", env=by_file, code=64)["errors"]
    assert error["code"] == "HF-KEY-4"
    assert untouched(holdfast)
    file.chmod(0o600)
    assert set(statuses(holdfast.results("apply", "--yes", env=by_file)).values()) == {"applied"}
    by_value = {**CI, "HOLDFAST_KEY": KEY}
    assert set(statuses(holdfast.results("plan", env=by_value)).values()) == {"unchanged"}
    assert not (holdfast.home / "key").exists()
