"""Conditions of a statement: operators, values that fit them, and whether they restrict anything. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.checks.iam.arns import has_wildcard, parse_arn
from holdfast.checks.iam.document import Fields, Issue, Node, is_list, same_word
from holdfast.config.problems import did_you_mean
from holdfast.hcl.reader import Unknown
from holdfast.kernel.patterns import pattern

OPERATORS: Final = (
    *("StringEquals", "StringNotEquals", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase"),
    *("StringLike", "StringNotLike"),
    *("NumericEquals", "NumericNotEquals", "NumericLessThan", "NumericLessThanEquals"),
    *("NumericGreaterThan", "NumericGreaterThanEquals"),
    *("DateEquals", "DateNotEquals", "DateLessThan", "DateLessThanEquals"),
    *("DateGreaterThan", "DateGreaterThanEquals"),
    *("Bool", "BinaryEquals", "IpAddress", "NotIpAddress"),
    *("ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike", "Null"),
)
_PREFIXES: Final = ("ForAnyValue:", "ForAllValues:")
_IF_EXISTS: Final = "IfExists"
_NUMBER = pattern(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_DATE = pattern(
    r"\d+|-?\d{1,9}(?:-\d{1,2}(?:-\d{1,2})?)?"
    r"(?:[Tt]\d{2}(?::\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?(?:[Zz]|[-+]\d{2}(?::?\d{2})?)?)?"
)
_LONGEST: Final = 100
"""No number, date or IP range is longer."""
_EXTERNAL_ID: Final = "sts:externalid"
_EXTERNAL = pattern(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
_PATTERNS: Final = ("StringLike", "StringNotLike")


def base_operator(operator: str) -> str:
    """An operator without `ForAnyValue:`, `ForAllValues:` and `IfExists`."""
    for prefix in _PREFIXES:
        operator = operator.removeprefix(prefix)
    return operator.removesuffix(_IF_EXISTS)


def condition_issues(value: Node | None) -> Iterator[Issue]:
    if value is None or isinstance(value.content, Unknown):
        return
    if not isinstance(value.content, Fields):
        yield Issue("`Condition` must be an object of operators with keys and values", value)
        return
    for operator, tests in value.fields.pairs:
        name = str(operator.content)
        kind = base_operator(name)
        if kind not in OPERATORS or name == f"Null{_IF_EXISTS}":
            near = same_word(kind, OPERATORS)
            hint = f"Write `{near}`." if near and near != kind else did_you_mean(kind, OPERATORS)
            yield Issue(f"there is no condition operator `{name}`", operator, hint)
        elif not isinstance(tests.content, Fields | Unknown):
            yield Issue(f"`{name}` must be an object of keys and values", tests)
        for key, values in tests.fields.pairs:
            yield from _values(kind, key, values)


def _values(operator: str, key: Node, values: Node) -> Iterator[Issue]:
    if isinstance(values.content, Unknown):
        return
    if is_list(values) and not values.items and operator != "Null":
        yield Issue(f"the condition on `{key.content}` has no value", values)
    for item in values.items:
        if isinstance(item.content, Unknown):
            continue
        if isinstance(item.content, Fields | tuple) or item.content is None:
            yield Issue(
                f"the condition on `{key.content}` must compare with a string or a list of strings", item
            )
        elif item.known and (misfit := _misfit(operator, item.content)) is not None:
            yield Issue(f"the condition on `{key.content}`: `{item.content}` is {misfit}", item)
        elif str(key.content).lower() == _EXTERNAL_ID:
            yield from _external(operator, item)


def _misfit(operator: str, content: object) -> str | None:
    """Why this operator can never match a value; None if it can."""
    text = content if isinstance(content, str) else str(content).lower()
    if "${" in text:
        return None
    text = text if len(text) <= _LONGEST else "…"
    if operator in ("Bool", "Null"):
        return None if text.lower() in ("true", "false") else "neither true nor false"
    if operator.startswith("Numeric"):
        return None if _NUMBER.fullmatch(text) else "not a number"
    if operator.startswith("Date"):
        return None if _DATE.fullmatch(text) else "not a date"
    if operator in ("IpAddress", "NotIpAddress"):
        return None if _is_range(text) else "not an IP range"
    return None


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _external(operator: str, item: Node) -> Iterator[Issue]:
    text = item.text
    if text is None or "${" in text:
        return
    checked = re.sub(r"[*?]", "xx", text) if operator in _PATTERNS else text
    if operator.startswith("String") and not _EXTERNAL.fullmatch(checked):
        yield Issue("an external id has 2 to 1224 characters: letters, digits, and `+=,.@:/-_`", item)


_EVERYTHING: Final = pattern(r"[*?:/]*|arn:[*?:]*|o-[*?]*(?:/.*)?", re.IGNORECASE)
_OF_THE_CALLER: Final = pattern(r"\$\{(?!aws:resource)[^}:]*:[^}]*\}", re.IGNORECASE)
"""Only a policy variable: the caller determines its value, unless it is about the resource.

Those have a colon (`${aws:username}`); `${topic_arn}` is a variable of a template."""
_WIDEST: Final = {4: 8, 6: 32}
_GLOBAL_NAMES: Final = ("s3",)
"""Services whose ARNs have no account: `arn:aws:s3:*:*:logs` is still one bucket."""


# AWS decides in a similar way whether a policy is public: `arn:aws:sns:*:*:*` matches everyone, and so does a
# range of half of all addresses.


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
    is_arn = key.endswith("arn") or word.startswith("arn:")
    return is_arn and operator in ("StringLike", "ArnLike", "ArnEquals") and _is_any_arn(word)


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
