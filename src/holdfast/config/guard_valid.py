"""What `guard:` says, as values: rules for every environment, and what single environments say instead."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from holdfast.kernel.values import dataclass, field


class Effect(StrEnum):
    """What follows when a rule finds something, the mildest first."""

    ALLOW = "allow"
    WARN = "warn"
    APPROVE = "approve"
    DENY = "deny"


_GRAVER = tuple(Effect)


def gravest(*effects: Effect) -> Effect:
    return max(effects, key=_GRAVER.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many objects may be lost: a number, or a share of the objects that there were; neither: any."""

    number: int | None = None
    percent: int | None = None

    def allows(self, prior: int) -> int | None:
        """As a number; None: there is no limit."""
        return self.number if self.percent is None else prior * self.percent // 100

    def __str__(self) -> str:
        if self.percent is not None:
            return f"{self.percent}%"
        return "any" if self.number is None else str(self.number)


ANY = Budget()
NONE = Budget(number=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A time in which nothing is applied. Minutes of the clock on the wall in `zone`, from `start` to `end`.

    They are counted from the beginning of a Monday, 1970-01-05; one that recurs begins again every `every`.
    """

    start: int
    end: int
    every: int | None
    zone: str
    text: str
    why: str | None = None
    effect: Effect = Effect.APPROVE


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """None: nothing is said here. Lists are added to what is said elsewhere, everything else replaces it."""

    per_stack: Budget | None = None
    per_change: Budget | None = None
    addresses: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    except_types: tuple[str, ...] = ()
    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    removed_outputs: Effect | None = None
    actions: Effect | None = None
    provisioners: Effect | None = None
    destroy: Effect | None = None
    target: Effect | None = None
    policies: Effect | None = None
    findings: Effect | None = None
    max_changes: int | None = None
    approvals: int | None = None
    freeze: tuple[Freeze, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    rules: GuardRules = GuardRules()
    environments: Mapping[str, GuardRules] = field(default_factory=lambda: MappingProxyType({}))
