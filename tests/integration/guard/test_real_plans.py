"""Real plans of every kind, by both engines, judged: what Terraform writes is what the rules look at."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from guard_made import codes, situation, with_code
from msgspec import structs

from holdfast.config.guard import ANY, Budget, Effect
from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval
from holdfast.guard.evaluate import evaluate_plan
from holdfast.guard.policy import ELSEWHERE, IN_PRODUCTION
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan, read_plan
from workbench import Engine, Workbench, engines

BEFORE = """
resource "lab_object" "kept" {
  name = "kept"
}
resource "lab_object" "deleted" {
  name = "deleted"
}
resource "lab_object" "counted" {
  count = 2
  name  = "counted-${count.index}"
}
resource "lab_object" "replaced" {
  name    = "replaced"
  replace = "one"
}
resource "lab_object" "replaced_first" {
  name    = "replaced_first"
  replace = "one"
  lifecycle { create_before_destroy = true }
}
resource "lab_object" "forgotten" {
  name = "forgotten"
}
resource "lab_object" "old" {
  name = "old"
}
resource "lab_object" "left" {
  name    = "left"
  kind    = "fail-delete"
  replace = "one"
  lifecycle { create_before_destroy = true }
}
output "address" {
  value = lab_object.kept.name
}
"""
LEFT_BEHIND = BEFORE.replace('kind    = "fail-delete"\n  replace = "one"', 'replace = "two"')
AFTER = """
resource "lab_object" "kept" {
  name = "kept"
  body = "changed"
}
resource "lab_object" "counted" {
  count = 1
  name  = "counted-${count.index}"
}
resource "lab_object" "replaced" {
  name    = "replaced"
  replace = "two"
}
resource "lab_object" "replaced_first" {
  name    = "replaced_first"
  replace = "two"
  lifecycle { create_before_destroy = true }
}
removed {
  from = lab_object.forgotten
  lifecycle { destroy = false }
}
moved {
  from = lab_object.old
  to   = lab_object.new
}
resource "lab_object" "new" {
  name    = "old"
  replace = "now"
}
resource "lab_object" "left" {
  name    = "left"
  replace = "two"
  lifecycle { create_before_destroy = true }
}
resource "terraform_data" "told" {
  provisioner "local-exec" {
    command = "true"
  }
}
"""
LOST = {
    "lab_object.deleted": ChangeKind.DELETE,
    "lab_object.counted[1]": ChangeKind.DELETE,
    "lab_object.replaced": ChangeKind.DELETE_THEN_CREATE,
    "lab_object.replaced_first": ChangeKind.CREATE_THEN_DELETE,
    "lab_object.new": ChangeKind.DELETE_THEN_CREATE,
    "lab_object.forgotten": ChangeKind.FORGET,
    "lab_object.left": ChangeKind.DELETE,
}
IN_PROD, IN_DEV = situation(), situation(production=False)


def lost(decision: Decision) -> list[str | None]:
    return sorted(with_code(decision, "HF-GUARD-1"), key=str)


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.name)
def test_one_stack_in_which_everything_happens(engine: Engine, lab: Path, tmp_path: Path) -> None:
    """Planned in part, changed in every way that loses an object, and destroyed: each is judged as it is."""
    with tempfile.TemporaryDirectory(prefix="hf", dir="/tmp") as scratch:
        bench = Workbench.at(
            tmp_path / "work",
            engine=engine,
            cli_configuration=lab,
            scratch=Path(scratch),
            tls=False,
            LAB_DIRECTORY=str(tmp_path / "objects"),
        )

        def planned(*arguments: str) -> Plan:
            bench.run("plan", "-input=false", "-out=saved", *arguments)
            return read_plan(bench.run("show", "-json", "saved").encode())

        bench.write(BEFORE)
        a_part_needs_an_approval_in_production(planned("-target=lab_object.kept"))
        bench.apply()
        bench.write(LEFT_BEHIND)
        bench.apply(exits=1)
        bench.write(AFTER)
        changes = planned()
        every_kind_of_loss_is_denied_in_production(changes)
        elsewhere_it_is_warned_of(changes)
        each_of_them_can_be_protected(changes)
        a_budget_counts_what_the_state_holds(changes)
        a_removed_output_is_seen(changes)
        a_destroy_is_seen_in_the_plan_itself(planned("-destroy"))


def a_part_needs_an_approval_in_production(plan: Plan) -> None:
    """Terraform itself says that such a plan is not complete."""
    decision = evaluate_plan(plan, IN_PRODUCTION, IN_PROD)
    assert isinstance(decision, NeedApproval)
    assert codes(decision) == ["HF-GUARD-11"]


def every_kind_of_loss_is_denied_in_production(plan: Plan) -> None:
    """Delete, a lower count, both orders of replacing, a move that ends so, forget, what was left over."""
    decision = evaluate_plan(plan, IN_PRODUCTION, IN_PROD)
    assert isinstance(decision, Deny)
    assert {change.address: change.kind for change in plan.changes if change.loses} == LOST
    assert lost(decision) == sorted(LOST)
    said = {one.address: one.message for one in decision.reasons if one.code == "HF-GUARD-1"}
    assert said["lab_object.replaced"] == "lab_object.replaced would be replaced because `replace` changes"
    assert said["lab_object.deleted"].endswith("deleted because it is no longer in the configuration")
    assert "moved from lab_object.old" in said["lab_object.new"]
    assert "left over from an earlier replacement" in said["lab_object.left"]


def elsewhere_it_is_warned_of(plan: Plan) -> None:
    """The same reasons, and it may be applied; the provisioner is one of them."""
    decision = evaluate_plan(plan, ELSEWHERE, IN_DEV)
    assert isinstance(decision, Allow)
    assert lost(decision) == sorted(LOST)
    assert with_code(decision, "HF-GUARD-9") == ["terraform_data.told"]
    assert {one.effect for one in decision.reasons} == {Effect.WARN}


def each_of_them_can_be_protected(plan: Plan) -> None:
    """By the address it has or had, in any environment; a change in place loses nothing."""
    for address in (*LOST, "lab_object.old"):
        policy = msgspec.structs.replace(ELSEWHERE, addresses=(address.partition("[")[0],))
        decision = evaluate_plan(plan, policy, IN_DEV)
        assert isinstance(decision, Deny)
        assert with_code(decision, "HF-GUARD-6") == [address.replace(".old", ".new")]
    changed = msgspec.structs.replace(ELSEWHERE, addresses=("lab_object.kept", "lab_object.counted[0]"))
    assert isinstance(evaluate_plan(plan, changed, IN_DEV), Allow)


def a_budget_counts_what_the_state_holds(plan: Plan) -> None:
    """Ten objects, one of them left over from a replacement."""
    assert plan.prior_resources == 10
    within = msgspec.structs.replace(ELSEWHERE, per_stack=Budget(percent=70))
    over = msgspec.structs.replace(ELSEWHERE, per_stack=Budget(percent=69))
    assert isinstance(evaluate_plan(plan, within, IN_DEV), Allow)
    assert isinstance(evaluate_plan(plan, over, IN_DEV), Deny)


def a_removed_output_is_seen(plan: Plan) -> None:
    """Of those that others read."""
    reading = structs.replace(IN_DEV, read_outputs=frozenset({"address"}))
    assert "HF-GUARD-2" in codes(evaluate_plan(plan, ELSEWHERE, reading))
    assert "HF-GUARD-2" not in codes(evaluate_plan(plan, ELSEWHERE, IN_DEV))


def a_destroy_is_seen_in_the_plan_itself(plan: Plan) -> None:
    """Also when nobody says that it was asked for; no budget covers it."""
    decision = evaluate_plan(plan, msgspec.structs.replace(IN_PRODUCTION, per_stack=ANY), IN_PROD)
    assert isinstance(decision, Deny)
    assert codes(decision)[0] == "HF-GUARD-10"
