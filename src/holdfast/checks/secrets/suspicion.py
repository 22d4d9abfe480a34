"""Classifies a text by its argument or name. Pure.

    KNOWN    an argument that the provider marks as a secret
    RANDOM   a random text under a secret-looking name, or as a password in a command
    PASSWORD any other text under a name that ends in `password` and the like

The first one that fits applies. Secrets of known formats have their own rule.
"""

from __future__ import annotations

import base64
import hashlib
from enum import Enum

from msgspec import Struct

from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets.evidence import (
    Quality,
    is_placeholder,
    is_stored_elsewhere,
    quality_of,
    severity_of,
)
from holdfast.checks.secrets.known_secrets import is_known
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern
from holdfast.secrets.entropy import is_secret_name, looks_random

_PASSWORD = pattern(r"(?i:password|passwd|passphrase)s?$|(?:^|[_.-])(?i:pass)$|[a-z]Pass$|MYSQL_PWD$")
_IDENTIFIER = pattern(r"[A-Za-z][A-Za-z_./-]*")
_STORE = pattern(r"[A-Za-z][\w./]*-[\w./-]*")
_NO_PASSWORD = pattern(
    r"(?i)$|(?:true|false|on|off|yes|no|none|null|required|optional|enabled|disabled|any|default|auto|random|oobeSystem)$"
    r"|[$<({*\[@]|\.{0,2}/|~/|[a-z][a-z0-9+.-]*:/?/|(?:repo|project_path|organization|spiffe|system:serviceaccount):"
    r"|(?:[\w-]+-)?(?:site|domain|dns|email)-verification=|MS=ms|v=(?:spf1|DKIM1|DMARC1|STSv1|TLSRPTv1)\b"
    r"|(?:[REPH]S(?:256|384|512)|ES256K|EdDSA|AES[-_]?\d*(?:[-_][A-Z0-9]+)*|SHA[-_]?\d+)$|\d{1,3}$|pub[0-9a-f]{32}$|pk_(?:live|test)_|configcat-sdk-"
)
_PUBLIC_KEY = pattern(
    r"\s*-----BEGIN (?:[A-Z0-9]+ )*(?:PUBLIC KEY|CERTIFICATE)\b(?![\s\S]*PRIVATE KEY)"
    r"|(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-[\w-]+|sk-[\w.@-]+) AAAA[A-Za-z0-9+/]"
    r"|MII\w{3}ANBgkqhkiG9w0BAQEFAAOC|MFkwEwYHKoZIzj0CAQYI"
)
_PEM_IN_BASE64 = "LS0tLS1CRUdJTi"
_UUID = pattern(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_IDENTIFIED = pattern(
    r"(?i)(?:[gu]uid|(?<![a-z])id)$|(?!.*(?:secret|passw(?:or)?d|passphrase|token|key|credential)s?$).*version"
)
"""Names of identifiers, with which a UUID is no secret."""
_SAYS_SECRET = pattern(r"(?i)secret|passw|token| -\w")
_LONGEST_ID = 32
_COMMAND = pattern(
    r"ConvertTo-SecureString|Read-Host|New-Object|Get-[A-Za-z]*(?:Secret|Credential|Password|Parameter|Token)\w*"
)
_SEALED_DATA = pattern(
    r"(\bkind:[ \t]*[\"']?SealedSecret\b(?:(?!\n[ \t]*(?:---|kind:))[\s\S]){0,2000}?"
    r"\n([ \t]*)encryptedData:[ \t]*\r?\n)((?:\2[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\r?\n)++)"
)
_VISIBLE = pattern(r"[^\n]")


class SecretKind(Enum):
    KNOWN = "known"
    RANDOM = "random"
    PASSWORD = "password"  # noqa: S105 - a kind, not one


class SuspiciousText(Struct, frozen=True):
    kind: SecretKind
    name: str
    """Empty if the text is random and its name is only in the source line."""
    place: Place
    severity: Severity
    address: str | None = None
    type: str | None = None
    """The type of the resource, for `KNOWN`."""
    digest: str | None = None
    """Tells whether two are the same; never shown."""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def is_harmless(text: str) -> bool:
    """A switch, a reference, a path, an address: never a secret."""
    harmless = _NO_PASSWORD.match(text) is not None or is_stored_elsewhere(text)
    return harmless or is_command(text) or is_public_key(text)


def is_public_key(text: str) -> bool:
    """A public key or certificate, in PEM, in the format of SSH, or in base64."""
    if text.startswith(_PEM_IN_BASE64):
        try:
            text = base64.b64decode(text).decode("latin-1")
        except ValueError:
            return False
    return _PUBLIC_KEY.match(text) is not None


def is_identifier(name: str, text: str) -> bool:
    """A UUID under a name such as `role_guid` or `secrets_version`."""
    return is_uuid(text) and _IDENTIFIED.search(name) is not None


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def is_key_id(name: str, text: str, around: str) -> bool:
    """`store_access_key` beside `store_secret_key`: only the other one is a secret. `around`: the file."""
    prefix, ending, rest = _letters(name).rpartition("accesskey")
    if not ending or rest or len(text) > _LONGEST_ID:
        return False
    others = (f"{prefix}secret",) if prefix else ("secretkey", "secretaccesskey")
    return any(other in _letters(around) for other in others)


def _letters(text: str) -> str:
    return text.lower().replace("_", "").replace("-", "")


def severity_by_name(name: str, text: str, *, marked: bool = False) -> Severity:
    """Of a text that only its name makes suspicious. A UUID mostly refers to something.

    `marked`: the provider, or a command such as `docker login -p`, takes it as a secret.
    """
    if is_uuid(text):
        return Severity.ERROR if marked and _SAYS_SECRET.search(name) else Severity.WARNING
    return severity_of(quality_of(text))


def is_command(text: str) -> bool:
    """A PowerShell command that creates or fetches a secret: `ConvertTo-SecureString` and the like."""
    return _COMMAND.fullmatch(text) is not None


def ends_as_password(name: str) -> bool:
    return _PASSWORD.search(name) is not None


def classify_text(
    name: str, text: str, bits: float, *, password: bool, marked: bool = False
) -> tuple[SecretKind, Severity] | None:
    """Classifies a text under a secret-looking name; `password`: any text there is a password."""
    if is_harmless(text) or is_placeholder(text) or is_known(text) or is_identifier(name, text):
        return None
    quality = quality_of(text)
    if looks_random(text, bits) and (quality is Quality.STRONG or not password):
        return SecretKind.RANDOM, severity_by_name(name, text, marked=marked)
    if not password or names_a_secret(text):
        return None
    return SecretKind.PASSWORD, severity_of(quality)


def names_a_secret(text: str) -> bool:
    """The name of a secret, also with that of one key in it (`acme-db:password`), or a sentence."""
    store, _, key = text.rpartition(":")
    name = key if _STORE.fullmatch(store) else text
    names = is_secret_name(name) or ("/" in name and ends_as_password(name))
    return " " in text or (names and _IDENTIFIER.fullmatch(name) is not None)


def without_sealed(text: str) -> str:
    """Blanks the encrypted data of each `SealedSecret`. Lines and columns stay the same."""
    if "SealedSecret" not in text:
        return text
    return _SEALED_DATA.sub(lambda match: match[1] + _VISIBLE.sub(" ", match[3]), text)
