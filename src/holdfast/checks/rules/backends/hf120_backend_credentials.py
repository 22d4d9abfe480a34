from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl

from msgspec.structs import replace

from holdfast.checks.backends.backends import BackendView, for_stacks, for_unused_modules
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import Module, value
from holdfast.checks.secrets.evidence import THIS_MACHINE, Quality, is_placeholder, quality_of
from holdfast.kernel.patterns import pattern
from holdfast.stacks.backend import parse_address
from holdfast.stacks.reads.remote_states import TYPE

_PASSWORD = pattern(r"\bpassword\s*=\s*'?([^\s']+)")
_SECRET_NAME = pattern(r"token|secret|password|passwd|signature|sig|key", re.IGNORECASE)
_SHORTEST_KEY = 16
_RESERVED = pattern(r"(?:^|\.)(?:example(?:\.(?:com|net|org))?|test|invalid)$")
_WORDS = pattern(r"[a-z]+(?:-[a-z]+)+")
_ADDRESSES = ("address", "lock_address", "unlock_address", "host", "endpoint", "proxy_url")


def _check(backend: BackendView) -> Iterator[Finding]:
    """An emulator on this machine takes any word for a key; a real key beside it stays an error."""
    addresses = " ".join(str(backend.value(name) or "") for name in (*_ADDRESSES, "endpoints", "conn_str"))
    words = all(len(str(backend.value(name) or "")) < _SHORTEST_KEY for name in backend.kind.secrets)
    severity = Severity.NOTE if words and THIS_MACHINE.search(addresses) else None
    if severity is None and _is_reserved(backend):
        severity = Severity.WARNING
    for problem in _secrets(backend):
        yield replace(problem, severity=severity or problem.severity)


def _is_reserved(backend: BackendView) -> bool:
    """Whether its hosts are reserved names, which stand for the real ones."""
    parts = (parse_address(backend.text(name) or "") for name in (*_ADDRESSES, "conn_str"))
    hosts = [one.hostname for one in parts if one is not None and one.hostname]
    return bool(hosts) and all(map(_RESERVED.search, hosts))


def _secrets(backend: BackendView) -> Iterator[Finding]:
    for name in backend.kind.secrets:
        setting = backend.value(name)
        if _is_secret(setting) and str(setting) != name and not _is_path(backend.type, name, setting):
            yield finding(
                backend.place_of(name),
                f"`{backend.named(name)}` of the {backend.type} backend is a hard-coded secret",
                severity=Severity.WARNING if _is_known(str(setting)) else None,
            )
    for name in _ADDRESSES:
        if _in_address(backend.text(name) or ""):
            yield finding(
                backend.place_of(name),
                f"`{backend.named(name)}` of the {backend.type} backend contains a secret",
            )
    conn = backend.text("conn_str") if backend.type == "pg" else None
    if conn is not None and (_in_address(conn) or any(map(_is_secret, _PASSWORD.findall(conn)))):
        yield finding(
            backend.place_of("conn_str"),
            f"`{backend.named('conn_str')}` of the pg backend contains a password",
        )


def _is_secret(setting: object) -> bool:
    """A password may be a number; `<YOUR_SECRET_KEY>` is none."""
    is_literal = isinstance(setting, str | int | float) and not isinstance(setting, bool)
    return is_literal and not is_placeholder(str(setting))


def _is_known(setting: str) -> bool:
    """Words, or a password such as `minioadmin` that everybody tries first."""
    return _WORDS.fullmatch(setting) is not None or quality_of(setting) is Quality.WEAK


def _is_path(type_: str, name: str, setting: object) -> bool:
    """`credentials` of gcs is the content of a key file, or its path."""
    return type_ == "gcs" and name == "credentials" and not str(setting).lstrip().startswith("{")


def _in_address(text: str) -> bool:
    parts = parse_address(text)
    if parts is None:
        return False
    named = (content for name, content in parse_qsl(parts.query) if _SECRET_NAME.search(name))
    return any(content and _is_secret(content) for content in (parts.password, *named))


_orphans = for_unused_modules(_check, literals_only=True)


def _source(module: Module) -> Iterator[CheckResult]:
    for resource in module.resources(TYPE, mode="data"):
        type_, config = value(resource.body, "backend"), value(resource.body, "config") or {}
        if isinstance(type_, str) and isinstance(config, Mapping):
            backend = BackendView(type=type_, settings=config, block=resource.block, place=resource.place)
            for problem in _check(backend):
                yield finding(resource.block, problem.message, address=resource.address)
    yield from _orphans(module)


RULE = Rule(
    id="HF120",
    title="Backend secret in the code or configuration",
    fix="Remove the secret and rotate it. Let Holdfast assume a role (`credentials:`), or reference the "
    'secret: `settings: { password: { secret: "env:STATE_PASSWORD" } }`.',
    severity=Severity.ERROR,
    source=_source,
    stack=for_stacks(_check),
    secret=True,
    everywhere=True,
)
