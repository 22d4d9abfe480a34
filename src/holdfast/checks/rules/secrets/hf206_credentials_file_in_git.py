from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git
from holdfast.checks.secrets.evidence import THIS_MACHINE, Quality, is_made_up, quality_of, severity_of
from holdfast.checks.secrets.known_secrets import GOOGLE_KEYS, KnownSecret, known_in, names_secret
from holdfast.checks.secrets.suspicion import is_harmless
from holdfast.kernel.patterns import pattern

_AT_ALL = pattern(
    r"(?i)\.env|_?netrc|rc$|credentials|my\.cnf|\.azure/|\.pgpass|vault-token|docker|kube|terraform\.rc"
)
_ENV = pattern(r"(?:^|/)(?:[\w.-]+)?\.env(?:\.[\w.-]+)?$|(?:^|/)\.envrc$", re.IGNORECASE)
_MODEL = pattern(
    r"(?i)\b(?:example|sample|template|tpl|tftpl|dist|defaults?|schema|md|tf|j2|vault|enc|age|gpg)\b"
)
_LOCAL = pattern(r"(?i)\b(?:local|dev|development|test|ci|docker)\b")
"""Meant to be in Git: its passwords are those of a container on this machine."""
_IN_BROWSERS = pattern(r"(?i)(?:^|[_\s])(?:VITE|REACT_APP|PUBLIC)_(?!.*(?:PRIVATE|PASSW))")
_GOOGLE_IN_BROWSERS = pattern(r"(?i)maps|map_?key|places|geocod|firebase|browser|front_?end")
"""Names of what every visitor of a page gets."""
_BROWSER_KEY = "AIza"
"""What a key of Google starts with; not all of them are for browsers."""
_SET = pattern(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=[ \t]*[\"']?([^\s\"'#]*)", re.MULTILINE)
_STANDS_IN = pattern(
    r"(?i)://(\w{1,40})_user:\1_pass(?:word)?@|://[^/\s]{0,200}[@.](?:cluster-xyz|your-)"
    r"|=\s*[\"']?(?:[a-z]{2}_)?(?:test[_-])?(?:mock|dummy|fake)"
)
"""An address or a key to be filled in."""

_HOST = pattern(r"(?m)^\s*host\s*=\s*(\S+)|\bmachine\s+(\S+)|^([^:#\s]+):")
_MADE_UP_BY_PEOPLE = ("a MySQL password", "host passwords", "PostgreSQL passwords")


_REMOVE = "run `git rm --cached`, add it to `.gitignore`, and keep an `.env.example` without values."


class _Known(Struct, frozen=True):
    path: re.Pattern[str]
    what: str
    inside: re.Pattern[str]
    """The secret in it, as a group; without it the file only holds settings."""
    by_name: bool = False
    """The name is enough in the history."""


def _known(path: str, what: str, inside: str, *, by_name: bool = False) -> _Known:
    return _Known(pattern(f"(?:^|/)(?:{path})$"), what, pattern(inside), by_name)


_FILES = (
    _known(
        r"\.aws/credentials",
        "AWS credentials",
        r"(?m)^\s*aws_(?:secret_access_key|session_token)[ \t]*=[ \t]*([^\s$<{]\S*)",
        by_name=True,
    ),
    _known(r"\.?my\.cnf", "a MySQL password", r"(?m)^\s*password\s*=\s*([^\s$<{]\S*)"),
    _known(
        r"\.azure/(?:accessTokens|msal_token_cache)\.json",
        "Azure tokens",
        r'"(?:accessToken|refreshToken|secret)"\s*:\s*"([^"]+)',
        by_name=True,
    ),
    _known(r"\.git-credentials", "Git credentials", r"://[^:/@\s]*:([^@\s]+)@", by_name=True),
    _known(r"\.netrc|_netrc", "host passwords", r"\bpassword\s+([^\s$]\S*)"),
    _known(
        r"\.pgpass", "PostgreSQL passwords", r"(?m)^(?!localhost:|127\.|#)(?:[^:\s]*:){4}(\S+)", by_name=True
    ),
    _known(r"\.vault-token", "a Vault token", r"(\S+)", by_name=True),
    _known(r"credentials\.tfrc\.json", "HCP Terraform tokens", r'"token"\s*:\s*"([^"$]+)'),
    _known(r"\.?terraform(?:\.rc|rc)|\.tofurc", "registry tokens", r'\btoken\s*=\s*"([^"$]+)'),
    _known(r"\.npmrc", "an npm token", r"_auth(?:Token)?\s*=\s*([^\s$]\S*)"),
    _known(r"\.pypirc", "a PyPI password", r"(?m)^\s*password\s*[=:]\s*([^\s$%]\S*)"),
    _known(r"\.docker/config\.json|\.dockercfg", "registry passwords", r'"auth"\s*:\s*"([^"$]+)'),
    _known(
        r"\.kube/config|[\w.-]*kubeconfig[\w.-]*",
        "cluster credentials",
        r"(?m)client-key-data:\s*[\"']?([A-Za-z0-9+/=]{20,})"
        r"|^\s*token:\s*[\"']?([A-Za-z0-9._-]{16,})|^\s*password:\s*([^\s${]\S*)",
    ),
    _known(
        r"[\w.-]*credentials(?:\.\w+)?",
        "AWS credentials",
        r"aws_secret_access_key\s*=\s*([A-Za-z0-9/+]{20,})",
    ),
)


def _check(path: str, content: Content | None) -> Suspect | None:
    suspect = _classify(path, content) if _AT_ALL.search(path) else None
    if suspect is not None and (suspect.severity is Severity.NOTE or is_made_up(path)):
        return replace(suspect, hint=f"If its values are not meant for everyone: {_REMOVE}")
    return suspect


def _classify(path: str, content: Content | None) -> Suspect | None:
    for known in _FILES:
        if known.path.search(path):
            return _program_file(known, content)
    name = path.rpartition("/")[2]
    if not _ENV.search(path) or _MODEL.search(name.removeprefix(".env")):
        return None
    if content is None:
        return None if name == ".envrc" else Suspect("an environment file", severity=Severity.WARNING)
    return _environment(name, content() or b"")


def _program_file(known: _Known, content: Content | None) -> Suspect | None:
    if known.by_name and content is None:
        return Suspect(known.what)
    text = (content() or b"").decode(errors="replace") if content is not None else ""
    secrets = [match[match.lastindex or 0] for match in known.inside.finditer(text)]
    strong = [secret for secret in secrets if quality_of(secret) is not Quality.WEAK]
    if not strong:
        return Suspect(known.what, severity=Severity.NOTE) if secrets else None
    hosts = [match[match.lastindex or 0] for match in _HOST.finditer(text)]
    near = bool(hosts) and all(host != "*" and "." not in host for host in hosts)
    mild = known.what in _MADE_UP_BY_PEOPLE and (near or all(map(str.isalpha, strong)))
    return Suspect(known.what, severity=Severity.WARNING if mild else None)


def _environment(name: str, inside: bytes) -> Suspect | None:
    text = inside.decode(errors="replace")
    pairs = _SET.findall(text)
    lines = text.split("\n")
    severities = {
        Severity.NOTE if _STANDS_IN.search(lines[secret.line - 1]) else secret.severity
        for secret in known_in(text)
        if not _is_public(secret, lines)
    }
    local = Severity.ERROR not in severities and THIS_MACHINE.search(text) is not None
    for key, value in pairs:
        public = is_harmless(value) or value.startswith(_BROWSER_KEY) or _IN_BROWSERS.search(key)
        if value and not public and names_secret(key):
            stands_in = _STANDS_IN.search(f"={value}") is not None
            severities.add(Severity.NOTE if stands_in else severity_of(quality_of(value)))
    if severities:
        severity = min(severities, key=lambda severity: severity.rank)
        if _LOCAL.search(name):
            severity = Severity.WARNING if severity is Severity.ERROR and not local else Severity.NOTE
        return Suspect("an environment file with secrets", severity=severity)
    plain = name.lower() == ".env" or name.lower().startswith(".env.")
    return Suspect("an environment file", severity=Severity.NOTE) if plain and pairs else None


def _is_public(secret: KnownSecret, lines: list[str]) -> bool:
    """Whether it is a key of Google that the page shows anyway, by its name."""
    name = lines[secret.line - 1].partition("=")[0]
    is_for_browsers = _IN_BROWSERS.search(name) or _GOOGLE_IN_BROWSERS.search(name)
    return secret.what == GOOGLE_KEYS and is_for_browsers is not None


RULE = Rule(
    id="HF206",
    title="Credentials file in Git",
    fix=f"Rotate its secrets, {_REMOVE}",
    severity=Severity.ERROR,
    **in_git(_check),
    secret=True,
)
