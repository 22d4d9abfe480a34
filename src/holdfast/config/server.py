"""The keys of server.yaml, the configuration of `holdfast serve`."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from holdfast.config import yaml
from holdfast.config.declarations import At, ListOf, Names, Section, key
from holdfast.config.guard import APPROVING_ROLES, GROUP
from holdfast.config.notify import NotifySettings
from holdfast.config.problems import Problems
from holdfast.config.read import decode, read_content
from holdfast.config.reader import Reader, build_fields
from holdfast.config.settings import BackupSettings
from holdfast.config.shapes import (
    WRONG_VALUE,
    Choice,
    Duration,
    FormatVersion,
    Integer,
    MistakeError,
    Size,
    Text,
)
from holdfast.kernel.errors import ConfigError

FILE_NAME: Final = "server.yaml"
DEFAULT_LISTEN: Final = "127.0.0.1:8420"
_ROLES: Final = ("viewer", "planner", "operator", "approver", "admin", "ci")
_HOST_AND_PORT: Final = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):\d{1,5}"
_ISSUER: Final = r"https://[^\s?#]+|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s?#]*)?"


def _network(text: str) -> str:
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise MistakeError(
            WRONG_VALUE, f"is `{text}`; it must be an address or a network such as 10.0.0.0/8"
        ) from None


class TlsFiles(Section, frozen=True, kw_only=True):
    certificate: str | None = key(
        Text("the path of a PEM file"), "The certificate with its chain, as a PEM file.", required=True
    )
    key_file: str | None = key(
        Text("the path of a PEM file"),
        "Its private key, as a PEM file that only the server's user can read.",
        path="key",
        required=True,
    )


class OidcRule(Section, frozen=True, kw_only=True):
    issuer: str = key(
        Text("an https:// address", _ISSUER),
        "The issuer, such as `https://token.actions.githubusercontent.com`.",
        required=True,
    )
    audience: str = key(Text(), "The audience that the token must have.", required=True)
    claims: Mapping[str, str] = key(
        Names(Text(flags=True), r"[A-Za-z0-9_./:-]+", "the name of a claim"),
        "Patterns for the token's claims; all must match. A pattern of `sub` without ids matches both "
        "formats of GitHub's subject.",
        required=True,
    )
    role: str = key(Choice(_ROLES), "The role of the new token.", default="ci")
    tenant: str = key(Text(), "Its tenant.", default="default")
    stacks: tuple[str, ...] = key(
        ListOf(Text(), single=True), "Patterns of stacks.", default_doc="those of `states`"
    )
    states: tuple[str, ...] = key(
        ListOf(Text(), single=True), "Patterns of states.", default_doc="those of `stacks`"
    )
    member_of: tuple[str, ...] = key(
        ListOf(GROUP, single=True), "[Groups](server-tokens.md#groups) of the new token.", path="groups"
    )
    groups_claim: str | None = key(
        Text("the name of a claim", r"[A-Za-z0-9_./:-]+"),
        "A claim that names more groups, as a text or a list.",
        default=None,
    )
    lifetime: float = key(
        Duration(minimum=60.0, maximum=86400.0), "How long the new token is valid.", default="1h"
    )

    @classmethod
    def check(cls, section: At, problems: Problems) -> None:
        if section.get("claims") == {}:
            problems.add(
                WRONG_VALUE,
                f"{section.where}.claims is empty",
                place=section.place,
                hint="An issuer serves everybody: name at least the repository, such as "
                "`repository: acme/infra`.",
            )


class ServerLimits(Section, frozen=True, kw_only=True):
    request_size: int = key(Size(), "The largest request of the API, apart from states.", default="4MB")
    state_size: int = key(Size(), "The largest state.", default="256MiB")
    upload_size: int = key(Size(), "The largest upload of code, compressed.", default="64MiB")
    receiving: int = key(Size(), "Memory for requests that are being received.", default="1GiB")
    request_time: float = key(
        Duration(maximum=3600.0), "How long the body of a request may take to arrive.", default="5m"
    )
    idle_time: float = key(
        Duration(maximum=3600.0), "How long a body may pause until its next part arrives.", default="30s"
    )
    header_time: float = key(
        Duration(maximum=3600.0),
        "How long a connection may take until the headers of a request are complete.",
        default="10s",
    )
    requests: int = key(Integer(1, 100_000), "Requests at the same time.", default=1000)
    failed_logins: int = key(Integer(1, 100_000), "Wrong tokens in a minute from one address.", default=20)
    exchanges: int = key(Integer(1, 100_000), "CI tokens exchanged in a minute per address.", default=120)


class ServerApprovals(Section, frozen=True, kw_only=True):
    tenant: str = key(Text(), "A pattern of tenants.", default="*")
    environments: tuple[str, ...] = key(
        ListOf(Text(), single=True),
        "Patterns of environments. A stack without an environment matches each of them.",
        default_doc="all",
    )
    stacks: tuple[str, ...] = key(ListOf(Text(), single=True), "Patterns of stacks.", default_doc="all")
    count: int = key(Integer(1, 10), "How many approvals: 1 to 10.", default=1)
    role: str | None = key(
        Choice(APPROVING_ROLES), "Count only approvals with a token of this role.", default=None
    )
    group: str | None = key(
        GROUP,
        "Count only approvals of members of this [group](server-tokens.md#groups).",
        default=None,
    )


class ServerRunSettings(Section, frozen=True, kw_only=True):
    limit: int | None = key(
        Integer(1, 100_000), "Changes that run at the same time, on all workers together.", default=None
    )
    per_environment: Mapping[str, int] = key(
        Names(Integer(1, 100_000), r"[^\x00-\x1f]+", "the name of an environment"),
        "The same for single environments, such as `prod: 1`.",
    )
    approval_lifetime: float = key(
        Duration(minimum=60.0),
        "How long an approval counts, if the plan is not applied before.",
        default="24h",
    )
    waiting_limit: float = key(
        Duration(minimum=60.0),
        "How long a plan waits for a decision. Then its change is cancelled.",
        default="7d",
    )


class EventLimits(Section, frozen=True, kw_only=True):
    per_client: int = key(
        Integer(1, 10_000_000), "Of one person or CI job, by the name of its tokens.", default=10_000
    )
    per_tenant: int = key(Integer(1, 10_000_000), "Of one tenant.", default=20_000)
    overall: int = key(Integer(1, 10_000_000), "Of all tenants.", default=50_000)


class FleetSettings(Section, frozen=True, kw_only=True):
    waiting: EventLimits = key(
        EventLimits,
        "How many [events](fleet.md) may be open: queued, running or waiting for an approval. More are "
        "refused with 429 and `Retry-After`.",
    )
    event_max_age: float = key(
        Duration(minimum=30 * 86400.0),
        "Older events are removed with their payloads, except open ones, and of each device that exists "
        "those that say what it has and had before.",
        default="90d",
    )
    drift_interval: float | None = key(
        Duration(minimum=60.0),
        "How often each device is compared with its state, spread over this time.",
        default_doc="never",
    )
    drift_sample: int = key(
        Integer(1, 100), "How many percent of the devices are compared in each interval.", default=100
    )


class DriftServerSettings(Section, frozen=True, kw_only=True):
    refresh: float = key(
        Duration(minimum=60.0),
        "How often the schedule and the stacks of registered repositories are read.",
        default="15m",
    )
    at_once: int = key(
        Integer(1, 10_000),
        "How many stacks are looked at at the same time, on all workers together.",
        default=2,
    )


class OutgoingWebhookSettings(Section, frozen=True, kw_only=True):
    private_addresses: tuple[str, ...] = key(
        ListOf(Text("an address or a network", convert=_network)),
        "Internal addresses or networks that [outgoing webhooks](outgoing-webhooks.md) may be sent to, such "
        "as `10.20.0.0/16`. Link-local addresses and those of metadata services are never allowed.",
    )


class WorkerSettings(Section, frozen=True, kw_only=True):
    pass_env: tuple[str, ...] = key(
        ListOf(Text("the name of a variable", r"(?!HOLDFAST_)[A-Za-z_][A-Za-z0-9_]*")),
        "Variables of a worker that changes see, beside PATH, HOME, locale, proxies and certificates.",
    )


class ServerSettings(Section, frozen=True, kw_only=True):
    folder: Path
    """Of the file: what its paths are relative to."""
    version: int = key(FormatVersion(), "The version of this format: `1`.", default=1, required=True)
    listen: str = key(
        Text("HOST:PORT", _HOST_AND_PORT),
        "The address to listen on; `--listen` wins. An address that other machines can reach needs `tls` or "
        "`trusted_proxies`.",
        default=DEFAULT_LISTEN,
    )
    tls: TlsFiles | None = key(TlsFiles, "Serve https with these files.", default=None)
    trusted_proxies: tuple[str, ...] = key(
        ListOf(Text("an address or a network", convert=_network)),
        "Proxies that terminate TLS, as addresses or networks. Their `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are believed, and only theirs.",
    )
    oidc: tuple[OidcRule, ...] = key(
        ListOf(OidcRule), "Which CI tokens are exchanged for tokens of the server, and for which."
    )
    approvals: tuple[ServerApprovals, ...] = key(
        ListOf(ServerApprovals),
        "[Approvals](runs-on-the-server.md#approvals) that every plan with changes needs, beside those of "
        "the guard in its repository.",
    )
    backups: BackupSettings = key(BackupSettings, "How many versions of a state are kept.")
    runs: ServerRunSettings = key(ServerRunSettings, "How much the workers do at the same time.")
    limits: ServerLimits = key(ServerLimits, "Limits that protect the server.")
    fleet: FleetSettings = key(FleetSettings, "[Devices by API](fleet.md).")
    drift: DriftServerSettings = key(
        DriftServerSettings, "[Drift](drift.md#on-a-server) of the stacks of registered repositories."
    )
    webhooks: OutgoingWebhookSettings = key(
        OutgoingWebhookSettings, "Where [outgoing webhooks](outgoing-webhooks.md) may be sent."
    )
    worker: WorkerSettings = key(WorkerSettings, "What workers pass on.")
    notify: NotifySettings = key(
        NotifySettings,
        "Who hears of what happens on the server: [notifications](notifications.md#on-a-server).",
    )
    url: str | None = key(
        Text("an https:// address", r"(?:https|http)://[^\s?#\x00-\x1f]+"),
        "The address under which people reach the server, for links in notifications.",
    )


def default_settings(folder: Path) -> ServerSettings:
    return ServerSettings(folder=folder, version=1)


def load_server_settings(file: Path) -> ServerSettings:
    """Raises ConfigError with every mistake, in the order of the file."""
    path = file.absolute()
    problems = Problems()
    node = yaml.read(decode(read_content(path), file=path.name), file=path.name, problems=problems)
    if node is None or isinstance(node, yaml.BrokenNode):
        raise ConfigError(problems.sorted())
    top = Reader(whole=ServerSettings, problems=problems).read(ServerSettings, node)
    problems.raise_any()
    fields: dict[str, Any] = {"folder": path.parent, **build_fields(ServerSettings, top)}
    return ServerSettings(**fields)
