"""Rules about what would be lost: protected objects, too many of them, all of them, outputs others read."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from holdfast.config.guard import NONE, Budget, Effect
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import Case
from holdfast.guard.protected import (
    ProtectingTag,
    covering,
    protecting_address,
    protecting_tag,
    protecting_type,
)
from holdfast.terraform.plan.model import ResourceChange
from holdfast.terraform.tables.stateful_types import stateful_types


def fate(change: ResourceChange) -> str:
    """`a.b would be deleted because it is no longer in the configuration`."""
    return f"{change.address} would be {change.explanation}"


def protected_addresses(case: Case) -> Iterator[Reason]:
    for change in case.losing:
        pattern = protecting_address(change, case.policy.addresses)
        if pattern is not None:
            yield Reason(
                code="HF-GUARD-6",
                address=change.address,
                message=f"{fate(change)}, and `{pattern}` is protected by the configuration",
                rule=f"protected address {pattern}",
            )


def protected_tags(case: Case) -> Iterator[Reason]:
    for change in case.losing:
        tag = protecting_tag(change, case.policy.tags)
        if tag is not None:
            yield Reason(
                code="HF-GUARD-7",
                address=change.address,
                message=f"{fate(change)}, and {_tag_says(tag)}",
                rule=f"protected tag {tag.name}" if tag.name is not None else "protected tags",
            )


def _tag_says(tag: ProtectingTag) -> str:
    if tag.name is None:
        return "its tags cannot be read: one of them could protect it"
    if not tag.clear:
        return f"the value of its tag `{tag.name}` cannot be read: it could protect it"
    return f"its tag `{tag.name}` protects it"


def protected_types(case: Case) -> Iterator[Reason]:
    for change in case.losing:
        found = protecting_type(change.type, case.policy)
        if found is not None:
            yield Reason(
                code="HF-GUARD-3",
                address=change.address,
                message=f"{fate(change)}, and {_type_says(change.type, found)}",
                rule=f"protected type {change.type}",
                effect=case.policy.stateful,
            )


@functools.cache
def _type_says(type_: str, named: str) -> str:
    row = stateful_types().get(type_)
    if row is None:
        return f"the configuration protects the type {type_}" + (f" (`{named}`)" if named != type_ else "")
    says = f"{type_} {row.loss}"
    return f"{says}; its own protection: {', '.join(row.protections)}" if row.protections else says


def deletions(case: Case) -> Iterator[Reason]:
    """One reason for each object; one more when a budget that is not simply zero is overdrawn."""
    allowed = case.policy.per_stack.allows(case.prior)
    over = allowed is not None and len(case.losing) > allowed
    rule = f"deletions in {case.situation.where}"
    for change in case.losing:
        yield Reason(
            code="HF-GUARD-1",
            address=change.address,
            message=fate(change),
            rule=rule,
            effect=Effect.DENY if over else Effect.WARN,
        )
    if over and case.policy.per_stack != NONE:
        yield Reason(
            code="HF-GUARD-4",
            message=f"{objects(len(case.losing))} would be deleted, replaced or forgotten, and the budget "
            f"of this stack is {budget_says(case.policy.per_stack, case.prior)}",
            rule="budget of a stack",
        )


def objects(number: int) -> str:
    return "1 object" if number == 1 else f"{number} objects"


def budget_says(budget: Budget, prior: int) -> str:
    """`3`, or `3 (10% of 31)`."""
    return f"{budget.allows(prior)} ({budget} of {prior})" if budget.percent is not None else str(budget)


def whole_stack(case: Case) -> Iterator[Reason]:
    """Asked for, or in effect: of what is known to be there, nothing would stay."""
    gone = sum("create" not in change.actions for change in case.losing)
    asked = case.situation.destroy and case.has_changes
    if not asked and not (gone and case.prior <= gone):
        return
    yield Reason(
        code="HF-GUARD-10",
        message=f"all of {case.situation.stack} would be destroyed"
        if asked
        else f"nothing that {case.situation.stack} has now would be left "
        f"({objects(gone)} would be deleted or forgotten)",
        rule="destroying a whole stack",
        effect=case.policy.destroy,
    )


def removed_outputs(case: Case) -> Iterator[Reason]:
    for output in case.plan.outputs:
        if output.removed and output.name in case.situation.read_outputs:
            yield Reason(
                code="HF-GUARD-2",
                message=f"the output `{output.name}` would be removed, and other stacks read it",
                rule="outputs that others read",
                effect=case.policy.removed_outputs,
            )


def moved_out(case: Case) -> Iterator[Reason]:
    """A protection by address does not follow the object. The next plan could delete it."""
    patterns = case.policy.addresses
    for change in case.plan.changes if patterns else ():
        if change.previous_address is None or not change.moved or change.loses:
            continue
        pattern = covering(change.previous_address, patterns)
        if pattern is not None and covering(change.address, patterns) is None:
            yield Reason(
                code="HF-GUARD-16",
                address=change.address,
                message=f"{change.address} is moved from {change.previous_address}, which `{pattern}` "
                "protects, to an address that nothing protects",
                rule="moves out of protection",
                effect=Effect.WARN,
            )


def found_gone(case: Case) -> Iterator[Reason]:
    """Not the plan's doing, but its apply writes it down."""
    gone = [change.address for change in case.plan.drift if "delete" in change.actions]
    if gone and case.has_changes:
        named = ", ".join(gone[:3]) + (f" and {len(gone) - 3} more" if len(gone) > 3 else "")  # noqa: PLR2004  a few names
        yield Reason(
            code="HF-GUARD-15",
            address=gone[0] if len(gone) == 1 else None,
            message=f"{objects(len(gone))} of the state could no longer be found ({named}); "
            "an apply takes them out of the state",
            rule="objects that are gone",
            effect=Effect.WARN,
        )
