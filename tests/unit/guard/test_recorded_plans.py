"""Recorded plans of Terraform and OpenTofu, judged: what each kind of plan leads to, whoever made it."""

from __future__ import annotations

from pathlib import Path

import pytest
from guard_made import codes, situation, with_code

from holdfast.guard.decision import Allow, Decision, Deny
from holdfast.guard.evaluate import evaluate_plan
from holdfast.guard.policy import ELSEWHERE, IN_PRODUCTION
from holdfast.terraform.plan.model import read_plan

PLANS = Path(__file__).parents[1] / "terraform" / "plans"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def judged(name: str, *, production: bool = True) -> Decision:
    plan = read_plan((PLANS / f"{name}.json").read_bytes())
    policy = IN_PRODUCTION if production else ELSEWHERE
    return evaluate_plan(plan, policy, situation(production=production))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_loses_something_is_denied_in_production(engine: str) -> None:
    """Each lost object by its address, and nothing that is only moved, imported or changed."""
    decision = judged(f"{engine}-changes")
    assert isinstance(decision, Deny)
    lost = {str(one).removeprefix("terraform_data.") for one in with_code(decision, "HF-GUARD-1")}
    assert lost == {
        "counted[1]", "counted[2]", "deleted", 'each["b"]', "forgotten",
        "replaced", "replaced_first", "requested", "triggered",
    }  # fmt: skip
    assert isinstance(judged(f"{engine}-changes", production=False), Allow)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_loses_nothing_is_allowed_in_production(engine: str) -> None:
    """Creating, importing, moving, outputs, and nothing at all."""
    for kind in ("create", "import-only", "move-only", "nothing", "outputs-only", "drift-normal"):
        assert isinstance(judged(f"{engine}-{kind}"), Allow)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_destroy_is_one_although_no_plan_says_so(engine: str) -> None:
    """The format has no word for it: everything that there is goes."""
    assert codes(judged(f"{engine}-destroy"))[0] == "HF-GUARD-10"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_that_broke_off_is_never_allowed(engine: str) -> None:
    """Nobody knows what else it would have said."""
    decision = judged(f"{engine}-errored", production=False)
    assert isinstance(decision, Deny)
    assert "HF-GUARD-0" in codes(decision)


@pytest.mark.parametrize("name", ["tofu-1.12.6-enabled-false", "tofu-1.12.6-pair"])
def test_what_only_opentofu_does_is_a_loss_too(name: str) -> None:
    """Switched off with `enabled = false`, and forgotten before it is made anew."""
    assert "HF-GUARD-1" in codes(judged(name))
