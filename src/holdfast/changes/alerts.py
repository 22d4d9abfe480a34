"""Alerts about the results of a change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from holdfast.audit.break_glass import Act
from holdfast.notify.alerts.alert import Alert, AlertKind, Severity
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack

_ENDS: Final[Mapping[Status, tuple[AlertKind, ...]]] = {
    Status.APPLIED: (AlertKind.FAILED, AlertKind.UNKNOWN, AlertKind.WAITING),
    Status.UNCHANGED: (AlertKind.FAILED, AlertKind.UNKNOWN, AlertKind.WAITING),
    Status.FAILED: (AlertKind.UNKNOWN, AlertKind.WAITING),
    Status.UNKNOWN: (AlertKind.WAITING,),
    Status.REFUSED: (AlertKind.WAITING,),
    Status.CANCELLED: (AlertKind.WAITING,),
}
_ENDED_BY_A_PLAN: Final = frozenset({AlertKind.WAITING})
"""A plan without changes proves nothing about what failed before."""


def alerts_from_results(
    results: Iterable[StackResult], operation: str, *, link: str | None, now: datetime
) -> Iterator[Alert]:
    """`plan`: a plan that fails is no alert, as nothing was changed; one that waits for an approval is."""
    for result in results:
        ended = _ENDS.get(result.status, ())
        if operation == "plan":
            ended = tuple(kind for kind in ended if kind in _ENDED_BY_A_PLAN and not result.error)
        for kind in ended:
            yield resolved(kind, result.stack.name, now)
        if (alert := _begun(result, operation, link, now)) is not None:
            yield alert


def resolved(kind: AlertKind, stack: str, now: datetime) -> Alert:
    return Alert(kind=kind, key=key_of(kind, stack), resolved=True, title=stack, since=now, stack=stack)


def key_of(kind: AlertKind, stack: str) -> str:
    return f"{kind}:{stack}"


def _begun(result: StackResult, operation: str, link: str | None, now: datetime) -> Alert | None:
    stack, error = result.stack, result.error
    evidence = () if error is None else (f"{error.code}: {error.message}",)
    hint = error.hint if error is not None else None

    def about(
        kind: AlertKind, severity: Severity, what: str, details: tuple[str, ...], next_step: str
    ) -> Alert:
        return Alert(
            kind=kind,
            key=key_of(kind, stack.name),
            severity=severity,
            title=f"{stack.name}: {what}",
            details=details,
            next_step=next_step,
            link=link,
            since=now,
            stack=stack.name,
            environment=stack.environment,
            production=stack.production,
            target=stack.target.name if stack.target is not None else None,
            run=result.run,
        )

    match result.status:
        case Status.UNKNOWN:
            step = f"holdfast runs reconcile {result.run}" if result.run else "holdfast runs list"
            what = "the outcome of the last apply is unknown"
            return about(AlertKind.UNKNOWN, Severity.CRITICAL, what, evidence, hint or step)
        case Status.FAILED if operation != "plan":
            severity = Severity.ERROR if stack.production else Severity.WARNING
            left = tuple(f"{where}: {how}" for where, how in result.outcomes.items() if how != "applied")
            step = f"holdfast runs log {result.run}" if result.run else f"holdfast plan {stack.name}"
            what = f"the {operation} failed"
            return about(AlertKind.FAILED, severity, what, (*evidence, *left), hint or step)
        case Status.WAITING if result.saved or operation != "plan":
            reasons = tuple(reason.message for reason in getattr(result.decision, "reasons", ()))
            step = f"holdfast plan {stack.name} --out bundle/, then: holdfast runs approve --bundle bundle/"
            if result.saved:
                step = f"holdfast runs show {result.run} --plan, then: holdfast runs approve {result.run}"
            return about(AlertKind.WAITING, Severity.INFO, "a plan waits for approval", reasons, step)
        case _:
            return None


def alerts_from_acts(
    acts: Mapping[str, tuple[Act, ...]],
    told: Collection[str],
    stacks: Mapping[str, Stack],
    *,
    link: str | None,
    now: datetime,
) -> Iterator[Alert]:
    """Open break-glass acts, and the end of those that a normal apply has followed.

    `told`: the stacks whose acts an alert is open about.
    """
    for name in sorted(set(told) - acts.keys()):
        yield resolved(AlertKind.BREAK_GLASS, name, now)
    for name, of_stack in acts.items():
        if not of_stack:
            continue
        stack = stacks.get(name)
        yield Alert(
            kind=AlertKind.BREAK_GLASS,
            key=key_of(AlertKind.BREAK_GLASS, name),
            severity=Severity.WARNING,
            title=f"{name}: break-glass, {of_stack[-1].what} by {of_stack[-1].who}",
            details=tuple(act.shown for act in of_stack),
            next_step=f"Follow it with a normal apply: holdfast apply {name}",
            link=link,
            since=_moment(of_stack[0].at, now),
            stack=name,
            environment=stack.environment if stack is not None else None,
            production=stack.production if stack is not None else False,
            target=stack.target.name if stack is not None and stack.target is not None else None,
            run=of_stack[-1].run,
        )


def _moment(text: str, otherwise: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return moment if moment.tzinfo is not None else otherwise
