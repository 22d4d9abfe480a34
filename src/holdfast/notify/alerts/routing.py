"""Which channels an alert goes to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from holdfast.config.guard import Freeze
from holdfast.config.notify import SEVERITIES, NotifySettings, Route
from holdfast.guard.freeze_rules import UnknownZoneError, frozen_until
from holdfast.notify.alerts.alert import Alert, AlertKind

_QUIET: Final = 600.0


class ChannelRules(Struct, frozen=True, kw_only=True):
    per_minute: int = 20
    between_updates: float = _QUIET
    """Seconds between two messages about one issue that goes on. 0: the channel changes its message."""


class Rules(Struct, frozen=True, kw_only=True):
    channels: Mapping[str, ChannelRules]
    routes: tuple[Route, ...]


def rules_from_settings(settings: NotifySettings, in_place: Collection[str]) -> Rules:
    """`in_place`: the channels that change their messages."""
    return Rules(
        channels={
            entry.name: ChannelRules(
                per_minute=entry.per_minute, between_updates=0.0 if entry.name in in_place else _QUIET
            )
            for entry in settings.channels
        },
        routes=settings.routes,
    )


def wants(route: Route, alert: Alert) -> bool:
    """Whatever the time is."""
    return (
        (not route.what or alert.kind.value in route.what)
        and SEVERITIES.index(alert.severity) >= SEVERITIES.index(route.severity)
        and _fits(route.environments, alert.environment)
        and _fits(route.targets, alert.target)
        and _fits(route.tenants, alert.tenant)
    )


def _fits(patterns: tuple[str, ...], value: str | None) -> bool:
    """What an alert does not say fits: rather once too often than never."""
    return not patterns or value is None or any(fnmatchcase(value, pattern) for pattern in patterns)


def is_in(hours: tuple[Freeze, ...], now: datetime) -> bool:
    """A time zone that this machine does not know silences nothing."""
    try:
        return not hours or any(frozen_until(span, now) is not None for span in hours)
    except UnknownZoneError:
        return True


def channels_for(alert: Alert, rules: Rules, now: datetime) -> tuple[str, ...]:
    """Where a new alert is sent now, each channel once.

    That a channel is broken goes to the others: to those of a route that asks for it, or else to all.
    """
    routes = [route for route in rules.routes if route.channel in rules.channels]
    if alert.kind is AlertKind.CHANNEL_BROKEN:
        routes = [route for route in routes if broken_key(route.channel) != alert.key]
        asking = [route for route in routes if alert.kind.value in route.what]
        routes = asking or [route for route in routes if not route.what or _fits(route.tenants, alert.tenant)]
    else:
        routes = [route for route in routes if wants(route, alert)]
    return tuple(dict.fromkeys(route.channel for route in routes if is_in(route.hours, now)))


def is_wanted(alert: Alert, rules: Rules) -> bool:
    """Whether it is sent anywhere, now or later."""
    if alert.kind is AlertKind.CHANNEL_BROKEN:
        return any(broken_key(name) != alert.key for name in rules.channels)
    return any(wants(route, alert) for route in rules.routes)


def routes_named(settings: NotifySettings, name: str, tenant: str | None = None) -> tuple[Route, ...]:
    """By their name, that of their channel, or a number, from 1; on a server only those for this tenant."""
    routes = tuple(route for route in settings.routes if _fits(route.tenants, tenant))
    if found := tuple(route for route in routes if name in {route.name, route.channel}):
        return found
    return routes[int(name) - 1 :][:1] if name.isdecimal() and int(name) else ()


def broken_key(channel: str) -> str:
    return f"channel:{channel}"
