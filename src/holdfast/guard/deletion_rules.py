"""Rules about deletions: protected resources, deletion budgets, whole stacks, outputs that others read.

A deletion is a change that deletes, replaces or forgets a resource.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from msgspec import Struct

from holdfast.config.guard import NONE, Budget, Effect
from holdfast.guard.decision import Reason
from holdfast.guard.plan_context import RuleInput
from holdfast.guard.policy import Policy
from holdfast.kernel.text import plural
from holdfast.terraform.plan.model import ResourceChange
from holdfast.terraform.tables.import_ids import is_recreatable
from holdfast.terraform.tables.stateful_types import stateful_types

_NAMED = 3
"""How many missing resources a message names."""
_SEVERAL = 2
"""A single missing resource may well have been deleted."""


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
    """Not found by the refresh: deleted outside Terraform, or looked up in the wrong place.

    They count as forgotten. A destroy is not stopped because its resources no longer exist.
    """
    for change in given.plan.missing if given.has_changes else ():
        protected = (
            protecting_address(change, given.policy.addresses) is not None
            or protecting_tag(change, given.policy.tags) is not None
        )
        mild = given.context.destroy or is_recreatable(change.type)
        expected = Effect.WARN if given.context.recreates else given.policy.missing
        yield Reason(
            code="HF-GUARD-15",
            address=change.address,
            message=f"{change.address} was not found; an apply removes it from the state",
            rule="missing resources",
            effect=Effect.WARN if mild else Effect.DENY if protected else expected,
        )


def all_missing(given: RuleInput) -> Iterator[Reason]:
    """Wrong credentials look like this: a provider that finds nothing reports everything as deleted."""
    missing = [change for change in given.plan.missing if not is_recreatable(change.type)]
    if len(missing) < _SEVERAL or not given.has_changes or given.context.destroy:
        return
    imported = sum(change.importing is not None for change in given.plan.changes)
    present = sum(
        resource.mode == "managed" and not is_recreatable(resource.type)
        for resource in given.plan.prior_state.resources()
    )
    if present <= imported:
        names = ", ".join(change.address for change in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        yield Reason(
            code="HF-GUARD-21",
            message=f"none of the {len(missing)} resources of {given.context.stack} was found "
            f"({names}{more}): is this the right account, region and endpoint?",
            rule="no resource found",
            effect=Effect.WARN if given.context.recreates else Effect.DENY,
        )


def protecting_address(change: ResourceChange, patterns: tuple[str, ...]) -> str | None:
    """The pattern that covers the current address of a resource, or the one before a move."""
    for address in (change.address, change.previous_address):
        if address is not None and (pattern := covering(address, patterns)) is not None:
            return pattern
    return None


def covering(address: str, patterns: tuple[str, ...]) -> str | None:
    """The first pattern that matches the address or a parent: a resource, a module."""
    return next((pattern for pattern in patterns if _address_pattern(pattern).fullmatch(address)), None)


def protecting_type(type_: str, policy: Policy) -> str | None:
    """The pattern of the configuration that protects the type, or the type if the built-in table has it."""
    pattern = next((pattern for pattern in policy.types if _glob(pattern).fullmatch(type_)), None)
    if pattern is not None:
        return pattern
    return type_ if type_ in stateful_types() and type_ not in policy.except_types else None


class ProtectingTag(Struct, frozen=True, kw_only=True):
    name: str | None
    """None: the resource has tags, and all of them are unknown."""
    known: bool = True
    """Its value is known."""


def protecting_tag(
    change: ResourceChange, tags: tuple[tuple[str, tuple[str, ...]], ...]
) -> ProtectingTag | None:
    """The tag that protects the resource. A tag with an unknown value counts as protecting.

    Names and values are compared case-insensitively, as some clouds do.
    """
    if not tags:
        return None
    from holdfast.terraform.plan.tags import tags_before  # noqa: PLC0415  most policies name no tags

    before = tags_before(change)
    for name, values in tags:
        for tag, value in before.pairs:
            if tag.casefold() != name.casefold():
                continue
            if value is None:
                return ProtectingTag(name=name, known=False)
            if not values or any(_glob(pattern.casefold()).fullmatch(value.casefold()) for pattern in values):
                return ProtectingTag(name=name)
    return ProtectingTag(name=None, known=False) if before.unreadable else None


@functools.cache
def _address_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{_regex(pattern)}(?:[.\[].*)?", re.DOTALL)


@functools.cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(_regex(pattern), re.DOTALL)


def _regex(pattern: str) -> str:
    """`*` matches any text. Atomic groups keep the match linear, whatever the pattern."""
    first, *rest = map(re.escape, pattern.split("*"))
    if not rest:
        return first
    between = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return f"{first}{between}.*{rest[-1]}"
