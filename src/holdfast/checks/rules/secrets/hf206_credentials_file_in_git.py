from __future__ import annotations

import re

from msgspec import Struct

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import is_secret_name

_AT_ALL = pattern(
    r"(?i)\.env|_?netrc|rc$|credentials|my\.cnf|\.azure/|\.pgpass|vault-token|docker|kube|terraform\.rc"
)
_ENV = pattern(r"(?:^|/)(?:[\w.-]+)?\.env(?:\.[\w.-]+)?$|(?:^|/)\.envrc$", re.IGNORECASE)
_MODEL = pattern(
    r"(?i)\b(?:example|sample|template|tpl|tftpl|dist|defaults?|schema|md|tf|j2|vault|enc|age|gpg)\b"
)
_LOCAL = pattern(r"(?i)\b(?:local|dev|development|test|ci)\b")
"""Meant to be in Git: its passwords are those of a container on this machine."""
_SEALED = pattern(rb"sops_version|ENC\[AES|DOTENV_PUBLIC_KEY|-----BEGIN AGE|^\$ANSIBLE_VAULT", re.MULTILINE)
_SET = pattern(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=[ \t]*[\"']?([^\s\"'#]*)", re.MULTILINE)


class _Known(Struct, frozen=True):
    path: re.Pattern[str]
    what: str
    inside: re.Pattern[bytes] | None = None
    """Content that makes it a credentials file; without it the file only holds settings."""


def _known(path: str, what: str, inside: bytes | None = None) -> _Known:
    return _Known(pattern(f"(?:^|/)(?:{path})$"), what, pattern(inside) if inside is not None else None)


_FILES = (
    _known(r"\.aws/credentials", "AWS credentials"),
    _known(r"\.?my\.cnf", "a MySQL password", rb"(?m)^\s*password\s*=\s*[^\s$<{]"),
    _known(r"\.azure/(?:accessTokens|msal_token_cache)\.json", "Azure tokens"),
    _known(r"\.git-credentials", "Git credentials"),
    _known(r"\.netrc|_netrc", "host passwords", rb"\bpassword\s+[^\s$]"),
    _known(r"\.pgpass", "PostgreSQL passwords"),
    _known(r"\.vault-token", "a Vault token"),
    _known(r"credentials\.tfrc\.json", "HCP Terraform tokens", rb'"token"\s*:\s*"[^"$]'),
    _known(r"\.?terraform(?:\.rc|rc)|\.tofurc", "registry tokens", rb'\btoken\s*=\s*"[^"$]'),
    _known(r"\.npmrc", "an npm token", rb"_auth(?:Token)?\s*=\s*[^\s$]"),
    _known(r"\.pypirc", "a PyPI password", rb"(?m)^\s*password\s*[=:]\s*[^\s$%]"),
    _known(r"\.docker/config\.json|\.dockercfg", "registry passwords", rb'"auth"\s*:\s*"[^"$]'),
    _known(
        r"\.kube/config|[\w.-]*kubeconfig[\w.-]*",
        "cluster credentials",
        rb"(?m)client-key-data:\s*[\"']?[A-Za-z0-9+/=]{20}|^\s*token:\s*[\"']?[A-Za-z0-9._-]{16}|^\s*password:\s*[^\s${]",
    ),
    _known(
        r"[\w.-]*credentials(?:\.\w+)?", "AWS credentials", rb"aws_secret_access_key\s*=\s*[A-Za-z0-9/+]{20}"
    ),
)


def _check(path: str, content: Content | None) -> Suspect | None:
    if not _AT_ALL.search(path):
        return None
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
    if known.inside is None:
        return Suspect(known.what)
    if content is None:
        return None
    return Suspect(known.what) if known.inside.search(content() or b"") else None


def _environment(name: str, inside: bytes) -> Suspect | None:
    if _SEALED.search(inside):
        return None
    pairs = _SET.findall(inside.decode(errors="replace"))
    if any(value and not value.startswith(("$", "<", "{{")) and is_secret_name(key) for key, value in pairs):
        beside = None if name.lower().startswith(".env") else Severity.WARNING
        severity = Severity.NOTE if _LOCAL.search(name) else beside
        return Suspect("an environment file with secrets", severity=severity)
    plain = name.lower() == ".env" or name.lower().startswith(".env.")
    return Suspect("an environment file", severity=Severity.NOTE) if plain and pairs else None


RULE = Rule(
    id="HF206",
    title="Credentials file in Git",
    fix="Rotate its secrets, run `git rm --cached`, add it to `.gitignore`, and keep an `.env.example` "
    "without values.",
    severity=Severity.ERROR,
    **in_git(_check),
    secret=True,
)
