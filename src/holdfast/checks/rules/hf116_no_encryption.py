"""HF116: a state that is not encrypted where it lies, or on its way there."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import Home, address_of, loopback, of_orphans, of_stacks
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, UNKNOWN
from holdfast.kernel.patterns import pattern

_PLAIN = pattern(r"\bsslmode\s*=\s*'?disable\b")
_HOST = pattern(r"\bhost\s*=\s*'?(?P<host>[^\s']+)")
_DEFAULTS = {"s3": False, "oss": False, "cos": True}
"""What `encrypt` is where nobody says."""
_ADDRESSES = {
    "s3": ("endpoint", "endpoints.s3"),
    "http": ("address", "lock_address", "unlock_address"),
    "consul": ("address",),
    "gcs": ("storage_custom_endpoint",),
    "oss": ("endpoint",),
    "kubernetes": ("host",),
    "cos": ("endpoint",),
}


def _judge(home: Home) -> Iterator[Answer]:
    if home.sealed:
        return
    yield from _at_rest(home)
    yield from _on_the_way(home)
    if home.kind.unseen is not None:
        yield Skipped(reason=home.kind.unseen)


def _at_rest(home: Home) -> Iterator[Answer]:
    if home.type not in _DEFAULTS or (home.type == "s3" and _keyed(home)):
        return
    encrypt = home.flag("encrypt", default=_DEFAULTS[home.type])
    if encrypt is None:
        yield home.unknown("encrypt")
    elif not encrypt:
        yield finding(
            home.spot("encrypt"), f"the {home.type} backend does not ask for encryption: no `encrypt = true`"
        )


def _keyed(home: Home) -> bool:
    """Then HF117 speaks: it is worse to believe in a key that is not used."""
    return home.has("kms_key_id") or home.has("sse_customer_key")


def _on_the_way(home: Home) -> Iterator[Answer]:
    for name in _ADDRESSES.get(home.type, ()):
        if home.value(name) is UNKNOWN:
            yield home.unknown(name)
        parts = address_of(home.text(name) or "")
        if parts is not None and parts.scheme.lower() == "http" and not loopback(parts.hostname):
            yield finding(
                home.spot(name),
                f"`{name}` is an address without TLS: the state goes over the network in clear",
                hint="Use an `https://` address.",
            )
    if home.type == "consul":
        yield from _consul(home)
    if home.type == "pg":
        yield from _pg(home)


def _pg(home: Home) -> Iterator[Answer]:
    """What the connection string does not say, the variable does."""
    conn = home.text("conn_str") or ""
    if _near(conn):
        return
    name = "conn_str" if _PLAIN.search(conn) else "sslmode"
    if name == "conn_str" or ("sslmode" not in conn and home.text("sslmode") == "disable"):
        yield finding(
            home.spot(name),
            "`sslmode=disable`: the state goes over the network in clear",
            hint="Use `sslmode=verify-full`.",
        )


def _near(conn: str) -> bool:
    """Whether the database is this machine's: by its host, or through a socket."""
    parts = address_of(conn)
    if parts is not None:
        return loopback(parts.hostname)
    host = _HOST.search(conn)
    return host is not None and (host["host"].startswith("/") or loopback(host["host"]))


def _consul(home: Home) -> Iterator[Answer]:
    """It speaks plain HTTP unless `scheme`, or the environment, says otherwise."""
    scheme, address = home.value("scheme"), home.text("address") or "localhost"
    if scheme is ABSENT:
        scheme = "https" if "CONSUL_HTTP_SSL" in home.env else "http"
    if scheme == "http" and "://" not in address and not loopback(address.partition(":")[0]):
        said = '`scheme = "http"`' if home.has("scheme") else 'without `scheme = "https"`'
        yield finding(
            home.spot("scheme"),
            f"{said}: the state goes over the network in clear",
            hint='Set `scheme = "https"`.',
        )


RULE = Rule(
    id="HF116",
    title="A state that is not encrypted",
    why="A state holds every value of every resource in clear, passwords and keys included: whoever gets at "
    "the disk, a copy or the wire has them all.",
    fix="Set `encrypt = true`.",
    severity=Severity.ERROR,
    source=of_orphans(_judge),
    stack=of_stacks(_judge),
    bad='terraform {\n  backend "s3" {\n    bucket = "acme-prod-tfstate-eu-west-1"\n'
    '    key    = "network/terraform.tfstate"\n  }\n}\n',
    good='terraform {\n  backend "s3" {\n    bucket  = "acme-prod-tfstate-eu-west-1"\n'
    '    key     = "network/terraform.tfstate"\n    encrypt = true\n  }\n}\n',
    more="`s3` and `oss` need `encrypt = true`, `cos` must not turn it off; addresses of `http`, `consul`, "
    "`gcs`, `oss`, `cos`, `kubernetes` and of S3 endpoints need TLS, unless they are this machine's; "
    "so does the database of `pg` (no `sslmode=disable`). `azurerm`, `gcs`, `oci`, `remote` and `cloud` "
    "always encrypt. How Consul, a database, a cluster or a server of your own keeps it cannot be seen in "
    "code: there the rule says that it could not look. A state that OpenTofu encrypts itself (`encryption { "
    "state { … } }`) is right with every backend, unless the method is `unencrypted`.",
)
