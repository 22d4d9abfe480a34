"""What is done about an event: a table of cases, and what holds for all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.identity.roles import Permission, Role
from holdfast.notify.webhooks.commands import HELP, parse_command
from holdfast.notify.webhooks.decide import (
    Action,
    ApplyMerged,
    ApplyShown,
    CancelPlans,
    Ignore,
    PlanHead,
    Reply,
    ShownChange,
    ShownPlan,
    Situation,
    decide,
    requester,
)
from holdfast.notify.webhooks.interface import (
    ApplyMode,
    EventKind,
    RequestState,
    WebhookEvent,
    WebhookSettings,
)

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=5)
A, B, C = "a" * 40, "b" * 40, "c" * 40
SETTINGS = WebhookSettings(host="github", project="acme/infra", api="https://x", token="t", secret="s")
ON_MERGE = replace(SETTINGS, apply=ApplyMode.ON_MERGE)
STATE = RequestState(open=True, head=A, base=B, branch="main", fork=False)
MERGED = replace(STATE, open=False, merge=C)
NETWORK = ShownPlan(stack="prod/network", run="r1", status="planned", digest="d1")
DATABASE = ShownPlan(stack="prod/db", run="r2", status="waiting", digest="d2")
SAME = ShownPlan(stack="dev/db", run="r3", status="unchanged", digest=None)
SHOWN = ShownChange(
    id="c1", source="s1", head=A, finished=True, reported=BEFORE, plans=(NETWORK, DATABASE, SAME)
)
SITUATION = Situation(state=STATE, allowed=True, branch="main", shown=SHOWN)
PLAN = PlanHead(head=A, base=B)


def _event(kind: EventKind = EventKind.COMMENT, text: str = "") -> WebhookEvent:
    command = parse_command(text)
    return WebhookEvent(
        kind=kind, project="acme/infra", number=7, at=NOW, sender="ada", head=A, command=command
    )


def _decide(text: str, situation: Situation = SITUATION, settings: WebhookSettings = SETTINGS) -> Action:
    return decide(_event(text=text), situation, settings)


@pytest.mark.parametrize("kind", [EventKind.OPENED, EventKind.UPDATED])
def test_a_push_is_planned_once(kind: EventKind) -> None:
    new = replace(SITUATION, shown=replace(SHOWN, head=C))
    assert decide(_event(kind), new, SETTINGS) == PLAN
    assert decide(_event(kind), replace(new, shown=None), SETTINGS) == PLAN
    assert isinstance(decide(_event(kind), SITUATION, SETTINGS), Ignore)
    closed = replace(new, state=replace(STATE, open=False))
    assert isinstance(decide(_event(kind), closed, SETTINGS), Ignore)


def test_a_fork_is_planned_only_for_a_person_who_saw_its_code() -> None:
    fork = replace(SITUATION, state=replace(STATE, fork=True), shown=None)
    assert isinstance(decide(_event(EventKind.OPENED), fork, SETTINGS), Reply)
    assert isinstance(decide(_event(EventKind.UPDATED), fork, SETTINGS), Ignore)
    assert isinstance(_decide("holdfast plan", fork), Reply)
    assert isinstance(_decide("holdfast plan", replace(fork, head_at=NOW)), Reply)
    assert _decide("holdfast plan", replace(fork, head_at=BEFORE)) == PLAN
    assert isinstance(_decide("holdfast plan", replace(fork, head_at=BEFORE, allowed=False)), Ignore)


def test_a_merge_is_applied_if_the_repository_wants_that() -> None:
    merged = replace(SITUATION, state=MERGED)
    assert decide(_event(EventKind.MERGED), merged, ON_MERGE) == ApplyMerged(commit=C, base=B)
    assert decide(_event(EventKind.MERGED), merged, SETTINGS) == CancelPlans()
    elsewhere = replace(merged, state=replace(MERGED, branch="feature"))
    assert decide(_event(EventKind.MERGED), elsewhere, ON_MERGE) == CancelPlans()
    assert isinstance(decide(_event(EventKind.MERGED), SITUATION, ON_MERGE), Ignore)
    assert decide(_event(EventKind.CLOSED), replace(merged, state=replace(STATE, open=False)), SETTINGS) == (
        CancelPlans()
    )
    assert isinstance(decide(_event(EventKind.CLOSED), SITUATION, SETTINGS), Ignore)
    assert _decide("holdfast apply", merged, ON_MERGE) == ApplyMerged(commit=C, base=B)


def test_a_comment_applies_exactly_what_was_shown() -> None:
    both = ApplyShown(source="s1", head=A, plans=(NETWORK, DATABASE))
    assert _decide("holdfast apply") == both
    assert _decide("holdfast apply prod/*") == both
    assert _decide("holdfast apply prod/db") == replace(both, plans=(DATABASE,))
    assert _decide("holdfast help") == Reply(text=HELP)


def _shown(**changes: object) -> Situation:
    return replace(SITUATION, shown=replace(SHOWN, **changes))


@pytest.mark.parametrize(
    ("situation", "said"),
    [
        (replace(SITUATION, shown=None), "no plan of this pull request yet"),
        (_shown(head=C), "the plan is for commit `cccccccccc`, and the newest is `aaaaaaaaaa`"),
        (_shown(finished=False), "not finished"),
        (_shown(reported=None), "not finished"),
        (_shown(reported=NOW), "the plan changed while you wrote"),
        (_shown(plans=(replace(NETWORK, status="failed"), DATABASE)), "cannot be applied: `prod/network`"),
        (_shown(plans=(SAME,)), "Nothing to apply"),
        (replace(SITUATION, applying=True), "not finished"),
        (replace(SITUATION, branch="release"), "not for the branch `release`"),
        (replace(SITUATION, state=replace(STATE, open=False)), "closed without being merged"),
        (replace(SITUATION, state=replace(STATE, blocked="a review is missing")), "a review is missing"),
    ],
)
def test_what_is_not_applied_is_answered_with_the_reason(situation: Situation, said: str) -> None:
    action = _decide("holdfast apply", situation)
    assert isinstance(action, Reply)
    assert said in action.text


def test_unknown_stacks_and_the_wrong_mode_are_refused() -> None:
    for action, said in (
        (_decide("holdfast apply prod/x"), "the plan has no stack `prod/x`"),
        (_decide("holdfast apply", settings=ON_MERGE), "when it is merged"),
        (_decide("holdfast apply a", replace(SITUATION, state=MERGED)), "as a whole"),
    ):
        assert isinstance(action, Reply)
        assert said in action.text


def test_who_acts_has_the_least_role_that_is_needed() -> None:
    shown = ApplyShown(source="s", head=A, plans=())
    merged = ApplyMerged(commit=C, base=B)
    roles = [
        requester(_event(EventKind.UPDATED), PLAN, SETTINGS, "default").role,
        requester(_event(), shown, SETTINGS, "default").role,
        requester(_event(EventKind.MERGED), merged, SETTINGS, "default").role,
    ]
    assert roles == [Role.PLANNER, Role.OPERATOR, Role.CI]
    who = requester(_event(), shown, replace(SETTINGS, stacks=("prod/*",)), "other")
    assert (who.name, who.subject, who.tenant, who.stacks) == (
        "github:ada", "name:github:ada", "other", ("prod/*",),
    )  # fmt: skip
    assert not who.may(Permission.APPROVE)


_states = st.builds(
    RequestState,
    open=st.booleans(),
    head=st.sampled_from([A, C]),
    base=st.just(B),
    branch=st.sampled_from(["main", "other"]),
    fork=st.booleans(),
    merge=st.sampled_from([None, C]),
    blocked=st.sampled_from([None, "a review is missing"]),
)
_plans = st.builds(
    ShownPlan,
    stack=st.sampled_from(["a", "b"]),
    run=st.just("r"),
    status=st.sampled_from([None, "planned", "waiting", "failed", "refused", "unknown", "unchanged"]),
    digest=st.sampled_from([None, "d"]),
)
_times = st.sampled_from([None, BEFORE, NOW, NOW + timedelta(minutes=1)])
_situations = st.builds(
    Situation,
    state=_states,
    allowed=st.booleans(),
    branch=st.just("main"),
    head_at=_times,
    applying=st.booleans(),
    shown=st.none()
    | st.builds(
        ShownChange,
        id=st.just("c"),
        source=st.just("s"),
        head=st.sampled_from([A, C]),
        finished=st.booleans(),
        reported=_times,
        plans=st.lists(_plans, max_size=2).map(tuple),
    ),
)


@given(
    kind=st.sampled_from(EventKind),
    text=st.sampled_from(["holdfast plan", "holdfast apply", "holdfast apply a", "holdfast help"]),
    now=_situations,
    mode=st.sampled_from(ApplyMode),
)
def test_nothing_is_done_that_nobody_may_ask_for(
    kind: EventKind, text: str, now: Situation, mode: ApplyMode
) -> None:
    """A stranger's comment does nothing; only a shown plan of the newest commit, or a merge, is applied."""
    event = _event(kind, text if kind is EventKind.COMMENT else "")
    action = decide(event, now, replace(SETTINGS, apply=mode))
    if kind is EventKind.COMMENT and not now.allowed:
        assert isinstance(action, Ignore)
    if isinstance(action, PlanHead):
        assert now.state.open
        assert action.head == now.state.head
        assert not now.state.fork or (kind is EventKind.COMMENT and (now.head_at or NOW) < event.at)
    if isinstance(action, ApplyShown):
        shown = now.shown
        assert kind is EventKind.COMMENT
        assert mode is ApplyMode.ON_COMMENT
        assert shown is not None
        assert shown.reported is not None
        assert shown.head == now.state.head
        assert shown.reported < event.at
        assert all(plan.digest and plan.status in {"planned", "waiting"} for plan in action.plans)
        assert now.state.open
        assert now.state.blocked is None
    if isinstance(action, ApplyMerged):
        assert action.commit == now.state.merge
        assert now.state.branch == now.branch
        assert kind is EventKind.COMMENT or mode is ApplyMode.ON_MERGE


@given(st.text())
def test_any_text_is_a_command_or_not(text: str) -> None:
    command = parse_command(text)
    assert command is None or command.name in {"plan", "apply", "help"}


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("holdfast plan", "plan", ()),
        ("  /holdfast   PLAN  \n\nthanks", "plan", ()),
        ("`holdfast apply a b/*`", "apply", ("a", "b/*")),
        ("@holdfast help\r\n", "help", ()),
    ],
)
def test_commands(text: str, name: str, arguments: tuple[str, ...]) -> None:
    command = parse_command(text)
    assert command is not None
    assert (command.name, command.arguments) == (name, arguments)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "holdfast",
        "holdfast plan looks good",
        "please holdfast apply",
        "> holdfast apply",
        "holdfast destroy",
    ],
)
def test_other_texts_are_no_commands(text: str) -> None:
    assert parse_command(text) is None
