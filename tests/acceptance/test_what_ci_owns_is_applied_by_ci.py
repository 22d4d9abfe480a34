from __future__ import annotations

import base64

import pytest
from program import Program
from small import stacks


def test_a_target_of_ci_is_planned_anywhere_and_applied_there_only(holdfast: Program) -> None:
    """Outside CI apply is refused, exit 3; plan is not; what depends on it is blocked, all else applied."""
    stacks(
        holdfast,
        "free",
        more="  - { name: owned, module: module, environment: dev, target: aws }\n"
        "  - { name: behind, module: module, environment: dev, depends_on: [owned] }\n"
        "targets: { aws: { owner: ci } }\n"
        "store: .holdfast\n",
    )
    holdfast.environment["HOLDFAST_KEY"] = base64.b64encode(bytes(32)).decode()
    assert holdfast.results("plan")["owned"]["status"] == "planned"
    results = holdfast.results("apply", "--yes", code=1)
    assert {name: one["status"] for name, one in results.items()} == {
        "behind": "blocked",
        "free": "applied",
        "owned": "refused",
    }
    assert results["owned"]["error"]["code"] == "HF-OWN-1"
    holdfast.ok("apply", "--yes", "--allow-blocked", code=3)
    holdfast.ok("plan", "owned", "--out", "out")
    bundle = holdfast.results("apply", "--plan", "out", code=3)
    assert bundle["owned"]["error"]["code"] == "HF-OWN-1"
    assert not (holdfast.folder / ".holdfast/states/owned").exists()
    assert holdfast.results("apply", "owned", "--yes", env={"CI": "true"})["owned"]["status"] == "applied"
    assert (holdfast.folder / ".holdfast/states/owned").exists()


def test_where_proof_is_required_a_variable_is_not_enough(holdfast: Program) -> None:
    """`CI=true`, and the variables of a job of GitHub, can be set by anyone. Planning stays free."""
    owned = "  - { name: owned, module: module, environment: dev, target: aws }\n"
    stacks(holdfast, more=owned + "targets: { aws: { owner: ci, proof: required } }\nstore: .holdfast\n")
    holdfast.environment["HOLDFAST_KEY"] = base64.b64encode(bytes(32)).decode()
    job = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "acme/infra",
        "GITHUB_ACTOR": "ada",
        "GITHUB_RUN_ID": "1",
    }
    for claimed in ({"CI": "true"}, {"CI": "true", **job}):
        result = holdfast.results("apply", "--yes", code=3, env=claimed)["owned"]
        assert (result["status"], result["error"]["code"]) == ("refused", "HF-OWN-2")
        assert "proof" in result["error"]["message"]
    assert holdfast.results("apply", "--yes", code=3)["owned"]["error"]["code"] == "HF-OWN-1"
    assert holdfast.results("plan")["owned"]["status"] == "planned"
    assert not (holdfast.folder / ".holdfast/states/owned").exists()


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_ci_is_set_only_when_it_says_so(holdfast: Program, value: str) -> None:
    """Empty, 0 and false are not CI."""
    stacks(
        holdfast,
        more="  - { name: owned, module: module, environment: dev, target: aws }\n"
        "targets: { aws: { owner: ci } }\n",
    )
    assert holdfast.results("apply", "--yes", code=3, env={"CI": value})["owned"]["status"] == "refused"
