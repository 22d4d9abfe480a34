"""What is weaker in a change than in its base, in terms of configuration keys and files. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.checks.engine import catalogue
from holdfast.checks.model.report import Waiver
from holdfast.config.checks import CheckSettings, Level, RuleLevel, Use
from holdfast.config.settings import Config, Owner, Target
from holdfast.guard.policy import policy_for
from holdfast.guard.weakening import weaker_settings
from holdfast.kernel.text import first_names
from holdfast.plans.base_rules import BaseStack
from holdfast.stacks.stack import Stack

_MOST_NAMED = 3
_LEVELS = tuple(Level)
_USES = tuple(Use)


class RuleFile(Struct, frozen=True, kw_only=True):
    """A policy or a contract of the base that the change edits or removes."""

    path: str
    removed: bool


# Stacks, environments and targets


def weakened_stacks(
    config: Config, old: Config, stacks: Iterable[Stack], base: Mapping[str, tuple[BaseStack, ...]]
) -> Iterator[str]:
    environments = {environment.name: environment for environment in config.environments}
    for then in old.environments:
        now = environments.get(then.name)
        if now is not None and then.production and not now.production:
            yield f"environments.{then.name}.production true → false"
    moved: dict[str, list[str]] = {}
    for stack in stacks:
        for twin in base.get(stack.name, ()):
            for text in _moved(old, stack, twin):
                moved.setdefault(text, []).append(stack.name)
    for text, names in moved.items():
        yield f"{text} ({first_names(names, _MOST_NAMED)})"
    targets = {target.name: target for target in config.targets}
    for target in old.targets:
        yield from _weakened_target(target, targets.get(target.name))
    if config.store != old.store:
        yield f"store {old.store} → {config.store}: what was applied and approved there does not count"


def _moved(old: Config, stack: Stack, base: BaseStack) -> Iterator[str]:
    """The stack belongs to another environment or target than in the base, with weaker rules."""
    if base.environment != stack.environment:
        then = policy_for(old.guard, environment=base.environment, production=base.production)
        now = policy_for(old.guard, environment=stack.environment, production=stack.production)
        if (base.production and not stack.production) or any(weaker_settings(then, now)):
            before = f"{base.environment or 'unknown'}{' (production)' if base.production else ''}"
            yield f"environment {before} → {stack.environment or 'unknown'}"
    name, now_name = (target.name if target is not None else "none" for target in (base.target, stack.target))
    if name != now_name and _owner(base.target) is Owner.CI and _owner(stack.target) is not Owner.CI:
        yield f"target {name} (owner ci) → {now_name}"


def _owner(target: Target | None) -> Owner | None:
    return target.owner if target is not None else None


def _weakened_target(then: Target, now: Target | None) -> Iterator[str]:
    if now is None:
        return
    if then.owner is Owner.CI and now.owner is not Owner.CI:
        yield f"targets.{then.name}.owner ci → {now.owner}"
    if then.proof is not None and now.proof is None:
        yield f"targets.{then.name}.proof {then.proof} → none"
    if then.contract is not None and then.contract != now.contract:
        yield f"targets.{then.name}.contract {'changed' if now.contract is not None else 'removed'}"


# The guard


def weakened_guard(config: Config, old: Config, base: Iterable[tuple[BaseStack, ...]]) -> Iterator[str]:
    """In every environment that the base has stacks of, and in every one with rules of its own."""
    known = {(twin.environment, twin.production) for twins in base for twin in twins}
    production = {environment.name: environment.production for environment in old.environments}
    known.update((name, production.get(name, True)) for name in old.guard.environments)
    for name, is_production in sorted(known, key=lambda pair: (pair[0] or "", pair[1])):
        then = policy_for(old.guard, environment=name, production=is_production)
        now = policy_for(config.guard, environment=name, production=is_production)
        own_then, own_now = (guard.environments.get(name or "") for guard in (old.guard, config.guard))
        for weaker in weaker_settings(then, now):
            own = getattr(own_then, weaker.field, None) != getattr(own_now, weaker.field, None)
            yield f"guard.environments.{name}.{weaker.text}" if own else f"guard.{weaker.text}"


# Checks and policies


def same_checks(old: Config, config: Config) -> bool:
    """Whether the same files give the same findings."""
    return _without_places(old.checks) == _without_places(config.checks) and old.company == config.company


def _without_places(value: object) -> object:
    """Where a setting is written is no part of what it says."""
    match value:
        case Struct():
            fields = (name for name in value.__struct_fields__ if name != "place")
            return {name: _without_places(getattr(value, name)) for name in fields}
        case Mapping():
            return {key: _without_places(inner) for key, inner in value.items()}
        case tuple():
            return [_without_places(item) for item in value]
        case _:
            return value


def weakened_checks(
    config: Config, old: Config, files: Iterable[RuleFile], waivers: Iterable[Waiver]
) -> Iterator[str]:
    for file in files:
        yield f"{file.path} {'removed' if file.removed else 'changed'}"
    then, now = old.checks, config.checks
    for name in sorted({*then.tools, *now.tools}):
        before, after = then.tools.get(name, Use.AUTO), now.tools.get(name, Use.AUTO)
        if _USES.index(after) < _USES.index(before):
            yield f"checks.tools.{name} {before} → {after}"
    yield from _weaker_levels("checks.rules", then.rules, now.rules)
    for name in sorted({*then.environments, *now.environments}):
        levels = then.environments.get(name, ()), now.environments.get(name, ())
        yield from _weaker_levels(f"checks.environments.{name}.rules", *levels)
    if _without_places(then.paths) != _without_places(now.paths):
        yield "checks.paths changed"
    known = [_without_places(waiver) for waiver in then.waivers]
    for waiver in now.waivers:
        if _without_places(waiver) not in known:
            yield f"checks.waivers with {waiver.rule} until {waiver.until}"
    yield from (
        f"{waiver.place.file}:{waiver.place.line} waiver of {waiver.rule} added" for waiver in waivers
    )
    yield from _changed_conventions(then, now)


def _weaker_levels(where: str, then: Iterable[RuleLevel], now: Iterable[RuleLevel]) -> Iterator[str]:
    before, after = ({level.rule: level.level for level in levels} for levels in (then, now))
    for rule in sorted({*before, *after}):
        built_in = _built_in(rule)
        level, other = before.get(rule, built_in), after.get(rule, built_in)
        if _LEVELS.index(other) < _LEVELS.index(level):
            yield f"{where}.{rule} {level} → {other}"


def _built_in(rule: str) -> Level:
    """Of a prefix or a rule of an external tool: the most severe."""
    known = catalogue.rule(rule)
    return Level(known.severity.value) if known is not None else Level.ERROR


def _changed_conventions(then: CheckSettings, now: CheckSettings) -> Iterator[str]:
    """Settings of rules of which it is not known which value is the weaker one."""
    if then.boundary != now.boundary:
        yield "checks.boundary changed"
    if any(now.accounts.get(name) != then.accounts.get(name) for name in now.accounts):
        yield "checks.accounts changed"
    for field, key in (
        ("state_names", "backend"),
        ("names", "names"),
        ("tags", "tags"),
        ("platforms", "platforms"),
    ):
        before = getattr(then, field)
        if before and before != getattr(now, field):
            yield f"checks.{key} changed"
