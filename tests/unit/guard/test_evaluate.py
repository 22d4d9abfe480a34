"""Every rule of the guard: what it stops, where, and what it says."""

from __future__ import annotations

from typing import Any

import pytest
from guard_made import ALL_LOSING, codes, plan, provisioned, resource, situation, with_code
from msgspec import structs

from holdfast.config.guard import ANY, Budget, Effect, Freeze
from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval
from holdfast.guard.evaluate import evaluate_plan
from holdfast.guard.policy import ELSEWHERE, IN_PRODUCTION, Policy
from holdfast.terraform.plan.model import Plan

PROD, DEV = situation(), situation(production=False)
KEPT = resource("x.kept", "no-op")


def production(found: Plan, **changed: Any) -> Decision:
    return evaluate_plan(found, structs.replace(IN_PRODUCTION, **changed), PROD)


def elsewhere(found: Plan, **changed: Any) -> Decision:
    return evaluate_plan(found, structs.replace(ELSEWHERE, **changed), DEV)


def effects(decision: Decision) -> set[tuple[str, Effect]]:
    return {(one.code, one.effect) for one in decision.reasons}


@pytest.mark.parametrize("actions", [("no-op",), ("create",), ("read",), ("update",)])
def test_what_loses_nothing_is_allowed_without_a_word(actions: tuple[str, ...]) -> None:
    """Creating, changing in place and reading are nobody's loss, in production too."""
    assert production(plan(resource("x.y", *actions))) == Allow()


@pytest.mark.parametrize("actions", ALL_LOSING, ids=str)
def test_every_way_to_lose_an_object_is_denied_in_production_and_warned_of_elsewhere(
    actions: tuple[str, ...],
) -> None:
    """Delete, replace in both orders, forget, and both pairs with it."""
    found = plan(KEPT, resource("x.y", *actions))
    refused = production(found)
    assert isinstance(refused, Deny)
    assert with_code(refused, "HF-GUARD-1") == ["x.y"]
    assert refused.reasons[0].rule == "deletions in production"
    allowed = elsewhere(found)
    assert isinstance(allowed, Allow)
    assert effects(allowed) == {("HF-GUARD-1", Effect.WARN)}


@pytest.mark.parametrize(
    "change",
    [
        resource("x.y", "delete", deposed="abcd1234"),
        resource("x.new", "delete", previous_address="x.y", action_reason="delete_because_no_move_target"),
        resource("x.new", "delete", "create", previous_address="x.y"),
    ],
    ids=["deposed", "moved to nowhere", "moved and replaced"],
)
def test_leftovers_and_moves_that_end_in_a_delete_are_deletions(change: dict[str, Any]) -> None:
    """By whatever name an object goes."""
    assert isinstance(production(plan(KEPT, change)), Deny)


def test_the_reason_says_what_why_and_which_rule() -> None:
    """The explanation is the product: a person need not look anything up."""
    change = resource(
        "aws_db_instance.main",
        "delete",
        "create",
        action_reason="replace_because_cannot_update",
        replace_paths=[["engine"]],
    )
    protected, deleted = production(plan(KEPT, change)).reasons
    assert (protected.code, protected.rule) == ("HF-GUARD-3", "protected type aws_db_instance")
    assert protected.message == (
        "aws_db_instance.main would be replaced because `engine` changes, and aws_db_instance holds data; "
        "its own protection: `deletion_protection = true`, `skip_final_snapshot = false`, "
        "`delete_automated_backups = false`"
    )
    assert deleted.message == "aws_db_instance.main would be replaced because `engine` changes"


def test_the_greatest_danger_is_said_first() -> None:
    """People read the first line: what is gone for good comes before what is made anew."""
    found = plan(
        resource("x.a", "forget"),
        resource("x.b", "create", "delete"),
        resource("x.c", "delete"),
        resource("aws_s3_bucket.d", "delete"),
        KEPT,
    )
    decision = production(found, approvals=1)
    assert [(one.code, one.address) for one in decision.reasons] == [
        ("HF-GUARD-3", "aws_s3_bucket.d"),
        ("HF-GUARD-1", "x.c"),
        ("HF-GUARD-1", "aws_s3_bucket.d"),
        ("HF-GUARD-1", "x.b"),
        ("HF-GUARD-1", "x.a"),
        ("HF-GUARD-14", None),
    ]


@pytest.mark.parametrize(
    ("budget", "lost", "stopped"),
    [
        (Budget(number=2), 2, False),
        (Budget(number=2), 3, True),
        (Budget(percent=20), 2, False),
        (Budget(percent=20), 3, True),
        (Budget(percent=29), 3, True),
        (Budget(percent=100), 9, False),
        (ANY, 9, False),
    ],
    ids=str,
)
def test_a_budget_is_a_number_or_a_share_of_what_there_was(budget: Budget, lost: int, stopped: bool) -> None:  # noqa: FBT001  a column of the table
    """Shares are rounded down, and creations do not make them larger."""
    changes = [resource(f"x.y[{number}]", "delete") for number in range(lost)]
    found = plan(*changes, resource("x.new", "create"), prior=10)
    decision = production(found, per_stack=budget)
    assert isinstance(decision, Deny if stopped else Allow)
    assert ("HF-GUARD-4" in codes(decision)) == stopped
    assert len(with_code(decision, "HF-GUARD-1")) == lost


def test_imports_do_not_make_a_budget_larger() -> None:
    """An object that is only now taken over was not there before."""
    imported = [resource(f"x.i[{number}]", "no-op", importing={"id": "1"}) for number in range(90)]
    found = plan(*imported, *(resource(f"x.y[{number}]", "delete") for number in range(5)), prior=100)
    assert isinstance(production(found, per_stack=Budget(percent=10)), Deny)
    assert isinstance(evaluate_plan(found, ELSEWHERE, structs.replace(DEV, prior_resources=5)), Allow)


def test_without_a_known_number_a_share_is_nothing() -> None:
    """A tenth of what nobody counted is zero."""
    found = plan(resource("x.y", "delete"), prior=0)
    assert isinstance(elsewhere(found, per_stack=Budget(percent=100)), Deny)


def test_no_budget_covers_a_protected_type() -> None:
    """Whatever the budget: data is not a number."""
    found = plan(KEPT, resource("aws_dynamodb_table.t", "delete"))
    assert isinstance(production(found, per_stack=ANY), Deny)
    assert isinstance(production(found, per_stack=ANY, except_types=("aws_dynamodb_table",)), Allow)
    own = plan(KEPT, resource("lab_object.t", "delete"))
    assert isinstance(production(own, per_stack=ANY), Allow)
    assert isinstance(production(own, per_stack=ANY, types=("lab_*",)), Deny)
    assert isinstance(
        production(own, per_stack=ANY, types=("lab_object",), except_types=("lab_object",)), Deny
    )
    assert effects(elsewhere(found)) == {("HF-GUARD-3", Effect.WARN), ("HF-GUARD-1", Effect.WARN)}


@pytest.mark.parametrize("actions", ALL_LOSING, ids=str)
def test_a_protected_address_is_denied_everywhere(actions: tuple[str, ...]) -> None:
    """Outside production too, by the address it has and by the one it had."""
    for change in (
        resource("module.db.x.y", *actions),
        resource("x.elsewhere", *actions, previous_address="module.db.x.y"),
    ):
        decision = elsewhere(plan(KEPT, change), addresses=("module.db",))
        assert isinstance(decision, Deny)
        assert codes(decision)[0] == "HF-GUARD-6"
        assert "`module.db` is protected" in decision.reasons[0].message


def test_a_move_out_of_protection_is_warned_of() -> None:
    """The address is what is protected; the next plan could delete what has left it."""
    moved = resource("x.new", "no-op", previous_address="x.old")
    assert codes(production(plan(moved), addresses=("x.old",))) == ["HF-GUARD-16"]
    assert production(plan(moved), addresses=("x.old", "x.new")) == Allow()


def test_what_is_moved_and_lost_is_denied_and_not_warned_of() -> None:
    """After the plan there is nothing left that could be unprotected."""
    lost = plan(KEPT, resource("x.new", "delete", "create", previous_address="x.old"))
    assert codes(elsewhere(lost, addresses=("x.old",))) == ["HF-GUARD-6", "HF-GUARD-1"]


def test_a_protected_tag_is_denied_everywhere() -> None:
    """Read from the object as it is, and only where something is lost."""
    tagged = {"tags": {"Keep": "Yes"}}
    for values in (("YES",), ("yes",), ("no", "y*S"), ()):
        decision = elsewhere(plan(KEPT, resource("x.y", "delete", before=tagged)), tags=(("keep", values),))
        assert isinstance(decision, Deny)
        assert decision.reasons[0].message == "x.y would be deleted, and its tag `keep` protects it"
    other = elsewhere(plan(KEPT, resource("x.y", "delete", before=tagged)), tags=(("keep", ("no",)),))
    assert isinstance(other, Allow)
    for quiet in (resource("x.y", "update", before=tagged), resource("x.y", "delete", before={"tags": None})):
        assert isinstance(elsewhere(plan(KEPT, quiet), tags=(("keep", ("yes",)),)), Allow)


@pytest.mark.parametrize(
    "before", [None, {"tags": 3}, {"labels": [["a"]]}, {"tags": {"keep": None}}], ids=str
)
def test_a_tag_that_cannot_be_read_protects(before: Any) -> None:
    """It could be the one that was meant."""
    found = plan(KEPT, resource("x.y", "delete", before=before))
    decision = elsewhere(found, tags=(("keep", ("yes",)),))
    assert isinstance(decision, Deny)
    assert "unknown" in decision.reasons[0].message
    assert isinstance(elsewhere(found), Allow)


def test_a_destroy_of_everything_is_a_kind_of_its_own() -> None:
    """Asked for, or because nothing would be left; whatever the budget."""
    gone = plan(resource("x.a", "delete"), resource("x.b", "forget"), resource("x.new", "create"), prior=2)
    for decision in (
        production(gone, per_stack=ANY),
        evaluate_plan(
            plan(resource("x.a", "delete"), prior=9),
            structs.replace(IN_PRODUCTION, per_stack=ANY),
            structs.replace(PROD, destroy=True),
        ),
    ):
        assert isinstance(decision, Deny)
        assert codes(decision)[0] == "HF-GUARD-10"
    assert ("HF-GUARD-10", Effect.WARN) in effects(elsewhere(gone))
    assert isinstance(elsewhere(gone, destroy=Effect.APPROVE), NeedApproval)
    assert evaluate_plan(plan(prior=0), IN_PRODUCTION, structs.replace(PROD, destroy=True)) == Allow()


def test_a_stack_whose_objects_are_all_replaced_is_not_destroyed() -> None:
    """What is made anew is left in the end."""
    replaced = plan(resource("x.a", "delete", "create"), resource("x.b", "create", "delete"), prior=2)
    assert codes(production(replaced, per_stack=ANY)) == ["HF-GUARD-1", "HF-GUARD-1"]


def test_an_output_that_others_read_is_not_removed_in_production() -> None:
    """The stacks that read it would fail at their next plan."""
    outputs = {"vpc": {"actions": ["delete"], "before": "v", "after": None}}
    found = plan(output_changes=outputs)
    reading = frozenset({"vpc"})
    refused = evaluate_plan(found, IN_PRODUCTION, structs.replace(PROD, read_outputs=reading))
    assert isinstance(refused, Deny)
    assert codes(refused) == ["HF-GUARD-2"]
    warned = evaluate_plan(found, ELSEWHERE, structs.replace(DEV, read_outputs=reading))
    assert effects(warned) == {("HF-GUARD-2", Effect.WARN)}
    assert production(found) == Allow()
    changed = plan(output_changes={"vpc": {"actions": ["update"], "before": "v", "after": "w"}})
    assert evaluate_plan(changed, IN_PRODUCTION, structs.replace(PROD, read_outputs=reading)) == Allow()


def test_actions_need_an_approval_in_production() -> None:
    """They do things that no change of a resource shows; those put off do nothing yet."""
    action = {
        "address": "action.aws_lambda_invoke.seed",
        "lifecycle_action_trigger": {
            "triggering_resource_address": "x.y",
            "action_trigger_event": "after_create",
        },
    }
    found = plan(action_invocations=[action])
    decision = production(found)
    assert isinstance(decision, NeedApproval)
    assert decision.reasons[0].message.startswith(
        "action.aws_lambda_invoke.seed would be invoked by x.y (after_create)"
    )
    assert isinstance(elsewhere(found), Allow)
    assert production(found, actions=Effect.ALLOW) == Allow()
    later = plan(deferred_action_invocations=[{"reason": "later", "action_invocation": action}])
    assert production(later) == Allow()


def test_provisioners_that_can_run_need_an_approval_in_production() -> None:
    """One reason for a resource, however often it is repeated; a change in place runs none."""
    configuration = provisioned("x.y", "x.other")
    made = plan(
        resource("x.y[0]", "create"), resource('x.y["a"]', "create"), configuration=configuration, prior=0
    )
    decision = production(made)
    assert isinstance(decision, NeedApproval)
    assert with_code(decision, "HF-GUARD-9") == ["x.y"]
    assert "(local-exec) may run, because 2 resources would be created" in decision.reasons[0].message
    assert production(plan(resource("x.y", "update"), configuration=configuration)) == Allow()
    assert codes(elsewhere(plan(KEPT, resource("x.y", "delete"), configuration=configuration)))[1:] == [
        "HF-GUARD-9"
    ]


def test_provisioners_in_modules_are_found() -> None:
    """By the address without keys."""
    module = {"resources": [{"address": "x.y", "provisioners": [{"type": "remote-exec"}]}]}
    configuration = {"root_module": {"module_calls": {"m": {"module": module}}}}
    found = plan(resource('module.m["a.b"].x.y[1]', "create"), configuration=configuration, prior=0)
    assert with_code(production(found), "HF-GUARD-9") == ["module.m.x.y"]


def test_a_plan_of_a_part_needs_an_approval_in_production() -> None:
    """With --target, or because Terraform says that more is to come."""
    made = plan(resource("x.y", "create"), prior=0)
    targeted = evaluate_plan(made, IN_PRODUCTION, structs.replace(PROD, targeted=True))
    assert isinstance(targeted, NeedApproval)
    assert codes(targeted) == ["HF-GUARD-11"]
    for excludes, option in ((False, "--target"), (True, "--exclude")):
        context = structs.replace(PROD, targeted=True, excludes=excludes)
        (reason,) = evaluate_plan(made, IN_PRODUCTION, context).reasons
        assert f"made with {option} and" in reason.message
    assert isinstance(production(plan(resource("x.y", "create"), complete=False)), NeedApproval)
    assert isinstance(elsewhere(plan(resource("x.y", "create"), complete=False)), Allow)
    assert evaluate_plan(plan(KEPT), IN_PRODUCTION, structs.replace(PROD, targeted=True)) == Allow()


def test_another_product_needs_an_approval_in_production() -> None:
    """Only where something is written: a plan without changes leaves the state as it is."""
    changed = {"product_change": "last applied with Terraform; this plan was made with OpenTofu 1.12.6"}
    in_production, in_dev = structs.replace(PROD, **changed), structs.replace(DEV, **changed)
    made = plan(resource("x.y", "create"), prior=0)
    decision = evaluate_plan(made, IN_PRODUCTION, in_production)
    assert isinstance(decision, NeedApproval)
    assert effects(decision) == {("HF-GUARD-22", Effect.APPROVE)}
    assert effects(evaluate_plan(made, ELSEWHERE, in_dev)) == {("HF-GUARD-22", Effect.WARN)}
    assert evaluate_plan(plan(KEPT), IN_PRODUCTION, in_production) == Allow()


def test_a_state_of_another_repository_is_not_changed() -> None:
    elsewhere = structs.replace(
        DEV, repository_change="its state was last applied from github.com/ours/other"
    )
    decision = evaluate_plan(plan(resource("x.y", "create"), prior=0), ELSEWHERE, elsewhere)
    assert isinstance(decision, Deny)
    assert effects(decision) == {("HF-GUARD-23", Effect.DENY)}
    assert evaluate_plan(plan(KEPT), ELSEWHERE, elsewhere) == Allow()


WEDNESDAYS = Freeze(
    start=2 * 1440, end=3 * 1440, every=7 * 1440, zone="UTC", text="wed to wed", why="market day"
)


def test_a_freeze_stops_whatever_changes_something() -> None:
    """And says until when, by its own clock, and why."""
    made = plan(resource("x.y", "update"))
    decision = elsewhere(made, freeze=(WEDNESDAYS,))
    assert isinstance(decision, NeedApproval)
    assert (
        decision.reasons[0].message
        == "a freeze is active until 2026-09-03 00:00 UTC (wed to wed, market day)"
    )
    assert isinstance(elsewhere(made, freeze=(structs.replace(WEDNESDAYS, effect=Effect.DENY),)), Deny)
    assert elsewhere(plan(KEPT), freeze=(WEDNESDAYS,)) == Allow()
    thursdays = structs.replace(WEDNESDAYS, start=3 * 1440, end=4 * 1440)
    assert elsewhere(made, freeze=(thursdays,)) == Allow()


def test_a_freeze_by_an_unknown_clock_denies() -> None:
    """Unknown is never allowed."""
    unknown = structs.replace(WEDNESDAYS, zone="Europe/Nowhere")
    decision = elsewhere(plan(resource("x.y", "update")), freeze=(unknown,))
    assert isinstance(decision, Deny)
    assert "the time zone Europe/Nowhere is not installed" in decision.reasons[0].message


def test_a_large_plan_needs_an_approval() -> None:
    """Reads and what stays as it is are not counted."""
    changes = [resource(f"x.y[{number}]", "update") for number in range(3)]
    found = plan(*changes, KEPT, resource("data.x.z", "read", mode="data"))
    assert production(found, max_changes=3) == Allow()
    decision = production(found, max_changes=2)
    assert isinstance(decision, NeedApproval)
    assert codes(decision) == ["HF-GUARD-13"]


def test_approvals_are_asked_for_what_changes_something() -> None:
    """As many as the policy says; one where something else asks for it."""
    made = plan(resource("x.y", "create"), prior=0)
    decision = production(made, approvals=2)
    assert isinstance(decision, NeedApproval)
    assert (decision.approvals, codes(decision)) == (2, ["HF-GUARD-14"])
    assert decision.reasons[0].message == "changes to prod need 2 approvals"
    verified = production(made, approvals=1, verified=True)
    assert verified.reasons[0].message == "changes to prod need a verified approval"
    assert verified.verified
    assert production(plan(KEPT), approvals=2) == Allow()
    one = production(made, max_changes=0)
    assert isinstance(one, NeedApproval)
    assert one.approvals == 1
    denied = production(plan(KEPT, resource("x.y", "delete")), approvals=2)
    assert isinstance(denied, Deny)
    assert denied.approvals == 2


@pytest.mark.parametrize(
    "found",
    [
        plan(resource("x.y", "transmute")),
        plan(resource("x.y", "update", action_reason="the_moon")),
        plan(resource("x.y", "update", mode="dreamt")),
        plan(output_changes={"o": {"actions": ["transmute"]}}),
        plan(resource_drift=[resource("x.y", "transmute")]),
        plan(errored=True),
    ],
)
def test_what_is_not_understood_is_denied_by_the_mildest_policy(found: Plan) -> None:
    """No setting allows what nobody can read."""
    mildest = Policy(
        per_stack=ANY,
        stateful=Effect.ALLOW,
        removed_outputs=Effect.ALLOW,
        actions=Effect.ALLOW,
        provisioners=Effect.ALLOW,
        destroy=Effect.ALLOW,
        target=Effect.ALLOW,
    )
    decision = evaluate_plan(found, mildest, DEV)
    assert isinstance(decision, Deny)
    assert codes(decision) == ["HF-GUARD-0"]


def test_missing_resources_count_as_forgotten() -> None:
    """An apply removes them from the state: denied in production, a warning elsewhere."""
    drift = [resource(f"x.y[{number}]", "delete") for number in range(5)]
    changed = plan(resource("x.z", "update"), resource_drift=drift)
    refused = production(changed)
    assert isinstance(refused, Deny)
    assert with_code(refused, "HF-GUARD-15") == [f"x.y[{number}]" for number in range(5)]
    assert isinstance(elsewhere(changed), Allow)
    assert isinstance(elsewhere(changed, addresses=("x.y[3]",)), Deny)
    assert isinstance(production(changed, per_stack=ANY), Deny)
    assert production(plan(KEPT, resource_drift=drift)) == Allow()


def test_what_exists_only_in_the_state_may_be_missing() -> None:
    """A file on the runner of the last apply is gone with it."""
    changed = plan(resource("local_file.f", "create"), resource_drift=[resource("local_file.f", "delete")])
    assert effects(production(changed)) == {("HF-GUARD-15", Effect.WARN)}


def test_a_stack_that_misses_everything_is_refused_everywhere() -> None:
    """Wrong credentials find nothing, which a provider reports as deleted."""
    created = [resource(f"x.y[{number}]", "create") for number in range(2)]
    drift = [resource(f"x.y[{number}]", "delete") for number in range(2)]
    gone = plan(*created, resource_drift=drift, prior=0)
    decision = elsewhere(gone)
    assert isinstance(decision, Deny)
    assert decision.reasons[0].code == "HF-GUARD-21"
    assert "right account, region and endpoint?" in decision.reasons[0].message
    assert isinstance(elsewhere(plan(*created, resource_drift=drift, prior=1)), Allow)
    assert isinstance(elsewhere(plan(created[0], resource_drift=drift[:1], prior=0)), Allow)
    beside = {"values": {"root_module": {"resources": [{"mode": "managed", "type": "random_id"}]}}}
    assert isinstance(elsewhere(plan(*created, resource_drift=drift, prior_state=beside)), Deny)
    imported = resource("x.i", "no-op", importing={"id": "1"})
    assert isinstance(elsewhere(plan(*created, imported, resource_drift=drift, prior=1)), Deny)


def test_a_device_that_vanished_is_created_again_if_its_blueprint_says_so() -> None:
    """Except what is protected by name."""
    created = [resource(f"x.y[{number}]", "create") for number in range(2)]
    drift = [resource(f"x.y[{number}]", "delete") for number in range(2)]
    gone = plan(*created, resource_drift=drift, prior=0)
    decision = evaluate_plan(gone, IN_PRODUCTION, situation(recreates=True))
    assert isinstance(decision, Allow)
    assert effects(decision) == {("HF-GUARD-15", Effect.WARN), ("HF-GUARD-21", Effect.WARN)}
    protected = structs.replace(IN_PRODUCTION, addresses=("x.y[0]",))
    assert isinstance(evaluate_plan(gone, protected, situation(recreates=True)), Deny)


def test_a_destroy_is_not_stopped_because_its_resources_are_gone() -> None:
    """Only what stops any destroy stops this one."""
    drift = [resource(f"x.y[{number}]", "delete") for number in range(2)]
    gone = plan(resource_drift=drift, prior=0, applyable=True)
    decision = evaluate_plan(
        gone, structs.replace(IN_PRODUCTION, destroy=Effect.ALLOW), situation(destroy=True)
    )
    assert isinstance(decision, Allow)
    assert {reason.code for reason in decision.reasons} == {"HF-GUARD-15"}


def test_a_refresh_only_plan_is_judged_by_what_it_removes_from_the_state() -> None:
    """It has no changes of resources; what it writes is in its drift."""
    drift = [resource("x.y", "delete"), resource("x.z", "update")]
    assert isinstance(production(plan(resource_drift=drift, prior=1, applyable=True)), Deny)
    updated = plan(resource_drift=[resource("x.z", "update")], prior=1, applyable=True)
    assert isinstance(production(updated), Allow)
    assert [effect.state_only for effect in updated.effects] == [True]
