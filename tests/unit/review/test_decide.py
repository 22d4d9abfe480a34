"""What the guard is told of a stack, what people's words make of its decision, and what a person reads."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from context_made import change_context
from guard_made import plan, resource
from memory_blobs import MemoryBlobs
from msgspec import structs
from results_made import stack

from holdfast.config.guard import Budget, Effect, GuardRules, GuardSettings
from holdfast.guard.decision import NOT_UNDERSTOOD, Allow, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import REJECTED, decision_from_reasons
from holdfast.guard.plan_context import StackFinding
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.saved_plan import StateIdentity
from holdfast.review import decide
from holdfast.review.plan_checks import PlanFindings
from holdfast.store.applied import AppliedAs
from holdfast.store.approval_rules import ApprovalRule
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.model import Plan

NET = structs.replace(stack("net"), production=True, environment="prod")
GONE = plan(
    output_changes={name: {"actions": ["delete"], "before": 1, "after": None} for name in ("id", "x")}
)
DIGEST = "d" * 64
STACKS = (NET, stack("app", "net"), stack("far"))


@pytest.fixture
def opened(tmp_path: Path) -> ChangeContext:
    return change_context(tmp_path, blobs=MemoryBlobs(), stacks=STACKS)


def ready(of: Plan, **more: Any) -> PlanFile:
    return cast(
        "PlanFile",
        SimpleNamespace(
            plan=of,
            prior=StateIdentity(lineage="", serial=0),
            **(
                {"digest": DIGEST, "destroy": False, "gone": False, "targeted": False, "changes": True}
                | {"options": PlanOptions(), "product_change": None, "repository_change": None}
                | more
            ),
        ),
    )


def told(opened: ChangeContext, of: Plan = GONE, **more: Any) -> Any:
    return decide.plan_context(opened.project, NET, ready(of, **more))


def code(opened: ChangeContext, name: str, text: str) -> None:
    file = opened.project.root / name / "main.tf"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'output "y" {{\n  value = {text}\n}}\n')


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("data.terraform_remote_state.net.outputs.id", {"id"}),
        ('data.terraform_remote_state.net.outputs["id"]', {"id"}),
        ("keys(data.terraform_remote_state.net.outputs)", {"id", "x"}),
        ("data.terraform_remote_state.net.outputs.other", {"other"}),
        ("1", set()),
    ],
)
def test_outputs_are_read_by_name_by_key_or_all_together(
    opened: ChangeContext, text: str, reads: set[str]
) -> None:
    """By stacks that depend on this one; others read outputs of somebody else."""
    code(opened, "app", text)
    code(opened, "far", "data.terraform_remote_state.else.outputs.x")
    assert told(opened).read_outputs == reads


def test_nobody_looks_who_reads_where_no_output_goes(opened: ChangeContext) -> None:
    """It costs a look at the code of every stack behind this one."""
    code(opened, "app", "data.terraform_remote_state.net.outputs.id")
    assert told(opened, plan(resource("x.y", "delete"))).read_outputs == frozenset()


def test_the_guard_is_told_what_was_asked_for(opened: ChangeContext) -> None:
    """A destroy and a part of a stack are kinds of their own."""
    assert (told(opened).destroy, told(opened).targeted) == (False, False)
    assert told(opened, destroy=True).destroy
    assert told(opened, targeted=True).targeted
    assert told(opened, product_change="last applied with Terraform").product_change is not None
    assert (told(opened).stack, told(opened).environment, told(opened).production) == ("net", "prod", True)


class Checks:
    """What the checks found, without any."""

    def __init__(self, *found: StackFinding) -> None:
        self.found = found

    async def check_plan(self, *_: object) -> PlanFindings:
        return PlanFindings(self.found)


def decided(opened: ChangeContext, of: Plan, *found: StackFinding, saved: bool = False) -> Any:
    checks = cast("Any", Checks(*found))
    approvals = decide.approvals_for(opened.store, DIGEST, "net") if saved else ()
    return asyncio.run(
        decide.decide(opened.project, opened.store, checks, NET, ready(of), approvals=approvals)
    )


def say(opened: ChangeContext, word: ApprovalKind, *, hours: int | None = None, digest: str = DIGEST) -> None:
    now = clock.now()
    until = (now + timedelta(hours=hours)).isoformat() if hours is not None else None
    who = {"kind": "person", "name": "ada", "verified": False}
    opened.store.approvals.add(
        Approval(
            kind=word,
            digest=digest,
            stack="net",
            run="r",
            who=who,
            reason="why",
            at=now.isoformat(),
            until=until,
        )
    )


CREATED, LOST = plan(resource("x.y", "create")), plan(resource("x.z", "no-op"), resource("x.y", "delete"))


def test_what_the_checks_found_decides(opened: ChangeContext) -> None:
    """A policy that denies is a decision of the guard."""
    assert decided(opened, CREATED) == Allow()
    denied = StackFinding(rule="rego.main.deny", message="no", policy=True)
    assert isinstance(decided(opened, CREATED, denied), Deny)


def test_an_override_counts_for_its_digest_until_its_end(opened: ChangeContext) -> None:
    """Neither one of another plan nor one that has expired lets anything through."""
    say(opened, ApprovalKind.OVERRIDE, hours=1, digest="another")
    say(opened, ApprovalKind.OVERRIDE, hours=-1)
    assert isinstance(decided(opened, LOST, saved=True), Deny)
    say(opened, ApprovalKind.OVERRIDE, hours=1)
    assert isinstance(decided(opened, LOST, saved=True), Allow)


def test_what_the_server_requires_is_added(opened: ChangeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the repository says, for a plan with changes, also of a stack that was elsewhere before."""
    rules = (ApprovalRule(environments=("live",), group="dba"), ApprovalRule(stacks=("other",), count=3))
    monkeypatch.setattr(type(opened.store), "approval_rules", rules)
    elsewhere = structs.replace(NET, environment="dev", production=False)

    def needed() -> Any:
        checks = cast("Any", Checks())
        return asyncio.run(decide.decide(opened.project, opened.store, checks, elsewhere, ready(CREATED)))

    assert needed() == Allow()
    before = AppliedAs(environment="live", production=False, owner=None)
    opened.store.applied.record("net", None, "", before)
    decision = needed()
    assert isinstance(decision, NeedApproval)
    assert (decision.approvals, decision.verified) == (1, True)
    assert decision.approvers == (rules[0].required,)
    assert decision.reasons[0].message == "the server requires an approval of the group dba for net"
    error = decide.refusal_error("net", decision, (), run="r", digest=DIGEST, saved=None, asked="net")
    assert error.message.endswith("; 1 approval of the group dba is missing")


def test_a_rejected_plan_stays_so_when_nothing_else_speaks_against_it(opened: ChangeContext) -> None:
    """What the guard had against it may be gone by the time it is applied."""
    say(opened, ApprovalKind.REJECTION)
    decision = decided(opened, CREATED, saved=True)
    assert isinstance(decision, Deny)
    assert decision.reasons[0].code == REJECTED


# All stacks together


def with_budget(opened: ChangeContext, **rules: Any) -> Project:
    config = msgspec.structs.replace(opened.project.config, guard=GuardSettings(rules=GuardRules(**rules)))
    return structs.replace(opened.project, config=config)


@pytest.mark.parametrize("number", [0, 1, 50])
def test_a_budget_of_a_change_makes_stacks_wait_for_each_other(opened: ChangeContext, number: int) -> None:
    """Whatever it allows, what one of them may do depends on the others."""
    assert not decide.has_change_budget(opened.project, (NET,))
    project = with_budget(opened, per_change=Budget(number=number))
    assert decide.has_change_budget(project, (NET,))


def test_an_override_lifts_the_budget_of_a_change_for_its_own_plan(opened: ChangeContext) -> None:
    """The plan beside it stays refused; one that loses nothing is not held up."""
    project = with_budget(opened, per_change=Budget(number=1))
    names = ("a", "b", "c")
    plans = {"a": LOST, "b": LOST, "c": CREATED}
    stacks = {name: structs.replace(stack(name), production=False, environment="dev") for name in names}
    losses = {name: decide.deletions_in(project, stacks[name], ready(plans[name])) for name in names}
    assert {name: one.deleted for name, (one,) in losses.items()} == {"a": 1, "b": 1, "c": 0}
    say(opened, ApprovalKind.OVERRIDE, hours=1, digest="digest of a")
    decisions: Any = {
        name: (Allow(), decide.approvals_for(opened.store, f"digest of {name}", "net")) for name in names
    }
    found = decide.with_change_budget(decisions, losses)
    assert {name: type(one) for name, one in found.items()} == {"a": Allow, "b": Deny, "c": Allow}
    assert found["b"].reasons[0].code == "HF-GUARD-5"


# What a person is told


def shown(code: str, effect: Effect = Effect.DENY, *, saved: str | None = "out") -> Any:
    decision = decision_from_reasons([Reason(code=code, message="it would go", effect=effect)], approvals=2)
    given = {"run": "01R", "digest": DIGEST, "saved": saved, "asked": "net --destroy"}
    return decide.refusal_error("net", decision, (), **given)  # type: ignore[arg-type]


def test_the_way_on_is_one_that_leads_somewhere() -> None:
    """An override is offered for what can be overridden, an approval for what waits for one."""
    assert shown("HF-GUARD-1").hint.endswith(f'--plan out --override {DIGEST} --reason "why"')
    assert "holdfast plan net --destroy --out" in shown("HF-GUARD-1", saved=None).hint
    for code in (NOT_UNDERSTOOD, REJECTED):
        assert "--override" not in shown(code).hint
        assert "--override" not in shown(code, saved=None).hint
    waiting = shown("HF-GUARD-14", Effect.APPROVE)
    assert (waiting.code, waiting.message) == ("HF-APPR-1", "net: it would go; 2 approvals are missing")
    assert "holdfast runs approve 01R" in waiting.hint
    assert "holdfast plan net --destroy --out" in shown("HF-GUARD-14", Effect.APPROVE, saved=None).hint
    server = decide.PLANNED_ON_SERVER
    assert "holdfast destroy net --server --yes-destroy net, which" in shown("HF-GUARD-1", saved=server).hint
    assert shown("HF-GUARD-14", Effect.APPROVE, saved=server).hint.endswith("holdfast destroy net --server")


def test_it_says_how_many_approvals_are_missing(opened: ChangeContext) -> None:
    """Those that were given count, each person once."""
    decision = decision_from_reasons(
        [Reason(code="HF-GUARD-14", message="m", effect=Effect.APPROVE)], approvals=2
    )
    assert isinstance(decision, NeedApproval)
    for _ in range(2):
        say(opened, ApprovalKind.APPROVAL)
    words = decide.approvals_for(opened.store, DIGEST, "net")
    error = decide.refusal_error("net", decision, words, run="r", digest=DIGEST, saved=None, asked="net")
    assert error.message == "net: m; 1 approval is missing"
