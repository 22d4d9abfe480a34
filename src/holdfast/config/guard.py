"""`guard`: what is refused and what needs an approval, in all environments and in single ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

from msgspec import Struct

from holdfast.config.declarations import At, ListOf, Names, ScalarOrMapping, Section, key, named
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.shapes import (
    MAX_EIGHT_STARS,
    TYPE_GLOB,
    Choice,
    Flag,
    Integer,
    MistakeError,
    Text,
)


class Effect(StrEnum):
    """What a rule does when it applies, the mildest first."""

    ALLOW = "allow"
    WARN = "warn"
    APPROVE = "approve"
    DENY = "deny"


_BY_SEVERITY: Final = tuple(Effect)


def strictest(*effects: Effect) -> Effect:
    return max(effects, key=_BY_SEVERITY.index)


class Budget(Struct, frozen=True, kw_only=True):
    """How many resources may be lost: a number, or a share of those that exist. With neither: any."""

    number: int | None = None
    percent: int | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        if text == "any":
            return ANY
        return cls(percent=int(text[:-1])) if text.endswith("%") else cls(number=int(text))

    def allows(self, prior: int) -> int | None:
        """As a number of resources; None: there is no limit."""
        return self.number if self.percent is None else prior * self.percent // 100

    def __str__(self) -> str:
        if self.percent is not None:
            return f"{self.percent}%"
        return "any" if self.number is None else str(self.number)


ANY: Final = Budget()
NONE: Final = Budget(number=0)


class Freeze(Struct, frozen=True, kw_only=True):
    """A time in which nothing is applied: minutes of local time in `zone`, from `start` to `end`.

    They are counted from the start of Monday, 1970-01-05; a recurring freeze starts again every `every`.
    """

    start: int
    end: int
    every: int | None
    zone: str
    text: str
    why: str | None = None
    effect: Effect = Effect.APPROVE


# Times

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = 24 * 60
_WEEK: Final = 7 * _DAY
FIRST_MONDAY: Final = datetime(1970, 1, 5)  # noqa: DTZ001  local time has no zone
_CLOCK_PATTERN: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_DAY_PATTERN: Final = r"mon|tue|wed|thu|fri|sat|sun|(?:19|20|21)[0-9]{2}-[0-9]{2}-[0-9]{2}"
_NOT_A_SPAN: Final = "HF-CONF-25"


def freeze_minutes(first: str, last: str) -> tuple[int, int, int | None]:
    """Start, end (exclusive), and after how many minutes it recurs. Raises MistakeError."""
    (kind, start, _), (other, end, whole_day) = _moment(first), _moment(last)
    if kind != other:
        raise MistakeError(
            _NOT_A_SPAN,
            f"mixes two kinds of times: `{first}` and `{last}`",
            hint="Write both as days of the week, both as dates, or both as times of the day.",
        )
    every = {"day": _DAY, "week": _WEEK, "date": None}[kind]
    end += _DAY if whole_day else 0
    if every is not None and end <= start and first != last:
        end += every
    if end <= start:
        raise MistakeError(_NOT_A_SPAN, f"ends too early: `{last}` is not after `{first}`")
    return start, end, every


def _moment(text: str) -> tuple[str, int, bool]:
    """Its kind, its minutes, and whether it is a whole day."""
    day, _, clock = text.rpartition(" ") if " " in text else (text, "", "")
    if ":" in day:
        return "day", _clock_minutes(day), False
    if day in _DAYS:
        return "week", _DAYS.index(day) * _DAY + _clock_minutes(clock), not clock
    try:
        date = datetime.fromisoformat(day)
    except ValueError:
        raise MistakeError(_NOT_A_SPAN, f"names a date that does not exist: no day `{day}`") from None
    since = (date - FIRST_MONDAY) // timedelta(minutes=1)
    return "date", since + _clock_minutes(clock), not clock


def _clock_minutes(text: str) -> int:
    hours, _, rest = text.partition(":")
    return int(hours) * 60 + int(rest) if text else 0


def _known_zone(name: str) -> str:
    import zoneinfo  # noqa: PLC0415 - few configurations have a freeze

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        if name != "UTC":
            raise MistakeError(
                "HF-CONF-24",
                f"is `{name}`, a time zone that is not installed on this machine",
                hint=did_you_mean(name, zoneinfo.available_timezones())
                or "Write it as `Europe/Berlin`; a machine without time zones needs the package tzdata.",
            ) from None
    return name


# Keys

_BUDGET: Final = Text(
    "a number, a share such as `10%`, or `any`", r"any|[0-9]{1,6}|(?:100|[1-9]?[0-9])%", convert=Budget.parse
)
_MOMENT: Final = Text(
    "a time such as `fri 16:00`, `fri`, `2026-12-19 18:00`, `2026-12-19` or `22:00`",
    rf"(?:{_DAY_PATTERN})(?: {_CLOCK_PATTERN})?|{_CLOCK_PATTERN}",
    numbers=False,
)

TIME_ZONE: Final = Text(
    "a time zone such as `Europe/Berlin` or `UTC`",
    r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*",
    max_length=100,
    convert=_known_zone,
)


def _effect(doc: str, *, production: str | None = None, implied: str | None = None) -> Any:
    default_doc = None if production is None else f"`{production}` in production, else `warn`"
    return key(Choice(tuple(Effect)), doc, implied=implied, default_doc=default_doc)


class FreezeKeys(Section, frozen=True, kw_only=True):
    """Read as a Freeze."""

    from_: str = key(
        _MOMENT,
        "When it starts: `fri 16:00`, `fri`, `22:00`, `2026-12-19 18:00` or `2026-12-19`.",
        path="from",
        required=True,
    )
    to: str = key(
        _MOMENT, "When it ends, written in the same way; a day without a time is included.", required=True
    )
    zone: str = key(
        TIME_ZONE,
        "The time zone: `Europe/Berlin`, `UTC`.",
        required=True,
    )
    why: str | None = key(Text(max_length=200), "The reason, for messages.")
    effect: Effect = key(
        Choice((Effect.APPROVE, Effect.DENY)),
        "`approve`: an apply during the freeze needs an approval. `deny`: it needs an override.",
        default=Effect.APPROVE,
    )

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        first, last = section.get("from"), section.get("to")
        if first is None or last is None:
            return
        try:
            freeze_minutes(first, last)
        except MistakeError as mistake:
            place = section.value["to"].place
            problems.add(mistake.code, f"{section.where} {mistake}", place=place, hint=mistake.hint)

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> Freeze:
        first, last = values.pop("from_"), values.pop("to")
        start, end, every = freeze_minutes(first, last)
        text = f"{first} to {last}" if every != _DAY else f"{first} to {last} every day"
        return Freeze(start=start, end=end, every=every, text=text, **values)


_COUNT: Final = Integer(0, 10)


GROUP: Final = Text("the name of a group", r"[^\x00-\x1f\x7f]+", max_length=100)
APPROVING_ROLES: Final = ("approver", "admin")


class RequiredApprovals(Section, frozen=True, kw_only=True):
    count: int = key(_COUNT, "How many approvals: 0 to 10.", required=True)
    verified: bool = key(
        Flag(),
        "Count only approvals by [verified](guard.md#who-counts-as-an-approver) identities, also those that "
        "another rule requires.",
        default=False,
    )
    role: str | None = key(
        Choice(APPROVING_ROLES),
        "Count only approvals with a [token](server-tokens.md) of this role.",
        default=None,
    )
    group: str | None = key(
        GROUP, "Count only approvals of members of this [group](server-tokens.md#groups).", default=None
    )

    @property
    def limited(self) -> bool:
        """Only a server knows roles and groups, and it verifies who approves."""
        return self.role is not None or self.group is not None

    def text(self, number: int, one: str | None = None) -> str:
        """`a verified approval`, `2 approvals of the group dba`. `one`: instead of the article."""
        kind = "verified approval" if self.verified and not self.limited else "approval"
        article = one or ("a" if kind.startswith("verified") else "an")
        text = f"{article} {kind}" if number == 1 else f"{number} {kind}s"
        text += f" of the group {self.group}" if self.group is not None else ""
        return text + (f" with the role {self.role}" if self.role is not None else "")


_APPROVALS: Final = ScalarOrMapping(
    _COUNT, RequiredApprovals, from_scalar=lambda count: RequiredApprovals(count=count)
)


class GuardRules(Section, frozen=True, kw_only=True):
    """None: not set here. Lists are added to those set elsewhere; every other value replaces them."""

    groups: ClassVar[Mapping[str, str]] = {
        "deletions": "How many resources may be deleted, replaced or forgotten.",
        "protect": "Resources that no budget covers.",
    }

    per_stack: Budget | None = key(
        _BUDGET,
        "In one stack: a number, a share such as `10%` of its resources, or `any`. For production, set it in "
        "`guard.environments`.",
        default_doc="`0` in production, else `any`",
        path="deletions.per_stack",
    )
    per_change: Budget | None = key(
        _BUDGET, "In all stacks of one change together.", implied="any", path="deletions.per_change"
    )
    addresses: tuple[str, ...] = key(
        ListOf(
            Text(
                "an address such as `module.db` or `aws_db_instance.main`, with up to eight `*`",
                MAX_EIGHT_STARS + r"[A-Za-z_*][^\x00-\x1f]*",
            )
        ),
        "A list of addresses that are never deleted, replaced or forgotten, in any environment; `*` matches "
        "any text.",
        path="protect.addresses",
    )
    types: tuple[str, ...] = key(
        ListOf(Text("a type such as `lab_object`, with up to eight `*`", TYPE_GLOB)),
        "A list of types to protect in production, in addition to the built-in list; `*` matches any text.",
        path="protect.types",
    )
    tags: tuple[tuple[str, tuple[str, ...]], ...] = key(
        Names(
            ListOf(Text("the value of a tag, or `*`", flags=True), single=True),
            r"[^\x00-\x1f]{1,256}",
            "the name of a tag",
            entry=lambda name, values, _place: (name, values),
        ),
        "A mapping of tags or labels to a value or a list of values: resources with one of them are "
        "protected in any environment; `*` matches any text.",
        path="protect.tags",
    )
    except_types: tuple[str, ...] = key(
        ListOf(Text("a type such as `aws_eip`", r"[A-Za-z_][A-Za-z0-9_-]*", max_length=200)),
        "A list of built-in types that are not protected in this environment.",
        path="protect.except_types",
    )
    removed_outputs: Effect | None = _effect(
        "When a plan removes an output that other stacks read: `allow`, `warn`, `approve` or `deny`.",
        production="deny",
    )
    actions: Effect | None = _effect("When a plan invokes actions of providers.", production="approve")
    provisioners: Effect | None = _effect("When a plan can run provisioners.", production="approve")
    destroy: Effect | None = _effect("When a plan deletes every resource of a stack.", production="deny")
    target: Effect | None = _effect("When a plan covers only a part of the stack.", production="approve")
    policies: Effect | None = _effect(
        "When a [Rego policy](policies.md) denies a plan with changes, or cannot be evaluated.",
        implied="deny",
    )
    findings: Effect | None = _effect(
        "When the [checks](checks.md) find errors in a stack whose plan has changes; `allow` and `warn` only "
        "show them.",
        implied="warn",
    )
    max_changes: int | None = key(Integer(0, 1_000_000), "How many resources may change without an approval.")
    approvals: RequiredApprovals | tuple[RequiredApprovals, ...] | None = key(
        ScalarOrMapping(ListOf(_APPROVALS, single=True), RequiredApprovals),
        "How many approvals every plan with changes needs: 0 to 10, a mapping, or a list of both: then all "
        "must be met.",
        implied=0,
    )
    freeze: tuple[Freeze, ...] = key(
        ListOf(FreezeKeys), "A list of periods in which an apply needs an approval or an override."
    )


class GuardSettings(Struct, frozen=True, kw_only=True):
    rules: GuardRules = GuardRules()
    environments: Mapping[str, GuardRules] = MappingProxyType({})


class GuardKeys(GuardRules, frozen=True, kw_only=True):
    """Read as GuardSettings."""

    except_types: tuple[str, ...] = ()
    environments: Mapping[str, GuardRules] = key(
        named(GuardRules),
        "A mapping of environments to their own rules. Each takes the keys of `guard`; values replace those "
        "of `guard`, lists are added.",
    )

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> GuardSettings:
        environments = values.pop("environments", MappingProxyType({}))
        return GuardSettings(rules=GuardRules(**values), environments=environments)
