from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import (
    BackendView,
    for_backends,
    is_loopback,
)
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, UNKNOWN
from holdfast.kernel.patterns import pattern
from holdfast.stacks.backend import parse_address

_PLAIN = pattern(r"\bsslmode\s*=\s*'?disable\b")
_HOST = pattern(r"\bhost\s*=\s*'?(?P<host>[^\s']+)")
_PRIVATE = pattern(
    r"10\..*|192\.168\..*|172\.(?:1[6-9]|2\d|3[01])\..*|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\..*|[^.:]+"
    r"|.*\.(?:local|lan|home|internal|svc(?:\..*)?|home\.arpa|ts\.net)"
)
"""Hosts of a private network, or of an overlay such as WireGuard."""
_DEFAULTS = {"s3": False, "oss": False, "cos": True}
"""The default of `encrypt`."""
_ADDRESSES = {
    "s3": ("endpoint", "endpoints.s3"),
    "http": ("address", "lock_address", "unlock_address"),
    "consul": ("address",),
    "gcs": ("storage_custom_endpoint",),
    "oss": ("endpoint",),
    "kubernetes": ("host",),
    "cos": ("endpoint",),
}


def _check_encryption(backend: BackendView) -> Iterator[CheckResult]:
    if backend.client_encrypted:
        return
    yield from _at_rest(backend)
    yield from _in_transit(backend)
    if backend.kind.at_rest_unknown is not None:
        yield Skipped(reason=backend.kind.at_rest_unknown)


def _at_rest(backend: BackendView) -> Iterator[CheckResult]:
    if backend.type not in _DEFAULTS or (backend.type == "s3" and _has_key(backend)):
        return
    encrypt = backend.flag("encrypt", default=_DEFAULTS[backend.type])
    if encrypt is None:
        yield backend.unknown("encrypt")
    elif not encrypt and backend.type == "s3":
        # Many S3-compatible stores cannot encrypt at all.
        is_meant = backend.has("encrypt") and not backend.is_other_store
        yield finding(
            backend.place_of("encrypt"),
            "without `encrypt = true` only the default encryption of the bucket protects the state",
            severity=Severity.WARNING if is_meant else Severity.NOTE,
            group="encrypt",
        )
    elif not encrypt:
        yield finding(
            backend.place_of("encrypt"),
            f"the {backend.type} backend does not encrypt the state without `encrypt = true`",
        )


def _has_key(backend: BackendView) -> bool:
    """HF117 reports that case: a key that is configured and not used."""
    return backend.has("kms_key_id") or backend.has("sse_customer_key")


def _in_transit(backend: BackendView) -> Iterator[CheckResult]:
    for name in _ADDRESSES.get(backend.type, ()):
        if backend.value(name) is UNKNOWN:
            yield backend.unknown(name)
        parts = parse_address(backend.text(name) or "")
        if parts is not None and parts.scheme.lower() == "http" and not is_loopback(parts.hostname):
            yield finding(
                backend.place_of(name),
                f"`{name}` has no TLS: the state is sent unencrypted",
                hint="Use an `https://` address.",
                severity=Severity.WARNING if _PRIVATE.fullmatch(parts.hostname or "") else None,
                group=parts.hostname,
            )
    if backend.type == "consul":
        yield from _consul(backend)
    if backend.type == "pg":
        yield from _pg(backend)


def _pg(backend: BackendView) -> Iterator[CheckResult]:
    """The environment variable counts where the connection string has no `sslmode`."""
    conn = backend.text("conn_str") or ""
    if _is_local(conn):
        return
    name = "conn_str" if _PLAIN.search(conn) else "sslmode"
    if name == "conn_str" or ("sslmode" not in conn and backend.text("sslmode") == "disable"):
        yield finding(
            backend.place_of(name),
            "`sslmode=disable` sends the state unencrypted",
            hint="Use `sslmode=verify-full`.",
        )


def _is_local(conn: str) -> bool:
    """Whether the database runs on this machine: by its host, or through a socket."""
    parts = parse_address(conn)
    if parts is not None:
        return is_loopback(parts.hostname)
    host = _HOST.search(conn)
    return host is not None and (host["host"].startswith("/") or is_loopback(host["host"]))


def _consul(backend: BackendView) -> Iterator[CheckResult]:
    """It uses plain HTTP unless `scheme` or the environment says otherwise."""
    scheme, address = backend.value("scheme"), backend.text("address") or "localhost"
    if scheme is ABSENT:
        scheme = "https" if "CONSUL_HTTP_SSL" in backend.env else "http"
    if scheme == "http" and "://" not in address and not is_loopback(address.partition(":")[0]):
        setting = 'with `scheme = "http"`' if backend.has("scheme") else 'without `scheme = "https"`'
        yield finding(
            backend.place_of("scheme"),
            f"{setting} the state is sent unencrypted",
            hint='Set `scheme = "https"`.',
        )


HF116 = Rule(
    id="HF116",
    title="State that is not encrypted",
    fix="Set `encrypt = true`.",
    severity=Severity.ERROR,
    **for_backends(_check_encryption),
)


def _check_unused_key(backend: BackendView) -> Iterator[CheckResult]:
    if backend.type != "s3":
        return
    for name in ("kms_key_id", "sse_customer_key"):
        if not backend.has(name):
            continue
        encrypt = backend.flag("encrypt")
        if encrypt is None:
            yield backend.unknown("encrypt")
        elif not encrypt:
            yield finding(backend.place_of(name), f"`{name}` has no effect without `encrypt = true`")


HF117 = Rule(
    id="HF117",
    title="Encryption key that is not used",
    fix="Set `encrypt = true` next to the key; the next write encrypts the state with it.",
    severity=Severity.ERROR,
    **for_backends(_check_unused_key),
)


def _check_own_key(backend: BackendView) -> Iterator[Finding]:
    if backend.type != "s3" or backend.client_encrypted or not backend.flag("encrypt"):
        return
    if not backend.has("kms_key_id") and not backend.has("sse_customer_key"):
        yield finding(
            backend.place_of("encrypt"),
            "`encrypt = true` without `kms_key_id`: S3 holds the key and decrypts for every reader",
        )


HF118 = Rule(
    id="HF118",
    title="State encrypted without your own key",
    fix="Set `kms_key_id` to a KMS key; access to the key then also controls access to the state.",
    severity=Severity.NOTE,
    **for_backends(_check_own_key),
)
