"""`notify`: who hears of what, and where. The same keys in holdfast.yaml and server.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from holdfast.config.declarations import At, ListOf, Section, key, named
from holdfast.config.guard import TIME_ZONE, Freeze, freeze_minutes
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.secret_refs import SecretRef
from holdfast.config.shapes import NAME, Choice, Flag, Integer, MistakeError, SecretOnly, Text

ALERT_KINDS: Final = (
    *("drift", "failed", "waiting", "break_glass", "unknown", "gate_failed", "budget_exceeded"),
    "channel_broken",
)
SEVERITIES: Final = ("info", "warning", "error", "critical")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY: Final = 24 * 60
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME: Final = Text("a time such as `08:00`", _CLOCK, numbers=False)
_WRONG: Final = "HF-CONF-5"
_LOCAL: Final = r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?"
_ADDRESS: Final = rf"(?:https://[A-Za-z0-9.-]+(?::[0-9]{{1,5}})?|{_LOCAL})(?:/[A-Za-z0-9._~/-]*)?"
_URL: Final = Text("an https:// address", _ADDRESS, numbers=False)
_WEBHOOK_URL: Final = Text("an https:// address", rf"{_ADDRESS}(?:\?[^\s#]*)?", numbers=False, secret=True)
_MAIL: Final = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_PATTERNS: Final = ListOf(Text(), single=True)


class SlackSettings(Section, frozen=True, kw_only=True):
    """An incoming webhook, or a bot."""

    schema_rules: ClassVar[Mapping[str, Any]] = {
        "oneOf": [{"required": ["webhook"]}, {"required": ["token", "channel"]}]
    }
    webhook: SecretRef | None = key(SecretOnly(), "The address of an incoming webhook: a secret reference.")
    token: SecretRef | None = key(SecretOnly(), "The token of a bot (`xoxb-…`): a secret reference.")
    channel: str | None = key(
        Text("the id of a channel", r"[CGD][A-Z0-9]{2,30}"), "Of a bot: the id of its channel, `C0123456789`."
    )
    url: str = key(_URL, "Of a bot: the address of Slack's API.", default="https://slack.com/api")

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        given = set(section.value)
        if ("webhook" in given) == ("token" in given) or ("token" in given) != ("channel" in given):
            problems.add(
                _WRONG,
                f"{section.where} needs `webhook`, or `token` and `channel`",
                place=section.place,
                hint="A bot updates its messages; an incoming webhook cannot.",
            )


class TeamsSettings(Section, frozen=True, kw_only=True):
    webhook: SecretRef = key(
        SecretOnly(), "The address of a workflow's webhook: a secret reference.", required=True
    )


class OpsgenieSettings(Section, frozen=True, kw_only=True):
    key_: SecretRef = key(
        SecretOnly(), "The key of an API integration: a secret reference.", path="key", required=True
    )
    url: str = key(
        _URL,
        "The address of the API; accounts in Europe have `https://api.eu.opsgenie.com`.",
        default="https://api.opsgenie.com",
    )
    tags: tuple[str, ...] = key(ListOf(Text(max_length=50), single=True), "More tags of each alert.")


class JiraSettings(OpsgenieSettings, frozen=True, kw_only=True):
    url: str = key(
        _URL,
        "The address of the API.",
        default="https://api.atlassian.com/jsm/ops/integration",
    )


class PagerDutySettings(Section, frozen=True, kw_only=True):
    routing_key: SecretRef = key(
        SecretOnly(), "The integration key of the service: a secret reference.", required=True
    )
    url: str = key(
        _URL,
        "The address of the Events API; accounts in Europe have `https://events.eu.pagerduty.com`.",
        default="https://events.pagerduty.com",
    )


class EmailSettings(Section, frozen=True, kw_only=True):
    host: str = key(
        Text("the name of a host", r"[A-Za-z0-9.:-]+"), "The name of the SMTP server.", required=True
    )
    port: int = key(Integer(1, 65535), "Its port.", default_doc="587, or 465 with `tls: on`")
    tls: str = key(
        Choice(("starttls", "on")),
        "`starttls`: TLS begins on the open connection. `on`: from the start. There is no third way.",
        default="starttls",
    )
    user: str | None = key(Text(max_length=320), "The user, if the server wants one.")
    password: SecretRef | None = key(SecretOnly(), "The password: a secret reference.")
    from_: str = key(Text("an address", _MAIL), "The address of the sender.", path="from", required=True)
    to: tuple[str, ...] = key(
        ListOf(Text("an address", _MAIL), single=True), "An address, or a list of them.", required=True
    )

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if section.get("to") == ():
            problems.add(_WRONG, f"{section.where}.to is empty", place=section.place)
        if ("user" in section.value) != ("password" in section.value):
            problems.add(_WRONG, f"{section.where} needs both `user` and `password`", place=section.place)

    @classmethod
    def from_keys(cls, values: dict[str, Any]) -> EmailSettings:
        values["port"] = values.get("port") or (465 if values.get("tls") == "on" else 587)
        return cls(**values)


class WebhookSettings(Section, frozen=True, kw_only=True):
    url: str | SecretRef = key(
        _WEBHOOK_URL, "Where it is sent: an address or a secret reference.", required=True
    )
    secret_key: SecretRef = key(
        SecretOnly(), "What it is signed with (`whsec_…`): a secret reference.", path="key", required=True
    )


class GithubSettings(Section, frozen=True, kw_only=True):
    repository: str = key(
        Text("OWNER/NAME", r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}"),
        "The repository of the issues: `acme/infra`.",
        required=True,
    )
    token: SecretRef = key(SecretOnly(), "A token that may write issues: a secret reference.", required=True)
    labels: tuple[str, ...] = key(ListOf(Text(max_length=50), single=True), "Labels of new issues.")
    url: str = key(_URL, "The address of the API.", default="https://api.github.com")


ChannelSettings = (
    SlackSettings
    | TeamsSettings
    | OpsgenieSettings
    | JiraSettings
    | PagerDutySettings
    | EmailSettings
    | WebhookSettings
    | GithubSettings
)


class ChannelEntry(Section, frozen=True, kw_only=True):
    """Exactly one kind."""

    name: str
    slack: SlackSettings | None = key(SlackSettings, "Slack.", default=None)
    teams: TeamsSettings | None = key(TeamsSettings, "Microsoft Teams, through a workflow.", default=None)
    opsgenie: OpsgenieSettings | None = key(OpsgenieSettings, "Opsgenie.", default=None)
    jira: JiraSettings | None = key(JiraSettings, "Jira Service Management.", default=None)
    pagerduty: PagerDutySettings | None = key(PagerDutySettings, "PagerDuty, Events API v2.", default=None)
    email: EmailSettings | None = key(EmailSettings, "E-mail.", default=None)
    webhook: WebhookSettings | None = key(
        WebhookSettings, "A webhook, signed by the Standard Webhooks specification.", default=None
    )
    github: GithubSettings | None = key(GithubSettings, "Issues on GitHub.", default=None)
    console: bool = key(
        Flag(), "`true`: the standard error of the command, or the log of the server.", default=False
    )
    per_minute: int = key(Integer(1, 600), "At most so many messages in a minute.", default=20)

    @property
    def kind(self) -> str:
        return next(name for name in KINDS if getattr(self, name))

    @property
    def settings(self) -> ChannelSettings | None:
        """None: the console has none."""
        return None if self.console else getattr(self, self.kind)

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        given = [name for name in KINDS if name in section.value and section.get(name, True) is not False]
        if len(given) != 1:
            problems.add(
                _WRONG, f"{section.where} needs exactly one of {', '.join(KINDS)}", place=section.place
            )


KINDS: Final = ("slack", "teams", "opsgenie", "jira", "pagerduty", "email", "webhook", "github", "console")


class HoursKeys(Section, frozen=True, kw_only=True):
    """Read as spans of local time: one for each day, as a freeze has them."""

    from_: str = key(_TIME, "When they begin: `08:00`.", path="from", required=True)
    to: str = key(
        _TIME, "When they end: `18:00`. Before the beginning, it is on the next day.", required=True
    )
    days: tuple[str, ...] = key(
        ListOf(Choice(_DAYS), single=True),
        "On which days they begin: `[mon, tue, wed, thu, fri]`.",
        default_doc="every day",
    )
    zone: str = key(
        TIME_ZONE,
        "The time zone: `Europe/Berlin`, `UTC`.",
        required=True,
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
    def from_keys(cls, values: dict[str, Any]) -> tuple[Freeze, ...]:
        start, end, every = freeze_minutes(values["from_"], values["to"])
        text = f"{values['from_']} to {values['to']}"
        if not (days := values.get("days")):
            return (Freeze(start=start, end=end, every=every, zone=values["zone"], text=text),)
        shifts = [_DAYS.index(day) * _DAY for day in days]
        return tuple(
            Freeze(start=start + shift, end=end + shift, every=7 * _DAY, zone=values["zone"], text=text)
            for shift in shifts
        )


class Route(Section, frozen=True, kw_only=True):
    name: str | None = key(NAME, "A name for `holdfast notify test`.", path="name")
    what: tuple[str, ...] = key(
        ListOf(Choice(ALERT_KINDS), single=True),
        "A list of what it is for: [what alerts there are](notifications.md#what-you-hear-of).",
        default_doc="everything",
    )
    channel: str = key(NAME, "The name of its channel in `channels`.", required=True)
    environments: tuple[str, ...] = key(
        _PATTERNS, "Only these environments, as names or globs.", default_doc="all"
    )
    targets: tuple[str, ...] = key(_PATTERNS, "Only these targets, as names or globs.", default_doc="all")
    severity: str = key(Choice(SEVERITIES), "Only alerts that are at least so severe.", default="info")
    hours: tuple[Freeze, ...] = key(
        HoursKeys,
        "Begin only in these hours. What begins outside of them and is still open then is sent when they "
        "begin.",
        default=(),
        default_doc="always",
    )
    tenants: tuple[str, ...] = key(
        _PATTERNS, "In `server.yaml`: only these tenants, as names or globs.", default_doc="all"
    )


class NotifySettings(Section, frozen=True, kw_only=True):
    channels: tuple[ChannelEntry, ...] = key(
        named(ChannelEntry, entry=lambda _name, channel, _place: channel),
        "A mapping of names to channels. Each has exactly one kind.",
    )
    routes: tuple[Route, ...] = key(ListOf(Route), "A list: what is sent to which channel.")

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        known = tuple(section.get("channels", {}))
        for route in section.get("routes", ()):
            name = route.get("channel")
            if name is not None and name not in known:
                problems.add(
                    _WRONG,
                    f"{route.where} names the channel `{name}`, which is not in `channels`",
                    place=route.place,
                    hint=did_you_mean(name, known) or f"Add it: channels: {{ {name}: … }}",
                )
