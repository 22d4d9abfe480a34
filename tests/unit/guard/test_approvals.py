"""What a person's word changes about a decision, word by word."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.config.guard import Effect, RequiredApprovals
from holdfast.guard.decision import (
    NOT_UNDERSTOOD,
    Allow,
    Decision,
    Deny,
    NeedApproval,
    Reason,
)
from holdfast.guard.evaluate import (
    REJECTED,
    decision_from_reasons,
    missing_approvals,
    missing_by_rule,
    unite,
    with_approvals,
    with_reasons,
)
from holdfast.store.approvals import Approval, ApprovalKind

NOW = "2026-01-02"


def word(kind: str, by: str = "ada", *, valid: bool = True, verified: bool = False) -> Approval:
    return Approval(
        kind=ApprovalKind(kind),
        digest="d",
        stack="a",
        run="r",
        who={"kind": "person", "name": by, "machine": "m", "uid": by, "verified": verified},
        reason="why",
        at="2026-01-01",
        until=None if valid else NOW,
    )


def reason(code: str, effect: Effect) -> Reason:
    return Reason(code=code, message=code, effect=effect)


DENIED = decision_from_reasons([reason("HF-GUARD-1", Effect.DENY)])
WAITING = decision_from_reasons([reason("HF-GUARD-14", Effect.APPROVE)], approvals=2)
BOTH = decision_from_reasons(
    [reason("HF-GUARD-1", Effect.DENY), reason("HF-GUARD-14", Effect.APPROVE)], approvals=2
)
ALLOWED = decision_from_reasons([reason("HF-GUARD-1", Effect.WARN)])


def test_an_override_lifts_a_denial_while_it_lasts() -> None:
    """One that has expired lifts nothing."""
    assert isinstance(with_approvals(DENIED, [word("override")], now=NOW), Allow)
    assert with_approvals(DENIED, [word("override", valid=False)], now=NOW) == DENIED


def test_an_approval_lifts_no_denial() -> None:
    """However many there are."""
    assert with_approvals(DENIED, [word("approve", by) for by in "abc"], now=NOW) == DENIED


def test_an_override_leaves_the_approvals_to_be_given() -> None:
    """As many as before, and with them the plan is allowed."""
    overridden = with_approvals(BOTH, [word("override")], now=NOW)
    assert isinstance(overridden, NeedApproval)
    assert overridden.approvals == 2
    said = [word("override"), word("approve", "bob"), word("approve", "eve")]
    assert isinstance(with_approvals(BOTH, said, now=NOW), Allow)


def test_what_is_not_understood_is_never_overridden() -> None:
    """Nobody can answer for what nobody can read."""
    decision = decision_from_reasons([reason(NOT_UNDERSTOOD, Effect.DENY)])
    assert with_approvals(decision, [word("override")], now=NOW) == decision


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ([], 2),
        ([word("approve")], 1),
        ([word("approve"), word("approve")], 1),
        ([word("approve"), word("approve", "bob", valid=False)], 1),
        ([word("approve"), word("override", "bob")], 1),
    ],
)
def test_each_person_counts_once_while_the_word_lasts(said: list[Approval], missing: int) -> None:
    """Fewer valid words of different people than needed leave the plan waiting, and say how many miss."""
    left = with_approvals(WAITING, said, now=NOW)
    assert isinstance(left, NeedApproval)
    assert missing_approvals(left, said, now=NOW) == missing


def test_enough_people_let_it_pass() -> None:
    """What had to be approved stays as a warning, which names them."""
    left = with_approvals(WAITING, [word("approve"), word("approve", "bob")], now=NOW)
    message = "HF-GUARD-14; approved by ada, unverified and bob, unverified"
    assert left == Allow(reasons=(structs.replace(reason("HF-GUARD-14", Effect.WARN), message=message),))
    assert missing_approvals(left, [], now=NOW) == 0


def test_without_proof_the_user_of_a_machine_counts_once() -> None:
    """Whatever kind and name the environment claims, and in CI too; another user or machine is another."""
    claimed = {"machine": "m", "uid": 1000, "verified": False}
    approvals = [
        structs.replace(word("approve"), who={**claimed, "kind": kind, "name": name})
        for kind, name in (("person", "ada"), ("github-actions", "bob"), ("ci", "eve"))
    ]
    assert missing_approvals(WAITING, approvals, now=NOW) == 1
    for other in ({"uid": 1001}, {"machine": "n"}, {"verified": True}):
        more = structs.replace(approvals[0], who={**approvals[0].who, **other})
        assert missing_approvals(WAITING, [*approvals, more], now=NOW) == 0


def test_where_verified_approvals_are_needed_only_those_count() -> None:
    """Also after an override, and for reasons that are added later."""
    unverified = [word("approve"), word("approve", "bob"), word("approve", "eve")]
    verified = [word("approve", verified=True), word("approve", "bob", verified=True)]
    waiting = decision_from_reasons(WAITING.reasons, approvals=2, verified=True)
    both = decision_from_reasons(BOTH.reasons, approvals=2, verified=True)
    later = with_reasons(decision_from_reasons((), verified=True), [reason("HF-GUARD-12", Effect.APPROVE)])
    for decision in (waiting, both, later):
        said = [word("override"), *unverified]
        assert isinstance(with_approvals(decision, said, now=NOW), NeedApproval)
        assert isinstance(with_approvals(decision, [*said, *verified], now=NOW), Allow)
    assert missing_approvals(waiting, [*unverified, verified[0]], now=NOW) == 1


@pytest.mark.parametrize("decision", [DENIED, WAITING, BOTH, ALLOWED])
def test_a_rejection_ends_it_whatever_else_is_said(decision: Decision) -> None:
    """It stands first among the reasons, with who said it and why; an end it does not have."""
    others = [word("override"), word("approve"), word("approve", "bob"), word("approve", "eve")]
    for said in ([word("reject"), *others], [*others, word("reject", valid=False)]):
        left = with_approvals(decision, said, now=NOW)
        assert isinstance(left, Deny)
        assert left.reasons[0].code == REJECTED
        assert left.reasons[0].message == "rejected by ada, unverified: why"
        assert left.reasons[1:] == decision.reasons
        more = with_reasons(left, [reason("HF-GUARD-5", Effect.DENY)])
        assert more.reasons[0].code == REJECTED


DBA = RequiredApprovals(count=1, group="dba")


def of(by: str, role: str = "approver", *groups: str) -> Approval:
    return structs.replace(word("approve", by, verified=True), role=role, groups=groups)


def needs(*rules: RequiredApprovals, approvals: int = 1) -> Decision:
    return decision_from_reasons(WAITING.reasons, approvals=approvals, verified=True, approvers=rules)


@pytest.mark.parametrize(
    ("rule", "given", "missing"),
    [
        (DBA, [of("ada")], 1),
        (DBA, [of("ada", "approver", "net", "dba")], 0),
        (RequiredApprovals(count=2, group="dba"), [of("ada", "approver", "dba"), of("bob")], 1),
        (RequiredApprovals(count=2, group="dba"), [of("ada", "approver", "dba")] * 2, 1),
        (RequiredApprovals(count=1, role="approver"), [of("ada", "admin", "dba")], 1),
        (RequiredApprovals(count=1, role="approver"), [of("ada")], 0),
        (RequiredApprovals(count=1, role="approver", group="dba"), [of("ada"), of("b", "admin", "dba")], 1),
        (RequiredApprovals(count=1, role="approver", group="dba"), [of("ada", "approver", "dba")], 0),
    ],
)
def test_only_approvals_of_the_right_people_count(
    rule: RequiredApprovals, given: list[Approval], missing: int
) -> None:
    """A group or a role, each person once. Who says so themselves, without a server, does not count."""
    decision = needs(rule)
    assert missing_approvals(decision, given, now=NOW) == missing
    assert isinstance(with_approvals(decision, given, now=NOW), NeedApproval if missing else Allow)
    unverified = [structs.replace(each, who={**each.who, "verified": False}) for each in given]
    expired = [structs.replace(each, until=NOW) for each in given]
    for others in (unverified, expired):
        assert missing_approvals(decision, others, now=NOW) == rule.count


def test_one_approval_counts_for_several_rules_and_all_must_be_met() -> None:
    """Also those that another policy adds: the stricter of both."""
    decision = unite([needs(approvals=2), needs(DBA)])
    dba, other = of("ada", "approver", "dba"), of("bob")
    assert isinstance(with_approvals(decision, [dba, other], now=NOW), Allow)
    assert missing_by_rule(decision, [other, of("eve")], now=NOW) == ((1, DBA),)
    assert missing_approvals(decision, [dba], now=NOW) == 1
    later = with_reasons(needs(DBA), [reason("HF-GUARD-12", Effect.APPROVE)])
    assert missing_approvals(later, [other], now=NOW) == 1


def test_break_glass_lifts_the_approvals_too_while_it_lasts() -> None:
    """But no rejection, and nothing that is not understood."""
    glass = structs.replace(word("override", verified=True), break_glass=True)
    for decision in (BOTH, WAITING, needs(DBA, approvals=2)):
        assert isinstance(with_approvals(decision, [glass], now=NOW), Allow)
        expired = structs.replace(glass, until=NOW)
        assert with_approvals(decision, [expired], now=NOW) == decision
        assert isinstance(with_approvals(decision, [glass, word("reject")], now=NOW), Deny)
    unknown = decision_from_reasons([reason(NOT_UNDERSTOOD, Effect.DENY)])
    assert with_approvals(unknown, [glass], now=NOW) == unknown
