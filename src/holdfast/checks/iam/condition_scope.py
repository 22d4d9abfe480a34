"""Whether what a condition compares with keeps anybody out. Pure.

AWS judges a policy in much the same way when it calls it public: `arn:aws:sns:*:*:*` is everybody's, and so
is a range of half of all addresses.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from holdfast.checks.iam.arns import arn_of, wild
from holdfast.kernel.patterns import pattern

_EVERYTHING: Final = pattern(r"[*?:/]*|arn:[*?:]*|o-[*?]*(?:/.*)?", re.IGNORECASE)
_OF_THE_CALLER: Final = pattern(r"\$\{(?!aws:resource)[^}]*\}", re.IGNORECASE)
"""A variable and nothing else: whoever asks fills it in, unless it is about the resource."""
_WIDEST: Final = {4: 8, 6: 32}
_ANYBODYS_NAME: Final = ("s3",)
"""Services whose ARNs name no account: `arn:aws:s3:*:*:logs` is one bucket all the same."""


def narrow(key: str, operator: str, words: Sequence[str]) -> bool:
    """Whether none of the values matches everybody. What is not known is not among them."""
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
    """As S3 sees it: broader than /8, or /32 for version 6, unless it is private."""
    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return found.prefixlen < _WIDEST[found.version] and not found.is_private


def _is_any_arn(text: str) -> bool:
    """Whether it matches things in everybody's accounts."""
    arn = arn_of(text)
    if arn is None:
        return text[0] in "*?" and not re.search(r"[0-9]{12}", text)
    if not wild(arn.account):
        return bool(arn.account == "" and not arn.resource.strip("*?/"))
    return arn.service not in _ANYBODYS_NAME or arn.resource[:1] in "*?"
