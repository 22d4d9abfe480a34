"""A rollback or a push that drops a resource from the state goes through the guard like a plan."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from program import Program
from small import on_a_terminal

KEY = base64.b64encode(bytes(range(32))).decode()
BOTH = 'resource "terraform_data" "a" {}\nresource "terraform_data" "b" {}\n'


def repository(holdfast: Program, *, environment: str, **more: Any) -> None:
    stack = {"name": "s", "module": "app", "environment": environment, "target": "aws"}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "targets": {"aws": {"owner": "developers"}},
        "stacks": [stack],
        **more,
    }
    holdfast.write("holdfast.yaml", json.dumps(document))


def applied(holdfast: Program) -> str:
    """First `a`, then `a` and `b`. The name of the first version."""
    holdfast.write("app/main.tf", 'resource "terraform_data" "a" {}\n')
    holdfast.ok("apply", "--yes")
    holdfast.write("app/main.tf", BOTH)
    holdfast.ok("apply", "--yes")
    first: str = holdfast.json("state", "versions", "s")["versions"][-1]["name"]
    return first


def addresses(holdfast: Program) -> set[str]:
    return set(holdfast.json("state", "list", "s")["resources"])


def refusal(holdfast: Program, *arguments: str, code: int = 3, **options: Any) -> dict[str, Any]:
    problem: dict[str, Any] = holdfast.json(*arguments, code=code, **options)["errors"][0]
    return problem


def test_in_production_only_an_override_of_exactly_this_change_drops_a_resource(
    holdfast: Program, tmp_path: Path
) -> None:
    """The digest is shown with the difference; it does not fit another change, and everything is recorded."""
    repository(holdfast, environment="prod")
    first = applied(holdfast)
    both = {"terraform_data.a", "terraform_data.b"}
    problem = refusal(holdfast, "state", "rollback", "s", first, "--yes")
    assert problem["code"] == "HF-GUARD-1"
    digest = problem["hint"].split("--override ")[1].split()[0]
    assert "- terraform_data.b" in holdfast.run("state", "rollback", "s", first, "--yes").text
    smaller = tmp_path / "smaller.json"
    state = json.loads(holdfast.ok("state", "pull", "s").out)
    state["resources"] = [one for one in state["resources"] if one["name"] == "a"]
    smaller.write_text(json.dumps(state | {"serial": state["serial"] + 1}))
    push = ("state", "push", "s", str(smaller))
    assert refusal(holdfast, *push, "--yes")["code"] == "HF-GUARD-1"
    assert refusal(holdfast, *push, "--override", digest, "--reason", "x")["code"] == "HF-STATE-12"
    assert holdfast.run(*push, "--override", digest).code == 64
    assert addresses(holdfast) == both
    repository(holdfast, environment="prod", targets={"aws": {"owner": "ci"}})
    assert refusal(holdfast, *push)["code"] == "HF-OWN-1"
    repository(holdfast, environment="prod")
    rolled = ("state", "rollback", "s", first, "--yes", "--override", digest, "--reason", "b is gone")
    assert holdfast.json(*rolled)["removed"] == ["terraform_data.b"]
    assert addresses(holdfast) == {"terraform_data.a"}
    entries = [one for one in holdfast.json("audit", "show")["entries"] if one["what"] == "rollback"]
    assert {(one["reason"], one["break_glass"], one["details"]["removed"]) for one in entries} == {
        ("b is gone", True, "terraform_data.b")
    }


def test_elsewhere_it_is_confirmed_and_a_protected_address_is_refused(
    holdfast: Program, tmp_path: Path
) -> None:
    """A push asks before it drops something; without a terminal it needs --yes. Protection always holds."""
    repository(holdfast, environment="dev")
    first = applied(holdfast)
    old = tmp_path / "old.json"
    serial = json.loads(holdfast.ok("state", "pull", "s").out)["serial"]
    state = json.loads(holdfast.ok("state", "pull", "s", first).out)
    old.write_text(json.dumps(state | {"serial": serial + 1}))
    assert refusal(holdfast, "state", "push", "s", str(old), code=64)["code"] == "HF-USE-5"
    repository(holdfast, environment="dev", guard={"protect": {"addresses": ["terraform_data.b"]}})
    for arguments in (("push", "s", str(old)), ("rollback", "s", first)):
        assert refusal(holdfast, "state", *arguments, "--yes")["code"] == "HF-GUARD-6"
    repository(holdfast, environment="dev")
    code, shown, _ = on_a_terminal(holdfast, ["state", "push", "s", str(old)], answers=["n"])
    assert (code, "1 resource (terraform_data.b)" in shown) == (1, True)
    assert addresses(holdfast) == {"terraform_data.a", "terraform_data.b"}
    assert holdfast.json("state", "push", "s", str(old), "--yes")["removed"] == ["terraform_data.b"]
    assert addresses(holdfast) == {"terraform_data.a"}


def test_an_edited_checkout_does_not_lift_the_rules_of_the_last_apply(
    holdfast: Program, tmp_path: Path
) -> None:
    """On a laptop `prod` becomes `dev` and CI is no longer the owner: no operation on the state is freed."""
    in_ci = {"CI": "true", "HOLDFAST_KEY": KEY}
    holdfast.environment["HOLDFAST_KEY"] = KEY
    prod: dict[str, Any] = {"environment": "prod", "store": ".store", "targets": {"aws": {"owner": "ci"}}}
    dev: dict[str, Any] = {"environment": "dev", "store": ".store"}
    repository(holdfast, **prod)
    # The first apply fails half-way: what it created is in production all the same.
    failing = BOTH.replace('"b" {}', '"b" {\n  provisioner "local-exec" {\n    command = "exit 1"\n  }\n}')
    holdfast.write("app/main.tf", failing)
    approved = {"environments": {"prod": {"provisioners": "allow"}}}
    repository(holdfast, **prod, guard=approved)
    holdfast.ok("apply", "--yes", env=in_ci, code=1)
    repository(holdfast, **dev)
    holdfast.write("app/main.tf", 'resource "terraform_data" "a" {}\n')
    reasons = holdfast.results("plan", code=3)["s"]["guard"]["reasons"]
    assert "HF-GUARD-20" in {reason["code"] for reason in reasons}

    state = json.loads(holdfast.ok("state", "pull", "s").out)
    smaller = tmp_path / "smaller.json"
    kept = [one for one in state["resources"] if one["name"] == "a"]
    smaller.write_text(json.dumps(state | {"resources": kept, "serial": state["serial"] + 1}))
    push = ("state", "push", "s", str(smaller), "--yes")
    adopt = ("state", "adopt", "s", "--accept-older", "--reason", "x")
    assert refusal(holdfast, *adopt)["code"] == "HF-OWN-1"
    for environment in ({}, in_ci):
        assert refusal(holdfast, *push, env=environment)["code"] == "HF-GUARD-20"
    # Nor does another name free it.
    renamed = json.loads((holdfast.folder / "holdfast.yaml").read_text())
    renamed["stacks"][0]["name"] = "t"
    holdfast.write("holdfast.yaml", json.dumps(renamed))
    assert refusal(holdfast, "state", "rename", "s", "t")["code"] == "HF-OWN-1"
    assert refusal(holdfast, "state", "retire", "s", "--reason", "x")["code"] == "HF-OWN-1"
    holdfast.ok("state", "rename", "s", "t", env=in_ci)
    moved = ("state", "push", "t", *push[3:])
    for environment in ({}, in_ci):
        assert refusal(holdfast, *moved, env=environment)["code"] == "HF-GUARD-20"


def test_a_lost_state_without_a_copy_is_not_replaced_by_less(holdfast: Program, tmp_path: Path) -> None:
    """Of the first apply there is no backup: the number of recorded resources says that one is missing."""
    repository(holdfast, environment="prod")
    holdfast.write("app/main.tf", 'terraform {\n  backend "local" {}\n}\n' + BOTH)
    holdfast.ok("apply", "--yes")
    file = holdfast.folder / "app/terraform.tfstate"
    whole = json.loads(file.read_text())
    file.write_text("")
    given = tmp_path / "given.json"
    given.write_text(json.dumps(whole | {"resources": whole["resources"][:1], "serial": whole["serial"] + 1}))
    assert refusal(holdfast, "state", "push", "s", str(given), "--yes")["code"] == "HF-GUARD-10"
    given.write_text(json.dumps(whole))
    holdfast.ok("state", "push", "s", str(given))
    assert addresses(holdfast) == {"terraform_data.a", "terraform_data.b"}


def test_what_state_rm_removes_is_a_loss_that_can_be_undone(holdfast: Program) -> None:
    """In production only by an override of exactly this removal; elsewhere confirmed. The resources stay."""
    repository(holdfast, environment="prod")
    applied(holdfast)
    remove = ("state", "rm", "s", "terraform_data.b")
    problem = refusal(holdfast, *remove, "--yes")
    assert problem["code"] == "HF-GUARD-1"
    digest = problem["hint"].split("--override ")[1].split()[0]
    other = ("state", "rm", "s", "terraform_data.a", "--override", digest, "--reason", "x")
    assert refusal(holdfast, *other)["code"] == "HF-STATE-12"
    assert refusal(holdfast, "state", "rm", "s", "terraform_data.c", code=64)["code"] == "HF-STATE-14"
    done = holdfast.json(*remove, "--override", digest, "--reason", "b is gone")
    assert (done["removed"], done["resources"]) == (["terraform_data.b"], 1)
    entries = [one for one in holdfast.json("audit", "show")["entries"] if one["what"] == "rm"]
    assert {(one["reason"], one["break_glass"], one["details"]["removed"]) for one in entries} == {
        ("b is gone", True, "terraform_data.b")
    }
    holdfast.ok("state", "rollback", "s", done["backup"], "--yes")
    assert addresses(holdfast) == {"terraform_data.a", "terraform_data.b"}
    repository(holdfast, environment="dev", targets={"aws": {"owner": "ci"}})
    assert refusal(holdfast, *remove, "--yes")["code"] == "HF-OWN-1"


def test_state_rm_asks_elsewhere_and_removes_from_a_local_state(holdfast: Program) -> None:
    """Without a terminal it needs --yes. The state before is a backup."""
    repository(holdfast, environment="dev")
    holdfast.write("app/main.tf", 'terraform {\n  backend "local" {}\n}\n' + BOTH)
    holdfast.ok("apply", "--yes")
    remove = ("state", "rm", "s", "terraform_data.b")
    assert refusal(holdfast, *remove, code=64)["code"] == "HF-USE-5"
    code, shown, _ = on_a_terminal(holdfast, list(remove), answers=["y"])
    assert (code, "terraform_data.b" in shown, "holdfast state rollback s" in shown) == (0, True, True)
    assert addresses(holdfast) == {"terraform_data.a"}
    assert [one["why"] for one in holdfast.json("state", "versions", "s")["versions"]] == [
        "before a state rm"
    ]
