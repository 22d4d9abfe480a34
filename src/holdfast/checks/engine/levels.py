"""The severity of a finding: the rule's own, unless `checks:` changes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.checks.model.globs import is_path, is_rule
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.subjects import Checkout
from holdfast.config.checks import CheckSettings, Level, RuleLevel

_LEAST_TO_MOST_SEVERE = tuple(Level)
_BY_NAME = frozenset({"HF905", "HF908"})
"""Reports that something was not checked: `HF*` or `HF9*` does not silence them, only the full id."""


def is_enabled(checkout: Checkout, rule: Rule) -> bool:
    """Whether it is on anywhere: a rule that is off everywhere, or not configured, is not evaluated."""
    settings = checkout.config.checks
    overrides = (*settings.environments.values(), *(path.rules for path in settings.paths))
    if _level_for(settings.rules, rule.id) is Level.OFF and not any(
        _level_for(levels, rule.id) not in (None, Level.OFF) for levels in overrides
    ):
        return False
    if rule.configured is None:
        return True
    named = any(level.rule.upper() == rule.id for levels in (settings.rules, *overrides) for level in levels)
    return named or rule.configured(checkout)


def severity_of(
    settings: CheckSettings,
    rule: Rule,
    *,
    own: Severity | None = None,
    file: str | None = None,
    environments: Iterable[str | None] = (),
) -> Severity | None:
    """None: it is off there. With several environments the strictest one decides.

    `own` is the finding's own severity. A path wins over an environment, an environment over the rest.
    """
    base = _level_for(settings.rules, rule.id) or Level(own or rule.severity)
    level = max(
        (
            _level_for(settings.environments.get(name or "", ()), rule.id) or base
            for name in set(environments)
        ),
        key=_LEAST_TO_MOST_SEVERE.index,
        default=base,
    )
    for path_ in settings.paths:
        if is_path(path_.path, file):
            level = _level_for(path_.rules, rule.id) or level
    return None if level is Level.OFF else Severity(level)


def _level_for(levels: Sequence[RuleLevel], rule: str) -> Level | None:
    """A full id wins over a prefix, and a longer prefix over a shorter one."""
    matching = [
        level
        for level in levels
        if is_rule(level.rule, rule) and not (rule in _BY_NAME and level.rule.endswith("*"))
    ]
    if not matching:
        return None
    return max(matching, key=lambda level: (not level.rule.endswith("*"), len(level.rule))).level
