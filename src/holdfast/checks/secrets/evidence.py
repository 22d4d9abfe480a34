"""How strong the evidence for a live secret is, by its text and by its file. Pure.

Every rule about secrets takes its severity from here: an error needs a strong text in a live file.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from enum import Enum

from holdfast.checks.model.interface import Severity
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import looks_random

THIS_MACHINE = pattern(r"\b(?:localhost|127\.0\.0\.1|host\.docker\.internal)\b|\[::1\]")
"""A secret for such a host opens nothing elsewhere."""
_MADE_UP = pattern(
    r"(?i)(?:^|/)(?:tests|testing|test[-_]?data|testfixtures?|wiremock|cassettes|pacts|__tests__|spec|e2e"
    r"|(?:smoke|unit|integration|acceptance|functional|load)[-_]?tests?"
    r"|local(?:host)?|local[-_](?:dev|ssl|certs?|tls|https?)|dev[-_](?:ssl|certs?)|src/test|test/(?:resources|fixtures?|data)|vendor"
    r"|docs?|lessons?|tutorials?|quickstarts?|workshops?|exercises|playground|proof-of-concept[^/]*|_ytt_lib|node_modules|third[-_]party"
    r"|\.vscode|\.idea|\.devcontainer)/"
    r"|(?:^|[/._-])(?:mocks?|fakes?|stubs?|expected|fixtures?|(?:test|signature)[-_]?vectors?|vectors|examples?|demos?|samples?|localhost|snakeoil|self[-_]?signed)(?:[/._-]|$)"
    r"|(?:^|[/._-])dist(?:[._-][^/]*)?$|(?:^|/)(?:test[-_][^/]*|(?:pytest|tox)\.ini)$"
    r"|(?:^|/)test/(?:[^/]+/)*[^/]+\.(?:sh|bash|bats|ps1|py|js|ts|rb|http)$"
    r"|(?:^|/)[^/]+[-_]tests?/(?:[^/]+/)*[^/]+\.(?:tf|tofu|sh|bash|py|go|json|tpl|ya?ml)$"
    r"|(?:^|/)golden(?:s|[-_]?files?)?/|[._](?:spec|golden)\.(?:json|ya?ml|js|ts|rb|py)$|\.tftest\.hcl$|\.md\.[a-z]+$|(?:^|/)(?:docker-)?compose[^/]*\.ya?ml$"
)
_PLACEHOLDER = pattern(
    r"(?i)example|placeholder|change[-_ ]?(?:me|it|this)|replace[-_ ]?(?:me|this|with|after|by|in)\b"
    r"|your(?:[-_ ]|company|org|domain|team)|dummy|redacted|sample|\btbd\b|fake|\bmock|populated?\b"
    r"|set[-_ ]?(?:me|manually|later)\b|update[-_ ]?me|to[-_ ]?be[-_ ]|\btodo\b|fixme|insert[-_ ]"
    r"|do[-_ ]?not[-_ ]?use|not[-_ ]?a[-_ ]?real|not[-_ ]?used|not[-_ ]?for[-_ ]?prod"
    r"|devstoreaccount1|^(?:Eby8vdM02xNOcqFlq|C2y6yDjf5/R\+ob0N8A7Cgv30)"
    r"|x{4,}|xyz123|\.\.\.|…|\*{3}|<[^>]*>|(.)\1{7,}"
)
_FILLED_IN = pattern(
    r"(?:[A-Z]+\d?_)+[A-Z]+\d?|_+[A-Z][A-Z0-9_]*_+|__\w+__|[xX]{2,}|%+\w+%+|@[A-Z][A-Z0-9_]*@|\$[A-Z][A-Z0-9_]*|\$+[{(].*"
    r"|#?\{+[\w .$-]+\}+#?|\[+[A-Za-z _-]+\]+|\(\([^()]*\)\)|%24(?:%7B|\{).*"
)
"""A name in place of the value: `DB_PASSWORD`, `$TOKEN`, `__TOKEN__`, `%TOKEN%`, `((token))`."""
_STORED = pattern(
    r"(?:op|ssm|vault|aws|azure|gcp|env|sm|enc|ref|(?:aws|gcp|az|azure)[-_]?(?:sm|ssm|kv|kms|secrets?|keyvault)|gsm|akv"
    r"|(?:bw|bws|doppler|infisical|conjur|akeyless|chamber|berglas|sops|keyring|keychain|keepass|lpass|onepassword)"
    r"|secret(?:s?-?manager|ref)|key-?vault):|ref\+|[a-z][a-z0-9+.-]*+://(?![^/\s]*:[^/\s]*@)|arn:|projects/[^/]+/secrets/"
    r"|!(?:vault|secret|ref|sub|getatt|env|reference)\b|ENC[\[(]|\{cipher\}|encrypted:|AQICAH|CiQA",
    re.IGNORECASE,
)
"""A reference to a secret store, an address, or what a key elsewhere decrypts."""
_SEALED = pattern(
    rb"\A\s*(?:\{?\s*\"?\w+\"?\s*[:=]\s*\"?ENC\[|\$ANSIBLE_VAULT;|\0GITCRYPT\0|age-encryption\.org/|Salted__|U2FsdGVkX1"
    rb"|-----BEGIN (?:AGE|PGP MESSAGE|PKCS7|CMS)|[\x84\x85\x8c\xc1])"
    rb"|^(?:sops_(?:version|mac)=|(?:#|\w+=[\"']?)ENC\[AES|[\"']?DOTENV_PUBLIC_KEY)",
    re.MULTILINE,
)
"""SOPS, Ansible Vault, git-crypt, age, OpenSSL, OpenPGP, eyaml, dotenvx."""
_SAMPLE_CLAIM = pattern(
    r"1234567890|J(?:ohn|ane) Doe|1516239022|supabase-demo|\"role\"\s*:\s*\"anon\"|\"(?:foo|hello|some)\""
    r"|^\s*\{\s*\}"
)
"""Of the usual sample tokens, and of those that every client has."""
_TIME = pattern(r"\"(exp|iat)\"\s*:\s*(\d{1,11})")
_DAY = 24 * 3600
_LONG_AGO = 1_700_000_000
"""In 2023."""
_LONG_AGO_DATE = b"20231114"
_WORDS = frozenset(
    ("password", "passwd", "pass", "secret", "pw", "pwd", "user", "token",
     "x-oauth-basic", "x-access-token", "none", "unset", "header")
)  # fmt: skip
_FAMILIAR = pattern(
    r"(?i)p[a@4][s$5]{1,2}(?:w[o0]?r?d)?|pwd?|adm[i1]n(?:istrator)?|r[o0]{2}t|user|guest|t[e3]st(?:ing|s)?|demo"
    r"|local(?:host|dev)?|s[e3]cr[e3]t|token|w[e3]lc[o0]me|qwerty|asdf|letmein|hello|world|super|strong|foo|bar"
    r"|vagrant|raspberry|calvin|grafana|prom-?operator|zabbix|elastic|rancher|harbor|keycloak|tomcat|sonar"
    r"|postgres(?:ql)?|mysql|mariadb|mongo(?:db)?|redis|rabbit(?:mq)?|minio|kafka|sql|db|default|dev|temp(?:orary)?"
    r"|tmp|values?|unused|empty|null|key|some|my|the|for|with|abc|xyz|\d{4}|0?123\d*|[^A-Za-z0-9]+"
)
"""Parts of passwords that everybody tries first, and of texts that only stand in for one."""
_WORD = pattern(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_NAME = pattern(r"[A-Za-z]+(?:[-_./][A-Za-z]+)*(?:[-_]v?\d{1,2})?|[^A-Za-z]*")
_MOST_LEFT = 3
_SHORTEST_RANDOM = 8
_ESCAPES = pattern(r"\\+[nrt]")
_BEGIN = pattern(r"[\s\S]*?KEY(?: BLOCK)?-----")
_HEADER = pattern(r"(?m)^\s*[A-Za-z-]+: [^\r\n]*$")
_BASE64 = pattern(r"[^A-Za-z0-9+/]")
_KEY = pattern(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-(?!----)[^-]*)*")
_ENCRYPTED_PUTTY = pattern(rb"PuTTY-User-Key-File-\d: [^\r\n]*\r?\nEncryption: (?!none)")
_CERTIFICATE = pattern(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END")
_LOCALHOST = pattern(
    rb"localhost|minica|CommonName|example\.(?:com|org|net)|[a-z]\.(?:test|local)(?![a-z.-])"
)
_UNTIL = pattern(rb"\d{12}Z(?:\x17\r(\d{12})|\x18\x0f(\d{14}))Z")
"""When a certificate expires, with a year of two or of four digits."""
_OPENSSH = b"openssh-key-v1\0\0\0\0\x04none"
_LONG_FORM = 0x80


class Quality(Enum):
    STRONG = "random, or a complete key"
    PLAIN = "words, as in a password that somebody made up, or an encrypted key"
    WEAK = "a placeholder, or a password that everybody knows"


def severity_of(quality: Quality) -> Severity:
    """Of a text that only its name or its place makes suspicious."""
    by_quality = {Quality.STRONG: Severity.ERROR, Quality.PLAIN: Severity.WARNING}
    return by_quality.get(quality, Severity.NOTE)


def is_made_up(path: str) -> bool:
    """Whether a path says that its content is for tests, documentation or one machine, or to be filled in."""
    return _MADE_UP.search(path) is not None


def is_placeholder(text: str) -> bool:
    """A placeholder such as `changeme` or `$TOKEN`, a key that everybody knows, or a reference."""
    text = text.strip()
    filled_in = _FILLED_IN.fullmatch(text) is not None or is_stored_elsewhere(text)
    return filled_in or text.lower() in _WORDS or _PLACEHOLDER.search(text) is not None


def is_stored_elsewhere(text: str) -> bool:
    """A reference (`op://vault/item`, `ref+awsssm://…`) or a text that is useless without a key elsewhere."""
    return _STORED.match(text) is not None


def is_sealed(inside: bytes) -> bool:
    """Whether a whole file is encrypted, also by OpenTofu."""
    return _SEALED.search(inside) is not None or (
        b'"encrypted_data"' in inside and b'"resources"' not in inside
    )


def is_sample_token(text: str) -> bool:
    """A JSON Web Token that everybody has, or that was valid for a day at most: it expired in Git."""
    parts = text.split(".")
    claims = (
        _decode(parts[1].replace("-", "+").replace("_", "/")).decode(errors="replace")
        if len(parts) > 1
        else ""
    )
    times = {name: int(value) for name, value in _TIME.findall(claims)}
    expires = times.get("exp")
    is_over = expires is not None and expires < max(_LONG_AGO, times.get("iat", 0) + _DAY)
    return is_over or _SAMPLE_CLAIM.search(claims) is not None or is_placeholder(claims)


def quality_of(text: str) -> Quality:
    """How likely a text is a secret that is in use."""
    left = _FAMILIAR.sub("", text)
    if is_placeholder(text) or len(left) <= min(_MOST_LEFT, len(text) - 1):
        return Quality.WEAK
    if _is_counted(text.rpartition("_")[2]):
        return Quality.WEAK
    is_random = looks_random(text) and len(_WORD.sub("", left)) >= _SHORTEST_RANDOM
    return Quality.STRONG if is_random else Quality.PLAIN


def _is_counted(text: str) -> bool:
    """Whether it encodes bytes at equal distances, such as 0, 1, 2, …: a test vector."""
    try:
        decoded = (bytes.fromhex(text), _decode(text))
    except ValueError:
        decoded = (b"", _decode(text))
    steps = ({(after - before) % 256 for before, after in itertools.pairwise(data)} for data in decoded)
    return len(text) >= _SHORTEST_RANDOM and any(len(step) == 1 for step in steps)


def looks_like_credential(text: str) -> bool:
    """Random, or letters with digits or signs as in a password; not words, or the name of a resource."""
    quality = quality_of(text)
    return quality is Quality.STRONG or (quality is Quality.PLAIN and _NAME.fullmatch(text) is None)


def quality_of_key(pem: str) -> Quality:
    """Of the text of a private key: complete and not encrypted, or a sample that only looks like one."""
    if "ENCRYPTED" in pem:
        return Quality.PLAIN
    body = _BEGIN.sub("", _ESCAPES.sub("\n", pem), count=1).partition("-----")[0]
    data = _decode(_HEADER.sub("", body))
    if data.startswith((b"\x94", b"\x95", b"\xc5", _OPENSSH)):  # OpenPGP, OpenSSH
        return Quality.STRONG
    return Quality.STRONG if _is_complete(data) and _is_valid(data) else Quality.PLAIN


def _is_valid(der: bytes) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - few repositories have a key
    from cryptography.hazmat.primitives.serialization import load_der_private_key  # noqa: PLC0415

    try:
        load_der_private_key(der, None)
    except UnsupportedAlgorithm:
        return True
    except (ValueError, TypeError):
        return False
    return True


def _is_complete(der: bytes) -> bool:
    """Whether it is a sequence of the length that it states."""
    if len(der) < _MOST_LEFT or der[0] != ord("0"):
        return False
    count = der[1] - _LONG_FORM
    return len(der) == (2 + der[1] if count < 0 else 2 + count + int.from_bytes(der[2 : 2 + count]))


def holds_usable_key(inside: bytes) -> bool:
    """Whether a key in the file is complete and not encrypted. Formats other than PEM count as such."""
    keys = _KEY.findall(inside.decode("latin-1"))
    if not keys:
        return _ENCRYPTED_PUTTY.match(inside) is None
    return any(quality_of_key(key) is Quality.STRONG for key in keys)


def is_for_localhost(inside: bytes) -> bool:
    """Whether a certificate in the file names this machine, or nothing but a placeholder."""
    return any(_LOCALHOST.search(_decode(match[1].decode())) for match in _CERTIFICATE.finditer(inside))


def is_expired(inside: bytes, day: bytes = _LONG_AGO_DATE) -> bool:
    """Whether it contains certificates, and all of them expired before this day."""
    certificates = (_decode(match[1].decode()) for match in _CERTIFICATE.finditer(inside))
    ends = [match.groups() for match in map(_UNTIL.search, certificates) if match is not None]
    dates = (long or (b"20" if short < b"50" else b"19") + short for short, long in ends)
    return bool(ends) and max(dates) < day


def _decode(text: str) -> bytes:
    body = _BASE64.sub("", text)
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError):
        return b""
