"""Whether the values of a condition restrict who can use a statement. Pure.

AWS decides in a similar way whether a policy is public: `arn:aws:sns:*:*:*` matches everyone, and so does a
range of half of all addresses.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from holdfast.checks.iam.arns import has_wildcard, parse_arn
from holdfast.kernel.patterns import pattern

_EVERYTHING: Final = pattern(r"[*?:/]*|arn:[*?:]*|o-[*?]*(?:/.*)?", re.IGNORECASE)
_OF_THE_CALLER: Final = pattern(r"\$\{(?!aws:resource)[^}]*\}", re.IGNORECASE)
"""Only a policy variable: the caller determines its value, unless it is about the resource."""
_WIDEST: Final = {4: 8, 6: 32}
_GLOBAL_NAMES: Final = ("s3",)
"""Services whose ARNs have no account: `arn:aws:s3:*:*:logs` is still one bucket."""


def is_narrow(key: str, operator: str, words: Sequence[str]) -> bool:
    """Whether no value matches everyone. Unknown values are not among them."""
    return not any(_wide(key, operator, word) for word in words)


def _wide(key: str, operator: str, word: str) -> bool:
    if _EVERYTHING.fullmatch(word) or _OF_THE_CALLER.fullmatch(word):
        return True
    if operator == "Bool":
        return word.lower() != "true"
    if operator == "IpAddress":
        return _is_wide_range(word)
    return key.endswith("arn") and operator in ("StringLike", "ArnLike", "ArnEquals") and _is_any_arn(word)


def _is_wide_range(text: str) -> bool:
    """As S3 defines it: broader than /8, or /32 for IPv6, unless it is private."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return network.prefixlen < _WIDEST[network.version] and not network.is_private


def _is_any_arn(text: str) -> bool:
    """Whether it matches resources of any account."""
    arn = parse_arn(text)
    if arn is None:
        return text[0] in "*?" and not re.search(r"[0-9]{12}", text)
    if not has_wildcard(arn.account):
        return bool(arn.account == "" and not arn.resource.strip("*?/"))
    return arn.service not in _GLOBAL_NAMES or arn.resource[:1] in "*?"
