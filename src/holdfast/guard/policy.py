"""What holds for one stack: the built-in rules, what `guard:` says, and what it says of its environment.

In production the built-in rules are the stricter ones, and what is said for all environments can only make
them stricter still. Only what is said of an environment by its name can make them milder.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec

from holdfast.config.guard import ANY, NONE, Budget, Effect, Freeze, GuardRules, GuardSettings, strictest
from holdfast.terraform.tables.stateful_types import table_bytes

_T = TypeVar("_T")

RULES_VERSION = 3
"""Of the rules in this room: grows with every change of what they decide."""

EVERYWHERE = ""
"""The group of stacks whose budget of a change is the one said for all environments."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of production."""

    per_stack: Budget = NONE
    per_change: Budget = ANY
    change_group: str = EVERYWHERE
    """Stacks of one change with the same group share the budget `per_change`."""
    stateful: Effect = Effect.DENY
    """When an object of a protected type is lost."""
    addresses: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    except_types: tuple[str, ...] = ()
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    removed_outputs: Effect = Effect.DENY
    actions: Effect = Effect.APPROVE
    provisioners: Effect = Effect.APPROVE
    destroy: Effect = Effect.DENY
    target: Effect = Effect.APPROVE
    policies: Effect = Effect.DENY
    """When a policy in Rego denies, or cannot be asked."""
    findings: Effect = Effect.WARN
    """When the checks find errors. They are shown in any case."""
    max_changes: int | None = None
    approvals: int = 0
    freeze: tuple[Freeze, ...] = ()


IN_PRODUCTION = Policy()
ELSEWHERE = Policy(
    per_stack=ANY,
    stateful=Effect.WARN,
    removed_outputs=Effect.WARN,
    actions=Effect.WARN,
    provisioners=Effect.WARN,
    destroy=Effect.WARN,
    target=Effect.WARN,
)


def policy_for(settings: GuardSettings, *, environment: str | None, production: bool) -> Policy:
    """An environment that nobody named has no rules of its own."""
    built_in = IN_PRODUCTION if production else ELSEWHERE
    everywhere = settings.rules
    own = (settings.environments.get(environment) if environment is not None else None) or GuardRules()

    def effect(name: str) -> Effect:
        said: Effect | None = getattr(own, name)
        general: Effect | None = getattr(everywhere, name)
        default: Effect = getattr(built_in, name)
        if said is not None:
            return said
        if general is None:
            return default
        return strictest(default, general) if production else general

    return Policy(
        per_stack=_first(own.per_stack, None if production else everywhere.per_stack, built_in.per_stack),
        per_change=_first(own.per_change, everywhere.per_change, built_in.per_change),
        change_group=EVERYWHERE if own.per_change is None else (environment or EVERYWHERE),
        stateful=built_in.stateful,
        addresses=_joined(everywhere.addresses, own.addresses),
        types=_joined(everywhere.types, own.types),
        except_types=own.except_types,
        tags=_joined(everywhere.tags, own.tags),
        removed_outputs=effect("removed_outputs"),
        actions=effect("actions"),
        provisioners=effect("provisioners"),
        destroy=effect("destroy"),
        target=effect("target"),
        policies=effect("policies"),
        findings=effect("findings"),
        max_changes=own.max_changes if own.max_changes is not None else everywhere.max_changes,
        approvals=_first(own.approvals, everywhere.approvals, built_in.approvals),
        freeze=_joined(everywhere.freeze, own.freeze),
    )


def _first(*said: _T | None) -> _T:
    """What is said nearest to the stack; the built-in value stands last and always says something."""
    return next(one for one in said if one is not None)


def _joined(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def policy_version(policy: Policy) -> str:
    """Part of every plan's digest: a plan judged by other rules is another plan."""
    content = (RULES_VERSION, hashlib.sha256(table_bytes()).hexdigest(), policy)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()
