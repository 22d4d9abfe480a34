"""Rules about how a change is made: actions, provisioners, parts of a stack, size, time, approvals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.config.guard import Effect, Freeze
from holdfast.guard.decision import NOT_UNDERSTOOD, Reason
from holdfast.guard.deletion_rules import objects
from holdfast.guard.plan_context import Case
from holdfast.guard.unsupported import not_understood
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.actions import ChangeKind


def understood(case: Case) -> Iterator[Reason]:
    yield from not_understood(case.plan)
    if case.plan.errored:
        yield Reason(
            code=NOT_UNDERSTOOD,
            message="planning broke off with an error, so nobody knows what else would happen",
            rule="what is not understood",
        )


def actions(case: Case) -> Iterator[Reason]:
    for action in case.plan.action_invocations:
        if action.deferred is not None:
            continue
        by = f" by {action.triggered_by}" if action.triggered_by else ""
        when = f" ({action.event})" if action.event else ""
        yield Reason(
            code="HF-GUARD-8",
            address=action.address,
            message=f"{action.address} would be invoked{by}{when}; a plan does not say what an action does",
            rule="actions of providers",
            effect=case.policy.actions,
        )


def provisioners(case: Case) -> Iterator[Reason]:
    """A plan tells neither when a provisioner runs nor what it does, only that there is one."""
    if not case.plan.provisioners:
        return
    touched = Counter(
        without_keys(change.address)
        for change in case.plan.changes
        if "create" in change.actions or "delete" in change.actions
    )
    for address, number in touched.items():
        kinds = case.plan.provisioners.get(address)
        if kinds:
            yield Reason(
                code="HF-GUARD-9",
                address=address,
                message=f"{address}: provisioners ({', '.join(kinds)}) can run, because {objects(number)} "
                "would be created or deleted; a plan does not say what they do",
                rule="provisioners",
                effect=case.policy.provisioners,
            )


def partial(case: Case) -> Iterator[Reason]:
    if not case.has_changes:
        return
    if case.situation.targeted:
        says = "the plan was made with --target and leaves out the rest of the stack"
    elif case.plan.complete is False:
        says = "the plan is not complete: Terraform needs another one after it"
    else:
        return
    yield Reason(code="HF-GUARD-11", message=says, rule="plans of a part", effect=case.policy.target)


def freezes(case: Case) -> Iterator[Reason]:
    if case.has_changes:
        for freeze in case.policy.freeze:
            yield from _frozen(freeze, case)


def _frozen(freeze: Freeze, case: Case) -> Iterator[Reason]:
    from holdfast.guard.windows import UnknownZoneError, frozen_until  # noqa: PLC0415  most have no freeze

    rule = f"freeze {freeze.text}"
    try:
        until = frozen_until(freeze, case.situation.now)
    except UnknownZoneError:
        yield Reason(
            code="HF-GUARD-12",
            message=f"nobody can tell whether there is a freeze ({freeze.text}): this machine does not know "
            f"the time zone {freeze.zone}",
            rule=rule,
        )
        return
    if until is not None:
        why = f", {freeze.why}" if freeze.why else ""
        yield Reason(
            code="HF-GUARD-12",
            message=f"there is a freeze until {until:%Y-%m-%d %H:%M} {freeze.zone} ({freeze.text}{why})",
            rule=rule,
            effect=freeze.effect,
        )


def size(case: Case) -> Iterator[Reason]:
    most = case.policy.max_changes
    if most is None:
        return
    number = sum(change.has_effect and change.kind is not ChangeKind.READ for change in case.plan.changes)
    if number > most:
        yield Reason(
            code="HF-GUARD-13",
            message=f"{objects(number)} would change, and from {most + 1} on an approval is needed",
            rule="size of a change",
            effect=Effect.APPROVE,
        )


def approvals(case: Case) -> Iterator[Reason]:
    needed = case.policy.approvals
    if needed and case.has_changes:
        where = case.situation.environment or case.situation.where
        yield Reason(
            code="HF-GUARD-14",
            message=f"changes to {where} need {'an approval' if needed == 1 else f'{needed} approvals'}",
            rule=f"approvals in {where}",
            effect=Effect.APPROVE,
        )
