"""HF206: an `.env`, or a file in which a program keeps its credentials, in Git."""

from __future__ import annotations

import re

from msgspec import Struct

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, history, tree
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import is_secret_name

_AT_ALL = pattern(
    r"(?i)\.env|_?netrc|rc$|credentials|my\.cnf|\.azure/|\.pgpass|vault-token|docker|kube|terraform\.rc"
)
_ENV = pattern(r"(?:^|/)(?:[\w.-]+)?\.env(?:\.[\w.-]+)?$|(?:^|/)\.envrc$", re.IGNORECASE)
_MODEL = pattern(
    r"(?i)\b(?:example|sample|template|tpl|tftpl|dist|defaults?|schema|md|tf|j2|vault|enc|age|gpg)\b"
)
_SEALED = pattern(rb"sops_version|ENC\[AES|DOTENV_PUBLIC_KEY|-----BEGIN AGE|^\$ANSIBLE_VAULT", re.MULTILINE)
_SET = pattern(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*=[ \t]*[\"']?([^\s\"'#]*)", re.MULTILINE)


class _Known(Struct, frozen=True):
    path: re.Pattern[str]
    what: str
    inside: re.Pattern[bytes] | None = None
    """What makes it one; a file of this name without it holds settings only."""


def _known(path: str, what: str, inside: bytes | None = None) -> _Known:
    return _Known(pattern(f"(?:^|/)(?:{path})$"), what, pattern(inside) if inside is not None else None)


_FILES = (
    _known(r"\.aws/credentials", "credentials of AWS"),
    _known(r"\.?my\.cnf", "a password of MySQL", rb"(?m)^\s*password\s*=\s*[^\s$<{]"),
    _known(r"\.azure/(?:accessTokens|msal_token_cache)\.json", "tokens of Azure"),
    _known(r"\.git-credentials", "credentials of Git"),
    _known(r"\.netrc|_netrc", "passwords of hosts", rb"\bpassword\s+[^\s$]"),
    _known(r"\.pgpass", "passwords of PostgreSQL"),
    _known(r"\.vault-token", "a token of Vault"),
    _known(r"credentials\.tfrc\.json", "tokens of HCP Terraform", rb'"token"\s*:\s*"[^"$]'),
    _known(r"\.?terraform(?:\.rc|rc)|\.tofurc", "tokens of registries", rb'\btoken\s*=\s*"[^"$]'),
    _known(r"\.npmrc", "a token of npm", rb"_auth(?:Token)?\s*=\s*[^\s$]"),
    _known(r"\.pypirc", "a password of PyPI", rb"(?m)^\s*password\s*[=:]\s*[^\s$%]"),
    _known(r"\.docker/config\.json|\.dockercfg", "passwords of registries", rb'"auth"\s*:\s*"[^"$]'),
    _known(
        r"\.kube/config|[\w.-]*kubeconfig[\w.-]*",
        "credentials of a cluster",
        rb"(?m)client-key-data:\s*[\"']?[A-Za-z0-9+/=]{20}|^\s*token:\s*[\"']?[A-Za-z0-9._-]{16}|^\s*password:\s*[^\s${]",
    ),
    _known(
        r"[\w.-]*credentials(?:\.\w+)?",
        "credentials of AWS",
        rb"aws_secret_access_key\s*=\s*[A-Za-z0-9/+]{20}",
    ),
)


def _judge(path: str, content: Content | None) -> Suspect | None:
    if not _AT_ALL.search(path):
        return None
    for known in _FILES:
        if known.path.search(path):
            return _of_a_program(known, content)
    name = path.rpartition("/")[2]
    if not _ENV.search(path) or _MODEL.search(name.removeprefix(".env")):
        return None
    if content is None:
        return None if name == ".envrc" else Suspect("an environment file", severity=Severity.WARNING)
    return _environment(name, content() or b"")


def _of_a_program(known: _Known, content: Content | None) -> Suspect | None:
    if known.inside is None:
        return Suspect(known.what)
    if content is None:
        return None
    return Suspect(known.what) if known.inside.search(content() or b"") else None


def _environment(name: str, inside: bytes) -> Suspect | None:
    if _SEALED.search(inside):
        return None
    pairs = _SET.findall(inside.decode(errors="replace"))
    if any(value and not value.startswith(("$", "<")) and is_secret_name(key) for key, value in pairs):
        return Suspect("an environment file with secrets")
    plain = name.lower() == ".env" or name.lower().startswith(".env.")
    return Suspect("an environment file", severity=Severity.WARNING) if plain and pairs else None


RULE = Rule(
    id="HF206",
    title="A file of credentials in Git",
    why="`.env` and the files in which programs keep tokens are made to hold what nobody else may have. Once "
    "they are in Git, the next value is committed without anyone noticing.",
    fix="Change the secrets in it, run `git rm --cached`, add it to `.gitignore`, and keep an `.env.example` "
    "without values.",
    severity=Severity.ERROR,
    repository=tree(_judge),
    of_git=True,
    history=history(_judge),
    secret=True,
    more="An `.env` whose names sound harmless is a warning. Files that SOPS, dotenvx or Ansible Vault "
    "encrypted, and models such as `.env.example`, are left alone. Of the files of programs "
    "(`.terraformrc`, `.npmrc`, kubeconfigs …) only those count that hold a token or a password, so in "
    "history, where only names are known, they are not looked for.",
)
