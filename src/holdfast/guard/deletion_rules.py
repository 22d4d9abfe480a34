"""Rules about deletions: protected resources, deletion budgets, whole stacks, outputs that others read.

A deletion is a change that deletes, replaces or forgets a resource.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from holdfast.config.guard import NONE, Budget, Effect
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import RuleInput
from holdfast.guard.protected import (
    ProtectingTag,
    covering,
    protecting_address,
    protecting_tag,
    protecting_type,
)
from holdfast.kernel.text import plural
from holdfast.terraform.plan.model import ResourceChange
from holdfast.terraform.tables.stateful_types import stateful_types

_NAMED = 3
"""How many missing resources a message names."""


def _deletion_text(change: ResourceChange) -> str:
    """`a.b would be deleted because it is no longer in the configuration`."""
    return f"{change.address} would be {change.explanation}"


def protected_addresses(given: RuleInput) -> Iterator[Reason]:
    for change in given.deletions:
        pattern = protecting_address(change, given.policy.addresses)
        if pattern is not None:
            yield Reason(
                code="HF-GUARD-6",
                address=change.address,
                message=f"{_deletion_text(change)}, and `{pattern}` is protected by the configuration",
                rule=f"protected address {pattern}",
            )


def protected_tags(given: RuleInput) -> Iterator[Reason]:
    for change in given.deletions:
        tag = protecting_tag(change, given.policy.tags)
        if tag is not None:
            yield Reason(
                code="HF-GUARD-7",
                address=change.address,
                message=f"{_deletion_text(change)}, and {_tag_text(tag)}",
                rule=f"protected tag {tag.name}" if tag.name is not None else "protected tags",
            )


def _tag_text(tag: ProtectingTag) -> str:
    if tag.name is None:
        return "its tags are unknown: one of them could protect it"
    if not tag.known:
        return f"the value of its tag `{tag.name}` is unknown: it could protect it"
    return f"its tag `{tag.name}` protects it"


def protected_types(given: RuleInput) -> Iterator[Reason]:
    for change in given.deletions:
        protected_by = protecting_type(change.type, given.policy)
        if protected_by is not None:
            yield Reason(
                code="HF-GUARD-3",
                address=change.address,
                message=f"{_deletion_text(change)}, and {_type_text(change.type, protected_by)}",
                rule=f"protected type {change.type}",
                effect=given.policy.stateful,
            )


@functools.cache
def _type_text(type_: str, pattern: str) -> str:
    row = stateful_types().get(type_)
    if row is None:
        by = f" (`{pattern}`)" if pattern != type_ else ""
        return f"the configuration protects the type {type_}{by}"
    text = f"{type_} {row.loss}"
    return f"{text}; its own protection: {', '.join(row.protections)}" if row.protections else text


def deletions(given: RuleInput) -> Iterator[Reason]:
    """One reason for each resource, and one more if the stack exceeds a budget greater than zero."""
    allowed = given.policy.per_stack.allows(given.prior)
    over = allowed is not None and len(given.deletions) > allowed
    rule = f"deletions in {given.context.where}"
    for change in given.deletions:
        yield Reason(
            code="HF-GUARD-1",
            address=change.address,
            message=_deletion_text(change),
            rule=rule,
            effect=Effect.DENY if over else Effect.WARN,
        )
    if over and given.policy.per_stack != NONE:
        yield Reason(
            code="HF-GUARD-4",
            message=f"{plural(len(given.deletions), 'resource')} would be deleted, replaced or forgotten; "
            f"the budget of this stack is {budget_text(given.policy.per_stack, given.prior)}",
            rule="deletion budget of a stack",
        )


def budget_text(budget: Budget, prior: int) -> str:
    """`3`, or `3 (10% of 31)`."""
    return f"{budget.allows(prior)} ({budget} of {prior})" if budget.percent is not None else str(budget)


def whole_stack(given: RuleInput) -> Iterator[Reason]:
    """With `--destroy`, or because every resource in the state would be deleted or forgotten."""
    removed = sum("create" not in change.actions for change in given.deletions)
    requested = given.context.destroy and given.has_changes
    if not requested and not (removed and given.prior <= removed):
        return
    yield Reason(
        code="HF-GUARD-10",
        message=f"all of {given.context.stack} would be destroyed"
        if requested
        else f"no resource of {given.context.stack} would remain "
        f"({plural(removed, 'resource')} would be deleted or forgotten)",
        rule="destroying a whole stack",
        effect=given.policy.destroy,
    )


def removed_outputs(given: RuleInput) -> Iterator[Reason]:
    for output in given.plan.outputs:
        if output.removed and output.name in given.context.read_outputs:
            yield Reason(
                code="HF-GUARD-2",
                message=f"the output `{output.name}` would be removed, and other stacks read it",
                rule="removed outputs",
                effect=given.policy.removed_outputs,
            )


def moved_out(given: RuleInput) -> Iterator[Reason]:
    """Protection by address does not follow a moved resource, so the next plan could delete it."""
    patterns = given.policy.addresses
    for change in given.plan.changes if patterns else ():
        if change.previous_address is None or not change.moved or change.loses:
            continue
        pattern = covering(change.previous_address, patterns)
        if pattern is not None and covering(change.address, patterns) is None:
            yield Reason(
                code="HF-GUARD-16",
                address=change.address,
                message=f"{change.address} moves from {change.previous_address}, which `{pattern}` protects, "
                "to an address that is not protected",
                rule="move to an unprotected address",
                effect=Effect.WARN,
            )


def missing_resources(given: RuleInput) -> Iterator[Reason]:
    """Deleted outside Terraform; an apply removes them from the state."""
    missing = [change.address for change in given.plan.drift if "delete" in change.actions]
    if missing and given.has_changes:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        exist, them = ("exists", "it") if len(missing) == 1 else ("exist", "them")
        names = ", ".join(missing[:_NAMED]) + more
        yield Reason(
            code="HF-GUARD-15",
            address=missing[0] if len(missing) == 1 else None,
            message=f"{plural(len(missing), 'resource')} in the state no longer {exist} ({names}); "
            f"an apply removes {them} from the state",
            rule="missing resources",
            effect=Effect.WARN,
        )
