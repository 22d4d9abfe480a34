"""Values that look random, under names that sound secret: `password = "…"`, `"api_key": "…"`, `TOKEN=…`.

A value is taken for a secret when it has at least eight characters, at least `BITS` bits of entropy in each,
and is not made of words: some stretch of it mixes letters and digits, or upper and lower case, as words do
not. References, paths, addresses of resources, ARNs, URLs, templates and hashes that say what they are stay.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator

from holdfast.secrets.finder import Span
from holdfast.secrets.trie_regex import either

BITS = 2.75
SHORTEST_VALUE = 8
WORDS = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "apikey", "api-key",
    "private_key", "privatekey", "private-key", "access_key", "accesskey", "access-key",
    "account_key", "accountkey", "encryption_key", "signing_key", "secretkey", "credential",
    "connection_string",
)  # fmt: skip
"""A name sounds secret when it holds one of these, in upper or lower case."""
NO_SECRET_AFTER = (
    "id", "ids", "arn", "name", "names", "path", "file", "dir", "folder", "url", "uri", "endpoint", "version",
    "type", "ttl", "length", "count", "policy", "ref", "reference", "status", "enabled", "expiry", "expires",
    "expiration", "source", "created", "updated", "date", "time", "address", "region", "stage", "stages",
)  # fmt: skip
"""…unless it ends in one of these: `secret_name`, `token_type`, `private_key_path`."""

_NAME_REST = re.compile(r"[\w.-]*")
_SEPARATOR = r"\\*[\"']?[ \t]*(?:=>|:=|==?|:)[ \t]*"
_BEFORE_BARE = r"(?<!:)"  # a colon inside a word separates parts of an ARN, not a name from its value
_QUOTED = r"(?P<open>\\*[\"'])(?P<quoted>(?:(?!(?P=open))[^\r\n])*)(?P=open)"
_BARE = r"(?P<bare>[^\s\"'`\\,;&<>(){}\[\]][^\s\"'`\\,;&<>()]*)"
_GIVEN = re.compile(f"{_SEPARATOR}(?:{_QUOTED}|{_BEFORE_BARE}{_BARE})")
_BECOMES = re.compile(rf"[ \t]*->[ \t]*{_QUOTED}")
_OPEN = re.compile(rf"[\w.-]*(?:\\*[\"']?[ \t]*(?:[=:][=>]?[ \t]*(?:\\*(?:[\"'][^\r\n]*)?|{_BARE})?)?)?\Z")
LONGEST_OPEN = 1024
"""How far back in a stream a name is waited for its value to end."""

_SEGMENT = re.compile(r"[A-Za-z0-9!#$%^&*+=~?|<>(){}\[\]]+")
_SIGNS = re.compile(r"[^A-Za-z0-9]+")
_WORDLIKE = re.compile(
    # password, PASSWORD2, myPassword. Written so that a text can be read in one way only: in several, some
    # forty capitals with something else at their end would take years.
    r"(?:[A-Z]?[a-z]+|[A-Z]{2,}[a-z]{2,}|[A-Z]+(?![A-Za-z]))"
    r"(?:[A-Z](?:[A-Z]{2,})?[a-z]{2,})*(?:[A-Z]{2,}(?![A-Za-z]))?[0-9]{0,4}"
    r"|[a-z]+[0-9]{1,2}[a-z]+"  # s3bucket, ipv4address
    r"|[0-9]+[A-Za-z]{0,3}"  # 100GB
)
_SHORTEST_SEGMENT = 6
_OTHERWISE = re.compile(
    r"[$<({*\[]"  # a variable of a shell, a placeholder, what Terraform has masked
    r"|\.{0,2}/|~/|[A-Za-z]:\\"  # a path
    r"|arn:|[a-z][a-z0-9+.-]*://|projects/"  # an ARN, an address
    r"|(?:h1|zh|sha1|sha256|sha384|sha512|md5)[:-]"  # a hash that says that it is one
    r"|(?:var|local|data|module|each|self|path|count|terraform|ephemeral)\."  # a reference
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}"  # a time
)
_REFERENCE = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[[^\]]*\])+")
_LONGEST_END = 40
"""Of a name no more than its end tells whether it is harmless."""
_MOST_WITHIN = 20
"""Names that are looked at within one value, `a_token=b_token=c_token=…`: none of ours has that many."""


@functools.cache
def names_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """For texts in lower case."""
    return either(word.lower() for word in (*WORDS, *words))


def sounds_secret(name: str, words: tuple[str, ...] = ()) -> bool:
    found = names_pattern(words).search(name.lower())
    return found is not None and not _harmless(name[found.end() :])


def _harmless(rest: str) -> bool:
    """Whether what follows the word in the name says that the value is no secret."""
    parts = re.split(r"[_.-]", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", rest))
    return parts[-1].lower() in NO_SECRET_AFTER


def random_enough(value: str, bits: float = BITS) -> bool:
    if len(value) < SHORTEST_VALUE or _OTHERWISE.match(value) or "${" in value or "{{" in value:
        return False
    return _mixes(value) and entropy(value) >= bits


def entropy(value: str) -> float:
    """Shannon's, in bits for each character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


def _mixes(value: str) -> bool:
    """Whether a stretch of it is neither a word, nor a number, nor words written together."""
    return any(
        len(segment) >= _SHORTEST_SEGMENT and not _WORDLIKE.fullmatch(_SIGNS.sub("", segment))
        for segment in _SEGMENT.findall(value)
    )


def spans(text: str, lowered: str, words: tuple[str, ...], bits: float) -> Iterator[Span]:
    """Where such values stand. `lowered` is the text in lower case, place for place."""
    at = name_end = value_end = within = 0
    given: re.Match[str] | None = None
    names = names_pattern(words)
    while (name := names.search(lowered, at)) is not None:
        at = name.end()
        if at > name_end:
            rest = _NAME_REST.match(text, at)
            name_end = rest.end() if rest is not None else at
            given = _GIVEN.match(text, name_end)
        if given is None or _harmless(text[max(at, name_end - _LONGEST_END) : name_end]):
            continue
        at = name_end  # Another word in the same name has the same value.
        if given["bare"] is not None:
            within = within + 1 if given.end() == value_end else 0
            value_end = given.end()
            if not _REFERENCE.fullmatch(given["bare"]) and random_enough(given["bare"], bits):
                yield given.span("bare")
            if within > _MOST_WITHIN:
                at = value_end
            continue
        value: re.Match[str] | None = given
        while value is not None:
            if random_enough(value["quoted"], bits):
                yield value.span("quoted")
            at = value.end()
            value = _BECOMES.match(text, at)


def open_at(text: str, lowered: str, start: int, words: tuple[str, ...]) -> int:
    """The first place from `start` where a name stands whose value may still go on at the end of the text."""
    names = names_pattern(words)
    at = max(start, len(text) - LONGEST_OPEN)
    while (name := names.search(lowered, at)) is not None:
        at = name.end()
        if _OPEN.match(text, at):
            return name.start()
    return len(text)
