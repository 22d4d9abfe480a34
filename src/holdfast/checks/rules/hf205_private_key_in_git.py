from __future__ import annotations

import re

from holdfast.checks.model.contents import ContentKind, holds_key
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.committed_files import Content, Suspect, in_git, name_of
from holdfast.kernel.patterns import pattern

_ALWAYS = pattern(
    r"^id_(?:rsa|dsa|ecdsa|ecdsa_sk|ed25519|ed25519_sk)$|\.(?:ppk|p12|pfx|jks|keystore|kdbx)$", re.IGNORECASE
)
_PERHAPS = pattern(r"\.(?:pem|key|p8|pk8|priv|rsa|gpg|asc)$", re.IGNORECASE)
_LOOKED_INTO = pattern(r"^[^.]+$|\.(?:crt|cer|cert|txt|json|ovpn|pub|bak|old)$", re.IGNORECASE)


def _judge(path: str, content: Content | None) -> Suspect | None:
    name = name_of(path)
    if _ALWAYS.search(name):
        return Suspect("a private key or key store")
    perhaps = _PERHAPS.search(name)
    if content is None:
        named = perhaps and "pub" not in name.lower() and not re.search(r"(?i)cert|chain|ca\.|bundle", name)
        return Suspect("a possible private key", severity=Severity.WARNING) if named else None
    if perhaps or _LOOKED_INTO.search(name):
        return Suspect(ContentKind.KEY.value) if holds_key(content() or b"") else None
    return None


RULE = Rule(
    id="HF205",
    title="Private key in Git",
    why="Everyone who ever cloned the repository can use the key unnoticed.",
    fix="Replace the key wherever it is trusted, run `git rm --cached`, and store the new one in a "
    "secret store.",
    severity=Severity.ERROR,
    **in_git(_judge, ContentKind.KEY),
    secret=True,
)
