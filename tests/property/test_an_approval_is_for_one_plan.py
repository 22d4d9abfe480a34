"""What people say about a plan loosens that plan's decision, as far as it may, and never more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.guard import Effect
from holdfast.guard.decision import NOT_UNDERSTOOD, Allow, Decision, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import decision_from_reasons, missing_approvals, with_approvals
from holdfast.store.approvals import Approval, ApprovalKind

CODES = (NOT_UNDERSTOOD, "HF-GUARD-1", "HF-GUARD-3", "HF-GUARD-12", "HF-GUARD-14")
EFFECTS = (Effect.WARN, Effect.APPROVE, Effect.DENY)

reasons = st.lists(
    st.builds(
        lambda code, effect: Reason(
            code=code, message=code, effect=Effect.DENY if code == NOT_UNDERSTOOD else effect
        ),
        st.sampled_from(CODES),
        st.sampled_from(EFFECTS),
    ),
    max_size=4,
)
NOW = "2026-01-02"

decisions = st.builds(
    lambda found, number, verified: decision_from_reasons(found, approvals=number, verified=verified),
    reasons,
    st.integers(0, 3),
    st.booleans(),
)
words = st.lists(
    st.builds(
        lambda kind, by, user, verified, valid: Approval(
            kind=kind,
            digest="d",
            stack="a",
            run="r",
            who={"kind": "person", "name": by, "machine": "m", "uid": user, "verified": verified},
            reason="r",
            at="2026-01-01",
            until=None if valid else NOW,
        ),
        st.sampled_from(ApprovalKind),
        st.sampled_from("abc"),
        st.sampled_from((0, 1)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=5,
)


@given(decisions, words)
def test_what_is_not_understood_is_never_let_through(decision: Decision, said: list[Approval]) -> None:
    """Nobody can answer for what nobody can read."""
    if any(one.code == NOT_UNDERSTOOD for one in decision.reasons):
        assert isinstance(with_approvals(decision, said, now=NOW), Deny)


@given(decisions, words)
def test_a_denial_is_lifted_by_a_valid_override_alone(decision: Decision, said: list[Approval]) -> None:
    """Not by approvals, not by an override that has expired, and never over a rejection."""
    overridden = any(one.kind == "override" and one.in_force(NOW) for one in said)
    rejected = any(one.kind == "reject" for one in said)
    after = with_approvals(decision, said, now=NOW)
    if isinstance(decision, Deny) and (not overridden or rejected):
        assert isinstance(after, Deny)
    if rejected:
        assert isinstance(after, Deny)


@given(decisions, words)
def test_approvals_count_by_person(decision: Decision, said: list[Approval]) -> None:
    """As many different people as are needed, and none of them twice."""
    needs_proof = not isinstance(decision, Allow) and decision.verified
    approvals = [one for one in said if one.kind == "approve" and one.in_force(NOW)]
    people = {one.who["name"] for one in approvals if one.who["verified"]}
    if not needs_proof:
        people |= {one.who["uid"] for one in approvals if not one.who["verified"]}
    after = with_approvals(decision, said, now=NOW)
    if isinstance(decision, NeedApproval) and len(people) < decision.approvals:
        assert not isinstance(after, Allow)
        if isinstance(after, NeedApproval):
            assert missing_approvals(after, said, now=NOW) == decision.approvals - len(people)


@given(decisions, words)
def test_an_override_leaves_the_approvals_that_are_needed(decision: Decision, said: list[Approval]) -> None:
    """What was denied is lifted; what had to be approved has to be approved still."""
    approving = any(one.effect is Effect.APPROVE for one in decision.reasons)
    if approving and not any(one.kind == "approve" for one in said):
        assert not isinstance(with_approvals(decision, said, now=NOW), Allow)


@given(decisions)
def test_without_an_approval_nothing_changes(decision: Decision) -> None:
    """Silence is no consent."""
    assert with_approvals(decision, (), now=NOW) == decision
