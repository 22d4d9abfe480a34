"""What the shape of `guard` cannot say: environments that exist, times that are times; and its values."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from holdfast.config.guard_valid import Budget, Effect, Freeze, GuardRules, GuardSettings
from holdfast.config.keys import PRODUCTION_NAMES
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.reading import At, shown
from holdfast.config.scalars import Bad

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = 24 * 60
_WEEK: Final = 7 * _DAY
FIRST_MONDAY: Final = datetime(1970, 1, 5)  # noqa: DTZ001  a clock on the wall has no zone


class NotATimeError(Exception):
    """Why `from` and `to` are no freeze, as a sentence without its end, and what would be one."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


# Checking


def check_guard(top: At, problems: Problems) -> None:
    guard = top.value["guard"]
    names = top.get("environments", {})
    known = (*names, *PRODUCTION_NAMES)
    for name, at in guard.get("environments", {}).items():
        if name not in known:
            problems.add(
                "HF-CONF-23",
                f"guard.environments names `{name}`, which is not in `environments`",
                place=at.place,
                hint=did_you_mean(name, known) or f"Add it: environments: {{ {name}: {{}} }}",
            )
    for keys, freeze in _freezes(guard):
        _check_freeze(shown(keys), freeze, problems)


def _freezes(guard: At) -> Iterator[tuple[tuple[str | int, ...], At]]:
    for index, freeze in enumerate(guard.get("freeze", ())):
        yield ("guard", "freeze", index), freeze
    for name, at in guard.get("environments", {}).items():
        for index, freeze in enumerate(at.get("freeze", ())):
            yield ("guard", "environments", name, "freeze", index), freeze


def _check_freeze(where: str, at: At, problems: Problems) -> None:
    if isinstance(at.value, Bad):
        return
    zone = at.get("zone")
    if zone is not None and not zone_exists(zone):
        problems.add(
            "HF-CONF-24",
            f"{where}.zone is `{zone}`, and this machine knows no such time zone",
            place=at.value["zone"].place,
            hint=did_you_mean(zone, zoneinfo.available_timezones())
            or "Names are as in `Europe/Berlin`; a machine without them needs the package tzdata.",
        )
    first, last = at.get("from"), at.get("to")
    if first is None or last is None:
        return
    try:
        minutes(first, last)
    except NotATimeError as error:
        problems.add("HF-CONF-25", f"{where}: {error}", place=at.value["to"].place, hint=error.hint)


def zone_exists(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return name == "UTC"
    return True


def minutes(first: str, last: str) -> tuple[int, int, int | None]:
    """From, to, and after how many minutes it comes again. The end is not part of it.

    Raises NotATimeError.
    """
    (kind, start, _), (other, end, whole_day) = _moment(first), _moment(last)
    if kind != other:
        raise NotATimeError(
            f"`{first}` and `{last}` are of two kinds",
            "Write both as days of the week, both as dates, or both as times of the day.",
        )
    every = {"day": _DAY, "week": _WEEK, "date": None}[kind]
    end += _DAY if whole_day else 0
    if every is not None and end <= start and first != last:
        end += every
    if end <= start:
        raise NotATimeError(f"`{last}` is not after `{first}`", "A freeze ends after it begins.")
    return start, end, every


def _moment(text: str) -> tuple[str, int, bool]:
    """Its kind, its minutes, and whether it is a day as a whole."""
    day, _, clock = text.rpartition(" ") if " " in text else (text, "", "")
    if ":" in day:
        return "day", _clock(day), False
    if day in _DAYS:
        return "week", _DAYS.index(day) * _DAY + _clock(clock), not clock
    try:
        date = datetime.fromisoformat(day)
    except ValueError:
        raise NotATimeError(f"there is no day `{day}`", "Look at the calendar.") from None
    since = (date - FIRST_MONDAY) // timedelta(minutes=1)
    return "date", since + _clock(clock), not clock


def _clock(text: str) -> int:
    hours, _, rest = text.partition(":")
    return int(hours) * 60 + int(rest) if text else 0


# Building


def guard_settings(at: At) -> GuardSettings:
    """Only for a file without mistakes."""
    environments = at.get("environments", {})
    return GuardSettings(
        rules=_rules(at),
        environments=MappingProxyType({name: _rules(one) for name, one in environments.items()}),
    )


def _rules(at: At) -> GuardRules:
    deletions, protect = _sub(at, "deletions"), _sub(at, "protect")
    return GuardRules(
        per_stack=_budget(deletions.get("per_stack")),
        per_change=_budget(deletions.get("per_change")),
        addresses=_texts(protect, "addresses"),
        types=_texts(protect, "types"),
        except_types=_texts(protect, "except_types"),
        tags=_tags(protect.get("tags", {})),
        removed_outputs=_effect(at, "removed_outputs"),
        actions=_effect(at, "actions"),
        provisioners=_effect(at, "provisioners"),
        destroy=_effect(at, "destroy"),
        target=_effect(at, "target"),
        policies=_effect(at, "policies"),
        findings=_effect(at, "findings"),
        max_changes=at.get("max_changes"),
        approvals=at.get("approvals"),
        freeze=tuple(_freeze(one) for one in at.get("freeze", ())),
    )


def _sub(at: At, key: str) -> At:
    return At(value=at.get(key, {}), place=at.place)


def _texts(at: At, key: str) -> tuple[str, ...]:
    return tuple(item.value for item in at.get(key, ()))


def _tags(names: Mapping[str, At]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, tuple(item.value for item in at.value)) for name, at in names.items())


def _effect(at: At, key: str) -> Effect | None:
    found = at.get(key)
    return None if found is None else Effect(found)


def _budget(text: str | None) -> Budget | None:
    match text:
        case None:
            return None
        case "any":
            return Budget()
        case _ if text.endswith("%"):
            return Budget(percent=int(text[:-1]))
        case _:
            return Budget(number=int(text))


def _freeze(at: At) -> Freeze:
    first, last = at.get("from"), at.get("to")
    start, end, every = minutes(first, last)
    return Freeze(
        start=start,
        end=end,
        every=every,
        zone=at.get("zone"),
        text=f"{first} to {last}" if every != _DAY else f"{first} to {last} every day",
        why=at.get("why"),
        effect=Effect(at.get("effect", Effect.APPROVE)),
    )
