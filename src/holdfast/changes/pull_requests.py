"""Other pull requests that plan the same stacks, and the notice that a plan is out of date.

All of it informs. It never fails a plan or an apply: what goes wrong is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from holdfast.kernel.errors import Problem
from holdfast.kernel.text import first_names
from holdfast.notify.comment import comment_key, write_banner
from holdfast.notify.hosts.client import HostError, RetriesExhaustedError, RetryLimits
from holdfast.notify.hosts.interface import CiRun, CodeHost, CommentApi
from holdfast.notify.publish import with_api
from holdfast.notify.report import OtherRequest
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.store.pull_requests import AppliedSince, RequestPlan
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.system.environment import Environment
from holdfast.system.markup import code

_WITH_CHANGES = frozenset({Status.PLANNED, Status.REFUSED, Status.WAITING})
_STARTED = frozenset({Status.FAILED, Status.UNKNOWN, Status.CANCELLED})
_SECONDS = 30.0
"""For all requests about other pull requests."""
_MAX_REQUESTS = 20
_MAX_NAMED = 5
_LONGEST_NAME = 80
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def record_plans(store: RunStore, run: CiRun, results: Iterable[StackResult]) -> None:
    """Remember which stacks this pull request changes, for other pull requests and later applies."""
    if run.pull_request is None or run.repository is None:
        return
    changed = (result.stack.name for result in results if result.status in _WITH_CHANGES)
    store.request_plans.write(
        RequestPlan(
            host=run.host,
            repository=run.repository,
            number=run.pull_request.number,
            comment=comment_key(run.name),
            age=run.age,
            who=run.who[:_LONGEST_NAME],
            at=clock.now().isoformat(),
            stacks=tuple(sorted(changed)),
        )
    )


def other_requests(
    store: RunStore, host: CodeHost, run: CiRun, results: Iterable[StackResult], environment: Environment
) -> tuple[OtherRequest, ...]:
    """Open pull requests of this repository whose plan changes a stack that this one changes too."""
    if run.pull_request is None:
        return ()
    own = run.pull_request.number
    changed = {result.stack.name for result in results if result.status in _WITH_CHANGES}
    plans = [
        plan
        for plan in store.request_plans.all()
        if plan.is_for(run.host, run.repository) and plan.number != own and changed.intersection(plan.stacks)
    ]
    closed: set[int] = set()
    checked: set[int] = set()

    def check(api: CommentApi) -> None:
        for number in list(dict.fromkeys(plan.number for plan in plans))[:_MAX_REQUESTS]:
            (checked if api.is_open(number) else closed).add(number)

    if plans:
        with_api(host, run, environment, check, RetryLimits(_SECONDS))
    others: dict[tuple[str, int], OtherRequest] = {}
    for plan in plans:
        if plan.number in closed:
            store.request_plans.remove(plan)
            continue
        for stack in sorted(changed.intersection(plan.stacks) - set(plan.applied)):
            others[stack, plan.number] = OtherRequest(
                stack=stack,
                reference=f"{host.reference}{plan.number}",
                who=plan.who or "an unknown user",
                when=f"{_duration(clock.seconds_since(plan.at))} ago",
                open=plan.number in checked,
            )
    return tuple(others[key] for key in sorted(others))


def _duration(seconds: float) -> str:
    """In the largest unit that fits: `2 hours`."""
    for size, unit in _UNITS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return "less than a minute"


def mark_out_of_date(
    store: RunStore,
    results: Iterable[StackResult],
    current: tuple[CodeHost, CiRun] | None,
    environment: Environment,
    clean: Callable[[str], str] = str,
) -> tuple[Problem, ...]:
    """After an apply: record it for the plans of pull requests, and say so in their comments.

    `current` is the job that applied. Without it, or without its token, the record remains.
    """
    applied = {result.stack.name: result for result in results if _was_applied(store, result)}
    concerned = [plan for plan in store.request_plans.all() if set(applied) & set(plan.stacks)]
    if not concerned:
        return ()
    own: list[int | None] = [None]

    def find_own(api: CommentApi) -> None:
        own[0] = _own_request(api, current[1]) if current is not None else None

    if current is not None and current[1].token is not None:
        with_api(*current, environment, find_own, RetryLimits(_SECONDS), clean)
    stale = [
        marked
        for plan in concerned
        if (marked := _with_applied(store, plan, applied, own[0], current[1] if current else None))
        is not None
    ]
    return _write_banners(store, stale, current, environment, clean)


def _was_applied(store: RunStore, result: StackResult) -> bool:
    """Whether its apply started: also one that failed has changed the state."""
    if result.status is Status.APPLIED:
        return True
    return result.status in _STARTED and result.digest is not None and store.used(result.digest) is not None


def _own_request(api: CommentApi, run: CiRun) -> int | None:
    if run.pull_request is not None:
        return run.pull_request.number
    try:
        return api.merged_with(run.commit) if run.commit is not None else None
    except (HostError, RetriesExhaustedError):
        return None


def _with_applied(
    store: RunStore,
    plan: RequestPlan,
    applied: dict[str, StackResult],
    own: int | None,
    run: CiRun | None,
) -> RequestPlan | None:
    """The plan with what was applied; None if it is the one that was applied."""
    if own == plan.number and run is not None and plan.is_for(run.host, run.repository):
        store.request_plans.remove(plan)
        return None
    since = {
        stack: AppliedSince(run=applied[stack].run or "", at=clock.now().isoformat(), pull_request=own)
        for stack in plan.stacks
        if stack in applied
    }
    marked = structs.replace(plan, applied={**plan.applied, **since})
    store.request_plans.write(marked)
    return marked


def _write_banners(
    store: RunStore,
    stale: list[RequestPlan],
    current: tuple[CodeHost, CiRun] | None,
    environment: Environment,
    clean: Callable[[str], str],
) -> tuple[Problem, ...]:
    if current is None:
        return ()
    host, run = current
    ours = [plan for plan in stale if plan.is_for(run.host, run.repository)][:_MAX_REQUESTS]

    def write(api: CommentApi) -> None:
        for plan in ours:
            if not api.is_open(plan.number):
                store.request_plans.remove(plan)
                continue
            write_banner(api, plan.number, _banner(plan, host), key=plan.comment, age=plan.age)

    return with_api(host, run, environment, write, RetryLimits(_SECONDS), clean) if ours else ()


def _banner(plan: RequestPlan, host: CodeHost) -> str:
    stacks = sorted(plan.applied)
    named = first_names([code(stack, _LONGEST_NAME) for stack in stacks], _MAX_NAMED)
    numbers = {since.pull_request for since in plan.applied.values()}
    by = ", ".join(f"{host.reference}{number}" for number in sorted(number for number in numbers if number))
    verb = "was" if len(stacks) == 1 else "were"
    return f"{named} {verb} applied{f' by {by}' if by else ''} since this plan; plan again"
