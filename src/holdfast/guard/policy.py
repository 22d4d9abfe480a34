"""The policy of one stack, from the built-in rules, `guard`, and `guard.environments`.

In production the built-in rules are stricter, and settings for all environments can only make them stricter
still. Only the settings of an environment can make them milder.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from holdfast.config.guard import (
    ANY,
    NONE,
    Budget,
    Effect,
    Freeze,
    GuardRules,
    GuardSettings,
    RequiredApprovals,
    strictest,
)

_T = TypeVar("_T")

EVERYWHERE = ""
"""The group of stacks without a change budget of their environment."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those for production."""

    per_stack: Budget = NONE
    per_change: Budget = ANY
    change_group: str = EVERYWHERE
    """Stacks with the same group share the budget `per_change`."""
    stateful: Effect = Effect.DENY
    """For deletions of a protected type."""
    missing: Effect = Effect.DENY
    """For resources that a refresh no longer finds: an apply would remove them from the state."""
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
    """When a Rego policy denies, or cannot be evaluated."""
    findings: Effect = Effect.WARN
    """When the checks find errors. Findings are shown in any case."""
    max_changes: int | None = None
    approvals: int = 0
    verified: bool = False
    """Only approvals by verified identities count."""
    approvers: tuple[RequiredApprovals, ...] = ()
    """Of the approvals, those that people with a role or of a group must give."""
    freeze: tuple[Freeze, ...] = ()


IN_PRODUCTION = Policy()
ELSEWHERE = Policy(
    per_stack=ANY,
    stateful=Effect.WARN,
    missing=Effect.WARN,
    removed_outputs=Effect.WARN,
    actions=Effect.WARN,
    provisioners=Effect.WARN,
    destroy=Effect.WARN,
    target=Effect.WARN,
)


_EFFECTS = tuple(
    name for name in GuardRules.__struct_fields__ if isinstance(getattr(ELSEWHERE, name, None), Effect)
)


def policy_for(settings: GuardSettings, *, environment: str | None, production: bool) -> Policy:
    built_in = IN_PRODUCTION if production else ELSEWHERE
    general = settings.rules
    own = (settings.environments.get(environment) if environment is not None else None) or GuardRules()
    approvals = own.approvals or general.approvals or ()
    required = (approvals,) if isinstance(approvals, RequiredApprovals) else approvals

    def effect(name: str) -> Effect:
        own_effect: Effect | None = getattr(own, name)
        general_effect: Effect | None = getattr(general, name)
        default: Effect = getattr(built_in, name)
        if own_effect is not None:
            return own_effect
        if general_effect is None:
            return default
        return strictest(default, general_effect) if production else general_effect

    return Policy(
        per_stack=_first(own.per_stack, None if production else general.per_stack, built_in.per_stack),
        per_change=_first(own.per_change, general.per_change, built_in.per_change),
        change_group=EVERYWHERE if own.per_change is None else (environment or EVERYWHERE),
        stateful=built_in.stateful,
        missing=built_in.missing,
        addresses=_union(general.addresses, own.addresses),
        types=_union(general.types, own.types),
        except_types=own.except_types,
        tags=_union(general.tags, own.tags),
        max_changes=own.max_changes if own.max_changes is not None else general.max_changes,
        approvals=max((each.count for each in required), default=built_in.approvals),
        verified=any(each.verified or each.limited for each in required),
        approvers=tuple(each for each in required if each.limited and each.count),
        freeze=_union(general.freeze, own.freeze),
        **{name: effect(name) for name in _EFFECTS},
    )


def _first(*values: _T | None) -> _T:
    return next(value for value in values if value is not None)


def _union(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*first, *second)))
