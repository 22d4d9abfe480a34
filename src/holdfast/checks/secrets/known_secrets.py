"""Secrets of known formats in texts: the redactor's formats without obvious placeholders."""

from __future__ import annotations

import base64
import bisect
import functools
import hashlib
import itertools
import re
from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets.evidence import (
    THIS_MACHINE,
    Quality,
    is_expired,
    is_placeholder,
    is_sample_token,
    quality_of,
    quality_of_key,
    severity_of,
)
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import is_secret_name, names_pattern
from holdfast.secrets.redact import Layer, RedactionSettings, Redactor, layers

_ABOUT = frozenset(
    (
        "account", "after", "age", "alg", "algorithm", "alias", "allowed", "annotations", "arns", "aud",
        "audience", "audiences", "backend", "before", "bucket", "challenge", "checksum", "claim", "claims",
        "class", "cluster", "database", "days", "description", "digest", "digests", "domain", "duration",
        "email", "encrypted", "engine", "env", "environment", "fingerprint", "for", "format", "group",
        "hash", "hashes", "header", "host", "hours", "image", "interval", "iss", "issuer", "issuers",
        "jwks", "keyring", "kid", "kids", "kind", "label", "labels", "lifetime", "location", "login",
        "manager", "method", "methods", "minutes", "mode", "namespace", "organization", "parameter",
        "pattern", "period", "permissions", "port", "prefix", "prevention", "project", "provider", "realm",
        "regex", "registry", "repository", "required", "retention", "role", "rotation", "schedule",
        "schema", "scope", "scopes", "seconds", "server", "service", "size", "store", "strategy", "sub",
        "subject", "suffix", "supported", "tag", "tags", "tenant", "thumbprint", "timeout", "title", "topic",
        "units", "until", "user", "username", "validation", "validity", "variable", "vault", "verification",
        "verify", "window", "zone",
    )
)  # fmt: skip
"""Names with these endings are about a secret: `token_issuer`, `secrets_prefix`."""
_PRODUCT = pattern(
    r"external[-_]secrets|secrets[-_]store[-_]csi[-_]driver|(?:1|one)[-_]?password"
    r"|privacy[-_]?pass(?![a-z])|(?:^|(?<=[_.-]))secrets?[-_]?manager[-_.]"
)
_ALSO = ("pass", "app_key", "application_key", "auth_key", "integration_key", "license_key", "shared_key")
_PARTS = pattern(r"[_.:-]|(?<=[a-z0-9])(?=[A-Z])")
_ENDS_SO = pattern(rf"(?:^|[_.-])(?:{'|'.join(_ALSO)})$")
"""Names that the redactor does not use, since inside a text they often mean something else."""
_NO_SECRETS = pattern(
    r"_algs?_|(?:^|[_.-])(?:http_tokens|creation_tokens?|image_pull_secrets?|existing_?secrets?|key_sha256|ssm_key|s3_key)$"
    r"|(?:^|[_./-])checksum[_./-]|password_policy_|(?:^|[_.-])secret_(?:name|id|arn)_"
    r"|(?:^|[_.-])user_?name[_.-](?!.*(?:pass|key|token|secret))"
    r"|(?:^|[_.-])tokens?_(?:units?|validity|ttl|lifetime)_|(?:password|username)_key$"
    r"|(?:page|continuation)[_.-]?tokens?$|(?:^|_)(?:(?:next|expo|nuxt)_public|react_app|vue_app|vite|gatsby)_"
    r"|(?:mixpanel(?:_?project)?_?token|(?:amplitude|posthog)(?:_?project)?_?api_?key)$"
    r"|public_?key_?token$|_key(?:name|role)$|(?<!secret)[_.-]seed$|[_.-](?:triggers?|keepers?)$"
    r"|(?:^|[_.-])(?:empty|expired|revoked|fake|dummy|mock|invalid|bad|wrong|weak)[_.-]"
)
"""Algorithms, metadata options, idempotency tokens, Kubernetes names, key digests, names of parameters and
secrets, password rules, users, how long a token is valid, the key of a password in a document, positions in
a list, what is compiled into a page, also for analytics, signers of assemblies, what makes Terraform generate
a secret again, and what is no secret (any more)."""
_PUBLIC_KEY = pattern(
    r"(?!.*private)(?:.*[_.-])?public[_.-](?:access[_.-])?(?:(?!secret|access|account)[a-z0-9]+[_.-])*"
    r"keys?(?:[_.-](?:pem|base64|b64))?$"
)
_API = pattern(
    r"(?m)^[ {\t]*[\"']?(?:openapi|swagger)[\"']?[ \t]*:|^kind: CustomResourceDefinition$"
    r"|\$schema[\"']?[ \t]*:[ \t]*[\"']https?://json-schema\.org/"
)
_NAME_OF_ONE = pattern(
    r"[\[(:]*(?:URLENCODED\()?(?:[A-Z]+_)*(?:PASSWORD|PASS|PWD|TOKEN|SECRET)[\])=]*"
    r"|[\[(:]*(?:some|my|the)?(?:password|passwd|pass|secret|token|auth_?key|api_?key)[\])=]*"
)
"""In a sample address, where the password is: `[:password]`, `DB_PASSWORD`."""
_VARIABLE = ("$", "{{", "%{", "<")
"""What follows a word is filled in, such as the variable after `Authorization: Token`."""
_COMMANDS = ("`", "$(")
"""The shell runs it: `pwd` in backticks is the current folder."""
_EXAMPLE = pattern(r"(?i)example(?!s\b)[\w-]*[\"']?\s*[:=][^\n]*$")
"""The example of an API description, also `headerExample`."""
_PARTLY_FILLED_IN = pattern(r"\{[A-Za-z_]{3,}\w*\}|^base64\(")
_SAMPLE_DOCUMENT = pattern(
    r"[\"'](?:0{8}-0000-[0-9a-f]{4}-[0-9a-f]{4}-0{6}(?!0{6})[0-9a-f]{6}|dummy[-_ ][^\"'\n]*)[\"']"
)
"""Ids that nothing generates."""
_SAMPLE_ACCOUNT = pattern(
    r"(?i)\"(?:project_id|private_key_id|client_email|client_id)\\*\"\s*:\s*\\*\"[^\"\n]*(?:dummy|example|fake|placeholder)"
)
_AWS_SECRET = pattern(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_PRESIGNED = ("x-amz-signature=", "x-amz-security-token=", "x-goog-signature=")
_MADE_UP = pattern(
    r"(?i)://(?:(?:localhost|127(?:\.\d+){3}|\[::1\]|(?:[\w-]+\.)*example\.(?:com|org|net))[:/?]"
    r"|[^\s\"'<>]*?-credential=(.)\1*(?:%2F|[/&]))"
)
"""The host is an example, or the credential is one repeated character."""
_ADDRESS = pattern(r"[^\s\"'<>]*")
_LONGEST_ADDRESS = 4000
_NO_WORDS = pattern(r"\s+|[A-Za-z0-9+/=]{40,}")
_LONGEST_NAME = 200
NAME_BEFORE = pattern(r"([\w.-]+)\\*[\"']?[ \t]*(?:=>|:=|==?|:|->)[ \t]*\\*[\"']?$")
_NAMES_ID = pattern(r"(?i)key_?id|access_?key|user")
_NAMED_PUBLIC = pattern(r"(?i)public[\w.-]*key(?![\s\S]*private)")
_FREE_TEXT = frozenset(("authorization-header", "bearer-token", "connection-string-password", "url-password"))
"""Formats whose secret may be any text."""
_HEADERS = frozenset(("authorization-header", "bearer-token"))
_LONGEST_WORD = 10
_LONGEST_COMMENT = 600
_REMOTE = pattern(r"@[\w.-]+\.(?!svc|local|internal|test)[a-z]{2,}(?![\w.-])")
"""A host with a domain; others are containers, mostly of this machine."""
GOOGLE_KEYS = "Google API keys"
_GOOGLE = "google-api-key"
_MILD = frozenset(("aws-presigned-url", "aws-session-token", _GOOGLE))
"""What expires within days, and what every visitor of a page may have: referrers and APIs restrict it."""
_FOR_TESTS = pattern(r"[sr]k_test_|ya29\.")
"""Keys of a test mode, and tokens that are valid for an hour."""
_OF_SCHEMA = pattern(r"[\"'](?:default|examples?)[\"']\s*:\s*\[?\s*[\"']$")
_COMMENT = pattern(r"^[ \t]*(?:#|//|/\*|<!--|--|;)")
_COMMENT_BESIDE = pattern(r"(?:#|(?<!:)//|/\*|<!--)[^\n]*")
_NOT_LIVE = pattern(
    r"\bDEV\b|(?i:\b(?:dev(?:elopment)?|local(?:ly)?|test(?:s|ing)?)[- ]only\b"
    r"|\bonly (?:for|in) (?:dev|local|test)|\brotated?\b|\bchange[-_ ]?(?:me|it|this)\b"
    r"|\b(?:dummy|fake|placeholder|revoked|expired)\b"
    r"|\bnot an? (?:real |actual |live )?(?:secret|key|token|password)\b)"
)
"""In a comment: what is below or beside it is not in use, or somebody takes care of it."""
_PUBLISHED = pattern(
    r"(?im)^[ \t]*(?:#|//)[^\n]*\b(?:never|not) be (?:checked in(?:to)?|committed)\b[^\"':=]{0,160}"
    r"\b(?:provided|included|here)\b[^\n]{0,40}\b(?:simpl\w+|convenience|demo\w*|samples?|examples?)\b"
)
"""A comment at the top of a published sample."""
_USER = pattern(r"(?i)(?://|\buser(?:[ _]?(?:id|name))?\s*=\s*|\buid\s*=\s*)([^:/@;&\s]+)")
_DATABASE = pattern(
    r"@[^/\s]+/([\w-]+)|;\s*(?:database|initial catalog|dbname)\s*=\s*([^;\s]+)", re.IGNORECASE
)
_ENDS = pattern(r"[\"'`\n]")
_NEAR = pattern(r"@(?:localhost|127\.|\[::1\]|0\.0\.0\.0|host\.docker\.internal)")


class KnownSecret(Struct, frozen=True):
    """The type and position of a secret, never the secret itself."""

    what: str
    line: int
    column: int
    digest: str
    """Tells whether two are the same; never shown."""
    severity: Severity


@functools.lru_cache(maxsize=4096)
def names_secret(name: str, words: tuple[str, ...] = ()) -> bool:
    """Like the redactor, which rather hides too much, but without names that are only about a secret."""
    lowered = _PRODUCT.sub("", name.lower().rpartition(":")[2])  # `…:sub` is a key of a condition
    if is_public_key_name(name):
        return False
    if _ENDS_SO.search(lowered):
        return True
    last = _PARTS.split(name)[-1].lower()
    is_about_one = last in _ABOUT or _NO_SECRETS.search(lowered) is not None
    return not is_about_one and is_secret_name(lowered, words)


def is_public_key_name(name: str) -> bool:
    return _PUBLIC_KEY.match(name.lower()) is not None


def is_about(name: str) -> bool:
    """Whether a name in a secret store says that the value is not a secret: `AWS_REGION`."""
    return not names_secret(f"secret_{name}")


def may_name_secrets(text: str, words: tuple[str, ...] = ()) -> bool:
    """A quick test: False only if no secret-looking name can occur in the text."""
    if "\\" in text:
        return True
    lowered = text.lower()
    return names_pattern((*_ALSO, *words)).search(lowered) is not None


def is_api_description(text: str) -> bool:
    """OpenAPI, a JSON schema, or the definition of a Kubernetes resource: its tokens are examples."""
    return _API.search(text, 0, 1000) is not None


def is_sample_document(text: str) -> bool:
    """JSON with ids such as `00000000-0000-4000-8000-000000000007` or `dummy-1`: test data."""
    return text.lstrip()[:1] in ("{", "[") and _SAMPLE_DOCUMENT.search(text) is not None


def known_in(text: str) -> Iterator[KnownSecret]:
    """The secrets in a text, with type and position."""
    spans = [span for span in sorted(set(_formats().spans(text))) if _counts(text, *span)]
    starts = line_starts(text) if spans else []
    kinds = _kinds(text, {start for start, _ in spans})
    for start, end in spans:
        line = bisect.bisect_right(starts, start)
        digest = hashlib.sha256(text[start:end].encode(errors="replace")).hexdigest()
        format_, what = kinds.get(start, ("", "A secret"))
        before = text[max(0, start - _LONGEST_NAME) : start]
        after = text[end : end + _LONGEST_NAME].partition("\n")[0]
        severity = _severity(format_, text[start:end], before, after)
        if severity is Severity.ERROR and _is_over(format_, text, start, after):
            severity = Severity.WARNING
        if _is_useless(format_, text[max(0, start - _LONGEST_COMMENT) : start], text[end:]):
            severity = Severity.NOTE
        yield KnownSecret(what, line, start - starts[line - 1] + 1, digest, severity)


def _is_over(format_: str, text: str, start: int, after: str) -> bool:
    """Whether a comment says that it is not live, or the certificates with a key expired long ago."""
    is_old_key = format_.startswith("private-key") and is_expired(text.encode(errors="replace"))
    if is_old_key or _PUBLISHED.search(text, max(0, start - _LONGEST_COMMENT), start):
        return True
    return _NOT_LIVE.search(_comments(text, start, after)) is not None


def _is_useless(format_: str, before: str, after: str) -> bool:
    """The key of a made-up service account, or the id of an AWS key without the key."""
    around = f"{before}\n{after[:_LONGEST_COMMENT]}"
    if format_ == "aws-access-key-id":
        return _AWS_SECRET.search(around) is None
    return format_.startswith("private-key") and _SAMPLE_ACCOUNT.search(around) is not None


def _comments(text: str, start: int, after: str) -> str:
    """The comment directly above, and those in the same line."""
    line, *above = text[max(0, start - _LONGEST_COMMENT) : start].split("\n")[::-1]
    own = [line] if _COMMENT.match(line) else []
    return "\n".join((*itertools.takewhile(_COMMENT.match, above), *own, *_COMMENT_BESIDE.findall(after)))


def _severity(format_: str, secret: str, before: str, after: str) -> Severity:
    """By the format and the text; `before` and `after`: what is around it."""
    if format_ == "aws-access-key-id":
        # Useless without the secret access key, which has its own finding.
        return Severity.NOTE if _NAMES_ID.search(before.rpartition("\n")[2]) else Severity.WARNING
    if format_.startswith("private-key"):
        pem = before[before.rfind("-----BEGIN ") :] + secret
        if format_ == "private-key-base64":
            pem = base64.b64decode(secret + "==").decode("latin-1")
        return (
            Severity.WARNING
            if is_placeholder(_NO_WORDS.sub(" ", before))
            else severity_of(quality_of_key(pem))
        )
    if format_ in _FREE_TEXT:
        is_word = format_ in _HEADERS and secret.isalpha() and len(secret) <= _LONGEST_WORD
        # A word that the server expects, such as `Bearer Oracle`.
        is_weak = is_word or quality_of(_basic_password(secret) or secret) is Quality.WEAK
        quality = Quality.WEAK if is_weak else quality_of(secret)
        return _severity_in_address(quality, secret, _ENDS.split(before)[-1], _ENDS.split(after)[0])
    quality = quality_of(secret)
    is_sample = format_ == "jwt" and is_sample_token(secret)
    is_sample = is_sample or (format_ == _GOOGLE and _OF_SCHEMA.search(before) is not None)
    if quality is not Quality.STRONG or _NAMED_PUBLIC.search(before) or is_sample:
        return Severity.NOTE
    if format_ == "jwt" and not ((name := NAME_BEFORE.search(before)) and names_secret(name[1])):
        return Severity.WARNING  # Any signed data may be one.
    mild = format_ in _MILD or _FOR_TESTS.match(secret)
    return Severity.WARNING if mild else Severity.ERROR


def _basic_password(header: str) -> str | None:
    """The password in what follows `Basic`, which is `user:password` in Base64."""
    try:
        user, _, password = base64.b64decode(header, validate=True).decode().partition(":")
    except ValueError:
        return None
    return password if user.isprintable() and password.isprintable() else None


def _severity_in_address(quality: Quality, secret: str, before: str, after: str) -> Severity:
    """Milder for this machine, and for a password that is the name of the user or of the database."""
    is_remote = _REMOTE.match(after) is not None
    if THIS_MACHINE.search(f"{before} {after}"):
        return Severity.NOTE
    if secret in _names_in(before, after):
        return Severity.WARNING if is_remote else Severity.NOTE
    return Severity.ERROR if is_remote and quality is Quality.PLAIN else severity_of(quality)


def _names_in(before: str, after: str) -> Iterator[str]:
    """The user and the database of the address around a password."""
    for match in (*_USER.finditer(before), *_USER.finditer(after), *_DATABASE.finditer(after)):
        yield match[match.lastindex or 0]


def _counts(text: str, start: int, end: int) -> bool:
    secret = text[start:end]
    if _NAME_OF_ONE.fullmatch(secret) is not None or secret.startswith(_COMMANDS):
        return False
    if _PARTLY_FILLED_IN.search(text[start : end + 1]):
        return False
    if text[max(start - 24, 0) : start].lower().endswith(_PRESIGNED) and _is_made_up(text, start, end):
        return False
    known = "${" not in secret and not is_placeholder(secret) and _NEAR.match(text, end) is None
    return known and not text.startswith(_VARIABLE, end) and _EXAMPLE.search(text, start - 80, start) is None


def _is_made_up(text: str, start: int, end: int) -> bool:
    """Whether the address around a signature is only a sample."""
    scheme = text.rfind("://", max(start - _LONGEST_ADDRESS, 0), start)
    if scheme < 0 or _ADDRESS.fullmatch(text, scheme, start) is None:
        return False
    return _MADE_UP.match(text, scheme, end + _LONGEST_ADDRESS) is not None


def is_known(text: str) -> bool:
    return next(known_in(text), None) is not None


def line_starts(text: str) -> list[int]:
    """The offset of each line."""
    return [0, *(match.end() for match in re.finditer(r"\n", text))]


@functools.cache
def _formats() -> Redactor:
    return Redactor(settings=RedactionSettings(off=frozenset({"entropy"})))


@functools.cache
def _one_by_one() -> tuple[tuple[Layer, Redactor], ...]:
    every = layers()
    ids = frozenset(layer.id for layer in every)
    return tuple(
        (layer, Redactor(settings=RedactionSettings(off=ids - {layer.id})))
        for layer in every
        if layer.id != "entropy"
    )


def _kinds(text: str, starts: set[int]) -> dict[int, tuple[str, str]]:
    """Id and name of the format of each secret. Only computed for findings, which are rare."""
    names: dict[int, tuple[str, str]] = {}
    for layer, redactor in _one_by_one() if starts else ():
        name = layer.what.partition(":")[0].partition(" (")[0]
        for start, _ in redactor.spans(text):
            names.setdefault(start, (layer.id, name))
        if starts <= names.keys():
            break
    return names
