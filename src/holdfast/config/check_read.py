"""What the shape of `checks` cannot say: environments that exist, days that are days; and its values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType

from holdfast.config.boundary_read import boundary_settings, state_names
from holdfast.config.check_valid import CheckSettings, ConfigWaiver, Level, PathLevels, RuleLevel, Use
from holdfast.config.keys import PRODUCTION_NAMES
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.reading import At
from holdfast.config.scalars import Bad

# Checking


def check_checks(top: At, problems: Problems) -> None:
    checks = top.value["checks"]
    known = (*top.get("environments", {}), *PRODUCTION_NAMES)
    for name, at in checks.get("environments", {}).items():
        if name not in known:
            problems.add(
                "HF-CONF-26",
                f"checks.environments names `{name}`, which is not in `environments`",
                place=at.place,
                hint=did_you_mean(name, known) or f"Add it: environments: {{ {name}: {{}} }}",
            )
    for index, waiver in enumerate(checks.get("waivers", ())):
        until = None if isinstance(waiver.value, Bad) else waiver.get("until")
        if until is not None and day(until) is None:
            problems.add(
                "HF-CONF-27",
                f"checks.waivers[{index}].until: there is no day `{until}`",
                place=waiver.value["until"].place,
                hint="Look at the calendar.",
            )


def day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


# Building


def check_settings(at: At) -> CheckSettings:
    """Only for a file without mistakes."""
    environments = at.get("environments", {})
    return CheckSettings(
        rules=_levels(at),
        environments=MappingProxyType({name: _levels(one) for name, one in environments.items()}),
        paths=tuple(PathLevels(path=one.get("path"), rules=_levels(one)) for one in at.get("paths", ())),
        waivers=tuple(_waiver(one) for one in at.get("waivers", ())),
        platforms=tuple(dict.fromkeys(one.value for one in at.get("platforms", ()))),
        tools=MappingProxyType({name: Use(one.value) for name, one in at.get("tools", {}).items()}),
        boundary=boundary_settings(at.value.get("boundary")),
        state_names=state_names(at.value.get("backend")),
        accounts=_texts(at, "accounts"),
        names=_texts(at, "names"),
        tags=_texts(at, "tags"),
    )


def _texts(at: At, key: str) -> Mapping[str, str]:
    return MappingProxyType({name: one.value for name, one in at.get(key, {}).items()})


def _levels(at: At) -> tuple[RuleLevel, ...]:
    return tuple(
        RuleLevel(rule=name, level=Level(one.value), place=one.place)
        for name, one in at.get("rules", {}).items()
    )


def _waiver(at: At) -> ConfigWaiver:
    return ConfigWaiver(
        rule=at.get("rule"),
        owner=at.get("owner"),
        reason=at.get("reason"),
        until=date.fromisoformat(at.get("until")),
        place=at.place,
        path=at.get("path"),
        address=at.get("address"),
        stack=at.get("stack"),
    )
