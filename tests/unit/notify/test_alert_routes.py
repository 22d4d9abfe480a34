"""Which alerts go where, when, how many together and how fast."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from alerts_made import START, MadeOutbox, made_alert, settings_of

from holdfast.config.guard import Freeze
from holdfast.config.notify import ALERT_KINDS, SEVERITIES
from holdfast.kernel.errors import ConfigError
from holdfast.notify.alerts.alert import AlertKind, Severity
from holdfast.notify.alerts.routing import channels_for, is_in, routes_named, rules_from_settings

LOG = "channels: { log: { console: true } }"


def routed(routes: str, now: datetime = START, **given: Any) -> tuple[str, ...]:
    channels = "channels: { log: { console: true }, other: { console: true } }"
    rules = rules_from_settings(settings_of(f"{{ {channels}, routes: {routes} }}"), ())
    return channels_for(made_alert(**given), rules, now)


def hours_of(hours: str) -> tuple[Freeze, ...]:
    return settings_of(f"{{ {LOG}, routes: [ {{ channel: log, hours: {{ {hours} }} }} ] }}").routes[0].hours


def test_the_configuration_knows_every_kind_and_severity() -> None:
    assert set(ALERT_KINDS) == set(AlertKind)
    assert list(SEVERITIES) == list(Severity)


@pytest.mark.parametrize(
    ("route", "given", "told"),
    [
        ("{ channel: log }", {}, True),
        ("{ channel: log, what: [drift] }", {}, False),
        ("{ channel: log, what: drift }", {"kind": AlertKind.DRIFT}, True),
        ("{ channel: log, environments: [prod] }", {}, True),
        ("{ channel: log, environments: ['dev*'] }", {}, False),
        ("{ channel: log, environments: [prod] }", {"environment": None}, True),
        ("{ channel: log, targets: [a*] }", {}, True),
        ("{ channel: log, targets: [azure] }", {}, False),
        ("{ channel: log, severity: critical }", {}, False),
        ("{ channel: log, severity: warning }", {}, True),
        ("{ channel: log, tenants: [acme] }", {"tenant": "other"}, False),
        ("{ channel: log, tenants: [acme] }", {"tenant": "acme"}, True),
    ],
)
def test_all_filters_of_a_route_must_fit(route: str, given: dict[str, Any], *, told: bool) -> None:
    assert routed(f"[ {route} ]", **given) == (("log",) if told else ())


def test_two_routes_to_one_channel_tell_once() -> None:
    assert routed("[ { channel: log }, { channel: log, what: [failed] } ]") == ("log",)


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ("2026-03-02T07:00:00+01:00", True),
        ("2026-03-02T06:59:00+01:00", False),
        ("2026-03-02T18:59:00+01:00", True),
        ("2026-03-02T19:00:00+01:00", False),
        ("2026-03-01T12:00:00+01:00", False),  # A Sunday.
        ("2026-03-30T05:00:00+00:00", True),  # Summer time began: 7:00 is an hour earlier in UTC.
        ("2026-03-27T05:30:00+00:00", False),
    ],
)
def test_hours_are_local_time_and_days_are_those_on_which_they_begin(moment: str, *, inside: bool) -> None:
    hours = hours_of("from: '07:00', to: '19:00', days: [mon, tue, wed, thu, fri], zone: Europe/Berlin")
    assert is_in(hours, datetime.fromisoformat(moment)) is inside


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ("2026-10-24T22:30:00+00:00", False),  # 0:30 in Berlin.
        ("2026-10-25T00:30:00+00:00", True),  # 2:30, the first time.
        ("2026-10-25T01:30:00+00:00", True),  # 2:30 again.
        ("2026-10-25T02:00:00+00:00", False),  # 3:00.
        ("2026-03-28T23:59:00+00:00", False),  # 0:59 in a night in which 2:30 does not occur.
        ("2026-03-29T00:59:00+00:00", True),  # 1:59.
        ("2026-03-29T02:00:00+00:00", False),  # 4:00.
    ],
)
def test_hours_never_get_shorter_when_clocks_change(moment: str, *, inside: bool) -> None:
    hours = hours_of("from: '02:00', to: '03:00', zone: Europe/Berlin")
    assert is_in(hours, datetime.fromisoformat(moment)) is inside


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin() -> None:
    hours = hours_of("from: '22:00', to: '06:00', days: [fri], zone: UTC")
    assert is_in(hours, datetime(2026, 3, 7, 5, 59, tzinfo=UTC))  # Saturday.
    assert not is_in(hours, datetime(2026, 3, 6, 5, 59, tzinfo=UTC))


def test_what_begins_outside_of_the_hours_is_told_when_they_begin() -> None:
    """If it is open then; its end is told at any time."""
    made = MadeOutbox(
        f"{{ {LOG}, routes: [ {{ channel: log, hours: {{ from: '12:00', to: '13:00', zone: UTC }} }} ] }}"
    )
    made.raise_(made_alert("prod/long"), made_alert("prod/short"))
    next_ = made.deliver()
    assert next_ is not None
    assert next_ <= START + timedelta(minutes=1)
    made.raise_(made_alert("prod/short", resolved=True))
    made.deliver(2 * 3600)
    assert [line for line in made.lines if "error" in line] == [
        "error: prod/long: the apply failed (since 2026-03-02 10:00 UTC)"
    ]
    made.raise_(made_alert("prod/long", resolved=True))
    made.deliver(5 * 3600)
    assert "Resolved: prod/long" in "\n".join(made.lines)


def test_what_is_over_before_it_could_be_told_is_not_told_except_acts() -> None:
    made = MadeOutbox(f"{{ {LOG}, routes: [ {{ channel: log }} ] }}")
    made.raise_(made_alert(), made_alert(resolved=True))
    act = {"kind": AlertKind.BREAK_GLASS, "key": "break_glass:a", "title": "a: break-glass, unlock by ada"}
    made.raise_(made_alert("a", **act), made_alert("a", **act, resolved=True))
    made.deliver()
    (line,) = [line for line in made.lines if not line.startswith(" ")]
    assert line.startswith("error: Resolved: a: break-glass, unlock by ada (since 2026-03-02 10:00 UTC")


def test_many_that_begin_together_are_one_message_that_goes_on() -> None:
    """200 failures are one message; it lists them, says how many ended, and ends with the last one."""
    made = MadeOutbox(f"{{ {LOG}, routes: [ {{ channel: log }} ] }}")
    stacks = [f"prod/{number:03}" for number in range(200)]
    made.raise_(*map(made_alert, stacks))
    made.deliver()
    first = made.lines.copy()
    assert first[0] == "error: 200 runs failed (since 2026-03-02 10:00 UTC)"
    assert first[-3:] == [
        "  … 181 more lines",
        "  Next: holdfast runs log 01JD",
        "  https://ci.example/runs/1",
    ]
    made.raise_(*(made_alert(stack, resolved=True) for stack in stacks[:150]))
    made.raise_(made_alert("prod/late"))
    made.deliver(600)
    assert made.lines[len(first)] == "error: 201 runs failed, 150 resolved (since 2026-03-02 10:00 UTC)"
    made.raise_(*(made_alert(stack, resolved=True) for stack in [*stacks, "prod/late"]))
    made.deliver(1)
    assert sum(line.startswith("error: Resolved: 201 runs failed") for line in made.lines) == 1
    assert made.outbox.issues.keys() == {id_ for m in made.outbox.messages.values() for id_ in m.issues}


def test_the_first_ones_are_told_one_by_one_and_those_that_follow_join() -> None:
    made = MadeOutbox(f"{{ {LOG}, routes: [ {{ channel: log }} ] }}")
    for number in range(12):
        made.raise_(made_alert(f"prod/{number}"))
        made.deliver(1)
    begun = [line for line in made.lines if line.startswith("error")]
    assert len(begun) == 6
    assert len(made.outbox.messages) == 6
    assert len(next(m for m in made.outbox.messages.values() if m.group).issues) == 7


def test_a_channel_sends_no_more_in_a_minute_than_it_may() -> None:
    """What is left follows as soon as it may."""
    made = MadeOutbox("{ channels: { log: { console: true, per_minute: 2 } }, routes: [ { channel: log } ] }")
    for kind in (AlertKind.FAILED, AlertKind.UNKNOWN, AlertKind.WAITING, AlertKind.DRIFT):
        made.raise_(made_alert(kind=kind, key=str(kind)))
    next_ = made.deliver()
    assert sum(line.startswith("error") for line in made.lines) == 2
    assert next_ == START + timedelta(seconds=30)
    made.deliver(30)
    made.deliver(30)
    assert sum(line.startswith("error") for line in made.lines) == 4


def test_routes_are_found_by_name_channel_and_number() -> None:
    settings = settings_of(
        "{ channels: { a: { console: true }, b: { console: true } },"
        " routes: [ { channel: a, name: night }, { channel: b, tenants: [acme] } ] }"
    )
    assert [route.channel for route in routes_named(settings, "night")] == ["a"]
    assert [route.channel for route in routes_named(settings, "b")] == ["b"]
    assert [route.channel for route in routes_named(settings, "2")] == ["b"]
    assert routes_named(settings, "3") == routes_named(settings, "0") == ()
    assert routes_named(settings, "b", "other") == ()


@pytest.mark.parametrize(
    ("notify", "part"),
    [
        ("{ channels: { a: {} } }", "needs exactly one of slack"),
        ("{ channels: { a: { console: true, teams: { webhook: { secret: 'env:X' } } } } }", "exactly one"),
        ("{ channels: { a: { slack: { token: { secret: 'env:X' } } } } }", "needs `webhook`, or `token`"),
        ("{ channels: { a: { slack: { webhook: 'https://hooks' } } } }", "secret reference"),
        ("{ channels: { a: { console: true } }, routes: [ { channel: b } ] }", "not in `channels`"),
        ("{ channels: { a: { console: true } }, routes: [ { channel: a, what: [fail] } ] }", "fail"),
        (
            "{ channels: { a: { email: { host: h, from: a@b.c, to: [], user: u } } } }",
            "needs both `user` and `password`",
        ),
        (
            "{ channels: { a: { console: true } }, routes: [ { channel: a, hours: { from: '08:00', to: '08:00', zone: UTC } } ] }",  # noqa: E501 - one value
            "ends too early",
        ),
        (
            "{ channels: { a: { pagerduty: { routing_key: { secret: 'env:X' }, url: 'http://x' } } } }",
            "https",
        ),
    ],
)
def test_a_mistake_is_named_and_nothing_is_read(notify: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(notify)
    assert part in "\n".join(f"{problem.message} {problem.hint}" for problem in caught.value.problems)
