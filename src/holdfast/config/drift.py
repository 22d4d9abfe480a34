"""`drift`: when reality is compared with the states, what is ignored, and what may be healed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, Final

from holdfast.config.declarations import At, ListOf, Section, key
from holdfast.config.guard import TIME_ZONE, freeze_minutes
from holdfast.config.problems import Problems
from holdfast.config.shapes import (
    MAX_EIGHT_STARS,
    TYPE_GLOB,
    Choice,
    Duration,
    Integer,
    MistakeError,
    Number,
    Text,
)


def _schedule(text: str) -> str:
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - few configurations have a schedule

    try:
        CronSim(text, _SOME_DAY)
    except CronSimError as error:
        raise MistakeError(
            "HF-CONF-33",
            f"is `{text}`, which is not a cron expression ({error})",
            hint='Write minute, hour, day, month and day of the week: "0 3 * * *".',
        ) from None
    return text


_SOME_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise MistakeError("HF-CONF-33", f"names a date that does not exist: no day `{text}`") from None


def _day_key(doc: str, **options: Any) -> Any:
    shape = Text("a date such as `2027-01-01`", r"[0-9]{4}-[0-9]{2}-[0-9]{2}", numbers=False, convert=_day)
    return key(shape, doc, **options)


_ADDRESS: Final = Text(
    "an address such as `aws_instance.web`, with up to eight `*`",
    MAX_EIGHT_STARS + r"[A-Za-z_*][^\x00-\x1f]*",
)
_ATTRIBUTE: Final = Text(
    "the path of an attribute such as `tags.owner`, with up to eight `*`",
    MAX_EIGHT_STARS + r"[A-Za-z0-9_*][^\x00-\x1f]*",
)
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME: Final = Text(
    "a time such as `fri 16:00`, `fri` or `22:00`",
    rf"(?:mon|tue|wed|thu|fri|sat|sun)(?: {_CLOCK})?|{_CLOCK}",
    numbers=False,
)
_STACKS: Final = ListOf(Text(), single=True)
_TYPE: Final = Text("a type of resources such as `aws_security_group` or `aws_*`", TYPE_GLOB)
_TYPES: Final = ListOf(_TYPE, single=True)


class IgnoreRule(Section, frozen=True, kw_only=True):
    """What matches every given key is no finding, until the rule ends."""

    address: str = key(_ADDRESS, "The address of a resource; `*` matches any text.", default="*")
    attribute: str | None = key(
        _ATTRIBUTE, "An attribute of it: `desired_capacity`, `tags.*`. Absent: all, and its deletion."
    )
    tags: tuple[str, ...] = key(
        ListOf(_ATTRIBUTE, single=True),
        "Keys of tags and labels, such as `aws:autoscaling:*`: only these of `tags`, `tags_all` and `labels` "
        "match.",
    )
    tolerance: float | None = key(
        Number(0, 1_000_000_000), "Only numbers that differ by at most this much match."
    )
    stacks: tuple[str, ...] = key(
        _STACKS, "Stacks: names, globs and filters as on the command line.", default_doc="all"
    )
    owner: str = key(Text(max_length=200), "Who answers for the rule.", required=True)
    until: date = _day_key(
        "The last day on which it ignores anything: `2027-01-01`. Then its drift is reported again.",
        required=True,
    )
    why: str | None = key(Text(max_length=200), "The reason, for reports.")

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if not {"address", "attribute", "tags"} & section.value.keys():
            problems.add(
                "HF-CONF-5",
                f"{section.where} would ignore every drift: it has none of `address`, `attribute` and `tags`",
                place=section.place,
                hint='Name what is ignored: address: "aws_autoscaling_group.*"',
            )


class HealAction(StrEnum):
    """What healing does to a resource. It never deletes or replaces."""

    UPDATE = "update"
    CREATE = "create"


class HealRule(Section, frozen=True, kw_only=True):
    """Drift that matches every key may be undone by an apply."""

    environments: tuple[str, ...] = key(_STACKS, "The environments: names or globs.", required=True)
    types: tuple[str, ...] = key(_TYPES, "Types of resources: `aws_security_group`.", required=True)
    attributes: tuple[str, ...] = key(
        ListOf(_ATTRIBUTE, single=True), "Only these attributes.", default_doc="all"
    )
    actions: tuple[HealAction, ...] = key(
        ListOf(Choice(tuple(HealAction)), single=True),
        "`update`: changed attributes are set back. `create`: deleted resources are created again.",
        default_doc="`update`",
    )
    from_: str | None = key(
        _TIME,
        "Only from this time, of each day or week: `08:00`, `mon 08:00`.",
        path="from",
        default_doc="at any time",
    )
    to: str | None = key(
        _TIME,
        "Until this time.",
    )
    budget: int = key(Integer(1, 1000), "At most this many resources per stack in 24 hours.", default=1)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        first, last = section.get("from"), section.get("to")
        if (first is None) != (last is None):
            problems.add(
                "HF-CONF-5", f"{section.where} needs both `from` and `to`, or neither", place=section.place
            )
        elif first is not None:
            try:
                freeze_minutes(first, last)
            except MistakeError as mistake:
                place = section.value["to"].place
                problems.add(mistake.code, f"{section.where} {mistake}", place=place, hint=mistake.hint)

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> HealRule:
        values["actions"] = values.get("actions") or (HealAction.UPDATE,)
        return cls(**values)

    @property
    def text(self) -> str:
        when = f", {self.from_} to {self.to}" if self.from_ else ""
        return f"{', '.join(self.types)} in {', '.join(self.environments)}{when}"


class AuditTrail(StrEnum):
    CLOUDTRAIL = "cloudtrail"


class NotRead(Section, frozen=True, kw_only=True):
    """What a provider keeps from the state and never asks its service for."""

    type: str = key(_TYPE, "The type of the resources.", required=True)
    attributes: tuple[str, ...] = key(
        ListOf(_ATTRIBUTE, single=True), "The paths of its attributes.", default_doc="all of the resource"
    )
    why: str | None = key(Text(max_length=200), "The reason, for reports.")


class DriftSettings(Section, frozen=True, kw_only=True):
    schedule: str | None = key(
        Text("a cron expression such as `0 3 * * *`", numbers=False, max_length=200, convert=_schedule),
        "When a server looks for drift, as a cron expression: `0 3 * * *`.",
        default_doc="never: only `holdfast drift` looks",
    )
    zone: str = key(TIME_ZONE, "The time zone of `schedule` and of `heal`: `Europe/Berlin`.", default="UTC")
    spread: float = key(
        Duration(0, 86400),
        "A server spreads the stacks over this time after each moment of the schedule.",
        default="30m",
    )
    audit_trail: AuditTrail | None = key(
        Choice(tuple(AuditTrail)),
        "`cloudtrail`: ask AWS who changed a resource that drifted, with the credentials of the stack, which "
        "need `cloudtrail:LookupEvents`.",
        default=None,
    )
    ignore: tuple[IgnoreRule, ...] = key(
        ListOf(IgnoreRule), "Rules for drift that is expected. Each has an owner and an end."
    )
    heal: tuple[HealRule, ...] = key(
        ListOf(HealRule), "Rules for drift that `holdfast drift --heal` and a server may undo."
    )
    not_read: tuple[NotRead, ...] = key(
        ListOf(NotRead),
        "More attributes that a provider never reads back: they are reported as not looked at.",
    )
