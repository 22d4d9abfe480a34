"""Every kind of channel."""

from __future__ import annotations

from typing import Final

from holdfast.config.notify import NotifySettings
from holdfast.notify.channels.console import CONSOLE
from holdfast.notify.channels.email import EMAIL
from holdfast.notify.channels.github import GITHUB
from holdfast.notify.channels.interface import ChannelKind
from holdfast.notify.channels.opsgenie import JIRA, OPSGENIE
from holdfast.notify.channels.pagerduty import PAGERDUTY
from holdfast.notify.channels.slack import SLACK
from holdfast.notify.channels.teams import TEAMS
from holdfast.notify.channels.webhook import WEBHOOK

CHANNELS: Final[tuple[ChannelKind, ...]] = (
    SLACK, TEAMS, OPSGENIE, JIRA, PAGERDUTY, EMAIL, WEBHOOK, GITHUB, CONSOLE,
)  # fmt: skip


def kind_named(name: str) -> ChannelKind:
    return next(kind for kind in CHANNELS if kind.name == name)


def changing_channels(settings: NotifySettings) -> frozenset[str]:
    """Those that change their messages."""
    return frozenset(
        entry.name for entry in settings.channels if kind_named(entry.kind).in_place(entry.settings)
    )
