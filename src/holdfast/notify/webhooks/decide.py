"""From an event, and the pull request as it is now, to what is done. Pure.

Events only say that something happened. What counts is the pull request as the host describes it now, so
late, repeated and reordered events lead to the same result.
"""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final, assert_never

from msgspec import Struct

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.kernel.text import first_names, plural
from holdfast.notify.webhooks.commands import HELP
from holdfast.notify.webhooks.interface import (
    ApplyMode,
    EventKind,
    RequestState,
    WebhookEvent,
    WebhookSettings,
)
from holdfast.system.markup import code

_APPLICABLE: Final = frozenset({"planned", "waiting"})
_FINE: Final = _APPLICABLE | {"unchanged", "removed", "blocked"}
_MOST_NAMED: Final = 5
_SHORT: Final = 10
_AGAIN: Final = "Comment `holdfast plan` to plan again."


class ShownPlan(Struct, frozen=True, kw_only=True):
    """One stack in the newest plan of a pull request."""

    stack: str
    run: str
    status: str | None
    digest: str | None


class ShownChange(Struct, frozen=True, kw_only=True):
    """The newest plan of a pull request."""

    id: str
    source: str
    head: str
    finished: bool
    reported: datetime | None
    """When its comment was written; None: not yet."""
    plans: tuple[ShownPlan, ...] = ()


class Situation(Struct, frozen=True, kw_only=True):
    """What is known beside the event."""

    state: RequestState
    allowed: bool
    """Whether the sender may plan and apply."""
    branch: str
    """The default branch of the registered repository."""
    head_at: datetime | None = None
    """When the host said that `state.head` is its commit; None: it did not."""
    shown: ShownChange | None = None
    applying: bool = False
    """An apply of this pull request is not finished."""


class PlanHead(Struct, frozen=True, kw_only=True):
    """Plan what the pull request affects. An unfinished older plan is cancelled."""

    head: str
    base: str


class ApplyMerged(Struct, frozen=True, kw_only=True):
    """Plan and apply what the merged pull request affects."""

    commit: str
    base: str


class ApplyShown(Struct, frozen=True, kw_only=True):
    """Apply these plans and no others."""

    source: str
    head: str
    plans: tuple[ShownPlan, ...]


class CancelPlans(Struct, frozen=True, kw_only=True):
    """The pull request was closed."""


class Reply(Struct, frozen=True, kw_only=True):
    text: str
    """Trusted Markdown."""


class Ignore(Struct, frozen=True, kw_only=True):
    reason: str


Action = PlanHead | ApplyMerged | ApplyShown | CancelPlans | Reply | Ignore


def decide(event: WebhookEvent, now: Situation, settings: WebhookSettings) -> Action:
    match event.kind:
        case EventKind.OPENED | EventKind.UPDATED:
            return _after_push(event, now)
        case EventKind.MERGED:
            return _after_merge(now, settings)
        case EventKind.CLOSED:
            return CancelPlans() if not now.state.open else Ignore(reason="the pull request is open again")
        case EventKind.COMMENT:
            return _after_comment(event, now, settings)
        case _:
            assert_never(event.kind)


def _after_push(event: WebhookEvent, now: Situation) -> Action:
    state = now.state
    if not state.open:
        return Ignore(reason="the pull request is closed")
    if state.fork and event.kind is EventKind.OPENED:
        return Reply(
            text="This pull request comes from a fork, so Holdfast does not plan it by itself. Review its "
            "code: a plan runs it. Then a person with write permission can comment `holdfast plan`."
        )
    if state.fork:
        return Ignore(reason="the pull request comes from a fork")
    if now.shown is not None and now.shown.head == state.head:
        return Ignore(reason="this commit is planned already")
    return PlanHead(head=state.head, base=state.base)


def _after_merge(now: Situation, settings: WebhookSettings) -> Action:
    if settings.apply is not ApplyMode.ON_MERGE or now.state.branch != now.branch:
        return CancelPlans()
    return _merged(now.state)


def _merged(state: RequestState) -> Action:
    if state.merge is None:
        return Ignore(reason="the pull request is not merged")
    return ApplyMerged(commit=state.merge, base=state.base)


def _after_comment(event: WebhookEvent, now: Situation, settings: WebhookSettings) -> Action:
    command = event.command
    if not now.allowed or command is None:
        return Ignore(reason=f"{event.sender} may not use Holdfast in this repository")
    match command.name:
        case "plan":
            return _plan_again(event, now.state, now.head_at)
        case "apply":
            return _apply(event, now, settings, command.arguments)
        case _:
            return Reply(text=HELP)


def _plan_again(event: WebhookEvent, state: RequestState, head_at: datetime | None) -> Action:
    if not state.open:
        return Reply(text="Not planned: the pull request is closed.")
    # The author of a fork may push between the review and the comment.
    if state.fork and (head_at is None or head_at >= event.at):
        return Reply(
            text=f"Not planned: commit {code(state.head[:_SHORT])} arrived after your comment, or at the "
            "same time. Review it, then comment `holdfast plan` again."
        )
    return PlanHead(head=state.head, base=state.base)


def _apply(event: WebhookEvent, now: Situation, settings: WebhookSettings, stacks: tuple[str, ...]) -> Action:
    merged = now.state.merge is not None
    reason = _reason_against(now)
    if reason is None and merged and stacks:
        reason = "a merged pull request is applied as a whole. Comment `holdfast apply`."
    elif reason is None and not merged:
        reason = _reason_against_open(event.at, now.state, now.shown, settings.apply)
    if reason is not None:
        return Reply(text=f"Not applied: {reason}")
    return _merged(now.state) if merged or now.shown is None else _apply_shown(now.shown, stacks)


def _reason_against(now: Situation) -> str | None:
    if now.state.branch != now.branch:
        return f"the pull request is not for the branch {code(now.branch, 100)}."
    if now.applying:
        return "an apply of this pull request is not finished. Comment again when it is."
    if not now.state.open and now.state.merge is None:
        return "the pull request was closed without being merged."
    return None


def _reason_against_open(
    at: datetime, state: RequestState, shown: ShownChange | None, mode: ApplyMode
) -> str | None:
    """`at`: when the person wrote; they must have seen the plan."""
    reason = None
    if mode is ApplyMode.ON_MERGE:
        reason = "this repository applies a pull request when it is merged."
    elif state.blocked is not None:
        reason = f"the pull request cannot be merged, as {state.blocked}."
    elif shown is None:
        reason = f"there is no plan of this pull request yet. {_AGAIN}"
    elif shown.head != state.head:
        planned, newest = code(shown.head[:_SHORT]), code(state.head[:_SHORT])
        reason = f"the plan is for commit {planned}, and the newest is {newest}. {_AGAIN}"
    elif not shown.finished or shown.reported is None:
        reason = "the plan is not finished. Comment again when it is shown."
    elif shown.reported >= at:
        reason = "the plan changed while you wrote. Read it, then comment again."
    return reason


def _apply_shown(shown: ShownChange, stacks: tuple[str, ...]) -> Action:
    missing = [name for name in stacks if not any(fnmatchcase(plan.stack, name) for plan in shown.plans)]
    if missing:
        return Reply(text=f"Not applied: the plan has no stack {_names(missing)}.")
    wanted = [
        plan
        for plan in shown.plans
        if not stacks or any(fnmatchcase(plan.stack, pattern) for pattern in stacks)
    ]
    bad = [plan.stack for plan in wanted if plan.status not in _FINE]
    if bad:
        cannot = f"{plural(len(bad), 'stack')} cannot be applied: {_names(bad)}"
        return Reply(text=f"Not applied: {cannot}. To apply others: `holdfast apply STACK…`")
    plans = tuple(plan for plan in wanted if plan.status in _APPLICABLE and plan.digest is not None)
    if not plans:
        return Reply(text="Nothing to apply: the plan has no changes.")
    return ApplyShown(source=shown.source, head=shown.head, plans=plans)


def _names(names: list[str]) -> str:
    return first_names([code(name, 80) for name in names], _MOST_NAMED)


def requester(event: WebhookEvent, action: Action, settings: WebhookSettings, tenant: str) -> Principal:
    """Who acts, such as `github:LOGIN`. A plan of code that was not reviewed writes nothing that counts."""
    role = Role.OPERATOR
    if isinstance(action, PlanHead):
        role = Role.PLANNER
    elif event.kind is EventKind.MERGED:
        role = Role.CI
    return Principal(
        id="",
        name=f"{settings.host}:{event.sender}",
        kind="webhook",
        role=role,
        tenant=tenant,
        stacks=settings.stacks,
        states=settings.stacks,
        claims={"repository": settings.project, "pull_request": str(event.number)},
    )
