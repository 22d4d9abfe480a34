"""A backend that was set back, or holds another stack's state: exit 6 until a person accepts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from program import Program

CODE = """
    terraform {{
      backend "local" {{}}
    }}
    resource "terraform_data" "a" {{
      input = "{value}"
    }}
    {more}
    output "value" {{
      value = "{value}"
    }}
"""


def repository(holdfast: Program, value: str, more: str = "") -> Path:
    stacks = [{"name": name, "module": name, "environment": "dev"} for name in ("a", "other")]
    document = {"version": 1, "environments": {"dev": {"match": ["dev"]}}, "stacks": stacks}
    holdfast.write("holdfast.yaml", json.dumps(document))
    holdfast.write("a/main.tf", CODE.format(value=value, more=more))
    holdfast.write("other/main.tf", CODE.format(value="other", more=""))
    return holdfast.folder / "a/terraform.tfstate"


def error(holdfast: Program, *arguments: str, code: int = 6) -> dict[str, Any]:
    document = holdfast.json(*arguments, code=code)
    problem: dict[str, Any] = (
        document["errors"][0] if "errors" in document else document["stacks"][0]["error"]
    )
    return problem


def test_a_state_that_was_replaced_is_unknown_until_it_is_restored_or_accepted(
    holdfast: Program, tmp_path: Path
) -> None:
    """By an older copy, or by the state of another stack: neither plan, nor apply, nor output uses it."""
    state = repository(holdfast, "one")
    holdfast.ok("apply", "--yes")
    older = state.read_bytes()
    bundle = tmp_path / "bundle"
    repository(holdfast, "two")
    holdfast.ok("plan", "a", "--out", str(bundle))
    repository(holdfast, "two", 'resource "terraform_data" "new" {}')
    holdfast.ok("apply", "a", "--yes")
    newest = state.read_bytes()

    state.write_bytes(older)
    for arguments in (("plan", "a"), ("apply", "a", "--yes"), ("output", "a")):
        problem = error(holdfast, *arguments)
        assert problem["code"] == "HF-STATE-10"
        assert "holdfast state adopt a --accept-older --reason TEXT" in problem["hint"]
    repository(holdfast, "two")
    assert error(holdfast, "apply", "--plan", str(bundle), code=3)["code"] == "HF-BUND-11"
    assert state.read_bytes() == older

    state.write_bytes((holdfast.folder / "other/terraform.tfstate").read_bytes())
    assert "another lineage" in error(holdfast, "plan", "a")["message"]

    state.write_bytes(older)
    later = tmp_path / "later.json"
    later.write_text(json.dumps(json.loads(older) | {"serial": json.loads(older)["serial"] + 1}))
    assert error(holdfast, "state", "push", "a", str(later))["code"] == "HF-STATE-10"

    # A newer state restores the order; so does accepting the older one, with a reason.
    state.write_bytes(newest)
    repository(holdfast, "two", 'resource "terraform_data" "new" {}')
    assert holdfast.results("plan", "a")["a"]["status"] == "unchanged"
    state.write_bytes(older)
    assert holdfast.run("state", "adopt", "a", "--accept-older").code == 64
    accepted = holdfast.json("state", "adopt", "a", "--accept-older", "--reason", "restored from a backup")
    assert (accepted["serial"], accepted["previous_serial"]) == (1, json.loads(newest)["serial"])
    assert holdfast.results("plan", "a")["a"]["changes"]["create"] == 1
    entries = holdfast.json("audit", "show")["entries"]
    [entry] = [one for one in entries if one["what"] == "adopt" and one["outcome"] == "done"]
    assert (entry["reason"], entry["break_glass"]) == ("restored from a backup", True)


def test_an_older_managed_state_is_noticed_and_a_rollback_repairs_it(holdfast: Program) -> None:
    """Someone removed the newest version from the run store: the record knows that there was one."""
    code = 'resource "terraform_data" "a" {{\n  input = "{value}"\n}}\n'
    stack = {"name": "a", "module": "a", "environment": "dev"}
    document = {"version": 1, "environments": {"dev": {"match": ["dev"]}}, "stacks": [stack]}
    holdfast.write("holdfast.yaml", json.dumps(document))
    for value in ("one", "two", "three"):
        holdfast.write("a/main.tf", code.format(value=value))
        holdfast.ok("apply", "--yes")
    versions = sorted((holdfast.folder / ".holdfast/states/a").iterdir())
    recorded = holdfast.json("state", "versions", "a")["current"]["serial"]
    versions[-1].unlink()
    assert error(holdfast, "plan")["code"] == "HF-STATE-10"
    first = holdfast.json("state", "versions", "a")["versions"][-1]
    assert holdfast.json("state", "rollback", "a", first["name"], "--yes")["serial"] > recorded
    assert holdfast.results("plan")["a"]["changes"]["update"] == 1
