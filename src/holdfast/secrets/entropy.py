"""Random-looking values under secret names: `password = "…"`, `"api_key": "…"`, `TOKEN=…`.

A value counts as a secret if it has at least eight characters, at least `BITS` bits of entropy per character,
and a part that is not made of words: it mixes letters and digits, or upper and lower case. References, paths,
resource addresses, ARNs, URLs, templates and labelled hashes do not count.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator

from holdfast.kernel.patterns import pattern
from holdfast.secrets.finder import Span, any_of

BITS = 2.75
SHORTEST_VALUE = 8
WORDS = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "apikey", "api-key",
    "private_key", "privatekey", "private-key", "access_key", "accesskey", "access-key",
    "account_key", "accountkey", "encryption_key", "signing_key", "secretkey", "credential",
    "connection_string",
)  # fmt: skip
"""A name is secret if it contains one of these, in upper or lower case."""
HARMLESS_ENDINGS = (
    "id", "ids", "arn", "name", "names", "path", "file", "dir", "folder", "url", "uri", "endpoint", "version",
    "type", "ttl", "length", "count", "policy", "ref", "reference", "status", "enabled", "expiry", "expires",
    "expiration", "source", "created", "updated", "date", "time", "address", "region", "stage", "stages",
)  # fmt: skip
"""Unless it ends in one of these: `secret_name`, `token_type`, `private_key_path`."""

_NAME_REST = pattern(r"[\w.-]*")
_SEPARATOR = r"\\*[\"']?[ \t]*(?:=>|:=|==?|:)[ \t]*"
_BEFORE_BARE = r"(?<!:)"  # a colon inside a word separates parts of an ARN, not a name from its value
_QUOTED = r"(?P<open>\\*[\"'])(?P<quoted>(?:(?!(?P=open))[^\r\n])*)(?P=open)"
_BARE = r"(?P<bare>[^\s\"'`\\,;&<>(){}\[\]][^\s\"'`\\,;&<>()]*)"
_ASSIGNED = pattern(f"{_SEPARATOR}(?:{_QUOTED}|{_BEFORE_BARE}{_BARE})")
_CHANGED_TO = pattern(rf"[ \t]*->[ \t]*{_QUOTED}")
_SEGMENT = pattern(r"[A-Za-z0-9!#$%^&*+=~?|<>(){}\[\]]+")
_SIGNS = pattern(r"[^A-Za-z0-9]+")
_WORDLIKE = pattern(
    # password, PASSWORD2, myPassword. Written so that a text matches in one way only: otherwise forty
    # capitals with another character at the end would backtrack for years.
    r"(?:[A-Z]?[a-z]+|[A-Z]{2,}[a-z]{2,}|[A-Z]+(?![A-Za-z]))"
    r"(?:[A-Z](?:[A-Z]{2,})?[a-z]{2,})*(?:[A-Z]{2,}(?![A-Za-z]))?[0-9]{0,4}"
    r"|[a-z]+[0-9]{1,2}[a-z]+"  # s3bucket, ipv4address
    r"|[0-9]+[A-Za-z]{0,3}"  # 100GB
)
_SHORTEST_SEGMENT = 6
_NOT_SECRET = pattern(
    r"[$<({*\[]"  # a shell variable, a placeholder, masked by Terraform
    r"|\.{0,2}/|~/|[A-Za-z]:\\"  # a path
    r"|arn:|[a-z][a-z0-9+.-]*://|projects/"  # an ARN, a URL
    r"|(?:h1|zh|sha1|sha256|sha384|sha512|md5)[:-]"  # a labelled hash
    r"|(?:var|local|data|module|each|self|path|count|terraform|ephemeral)\."  # a reference
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}"  # a time
)
_REFERENCE = pattern(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[[^\]]*\])+")
_MAX_ENDING = 40
"""Only the end of a name tells whether it is harmless."""
_MAX_WITHIN = 20
"""Limit for names within one value, `a_token=b_token=c_token=…`."""


@functools.cache
def names_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """For text in lower case."""
    return any_of(word.lower() for word in (*WORDS, *words))


def is_secret_name(name: str, words: tuple[str, ...] = ()) -> bool:
    match = names_pattern(words).search(name.lower())
    return match is not None and not _harmless(name[match.end() :])


def _harmless(rest: str) -> bool:
    """Whether the rest of the name says that the value is no secret."""
    parts = re.split(r"[_.-]", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", rest))
    return parts[-1].lower() in HARMLESS_ENDINGS


def looks_random(value: str, bits: float = BITS) -> bool:
    if len(value) < SHORTEST_VALUE or _NOT_SECRET.match(value) or "${" in value or "{{" in value:
        return False
    return _mixes(value) and entropy(value) >= bits


def entropy(value: str) -> float:
    """Shannon entropy in bits per character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


def _mixes(value: str) -> bool:
    """Whether some part is neither a word, a number nor words written together."""
    return any(
        len(segment) >= _SHORTEST_SEGMENT and not _WORDLIKE.fullmatch(_SIGNS.sub("", segment))
        for segment in _SEGMENT.findall(value)
    )


def spans(text: str, lowered: str, words: tuple[str, ...], bits: float) -> Iterator[Span]:
    """The positions of such values. `lowered` is the text in lower case, character for character."""
    at = name_end = value_end = within = 0
    assigned: re.Match[str] | None = None
    names = names_pattern(words)
    while (name := names.search(lowered, at)) is not None:
        at = name.end()
        if at > name_end:
            rest = _NAME_REST.match(text, at)
            name_end = rest.end() if rest is not None else at
            assigned = _ASSIGNED.match(text, name_end)
        if assigned is None or _harmless(text[max(at, name_end - _MAX_ENDING) : name_end]):
            continue
        at = name_end  # another secret word in the same name has the same value
        if assigned["bare"] is not None:
            within = within + 1 if assigned.end() == value_end else 0
            value_end = assigned.end()
            if not _REFERENCE.fullmatch(assigned["bare"]) and looks_random(assigned["bare"], bits):
                yield assigned.span("bare")
            if within > _MAX_WITHIN:
                at = value_end
            continue
        value: re.Match[str] | None = assigned
        while value is not None:
            if looks_random(value["quoted"], bits):
                yield value.span("quoted")
            at = value.end()
            value = _CHANGED_TO.match(text, at)
