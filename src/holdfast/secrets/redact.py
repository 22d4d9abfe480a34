"""The one redactor that every exit passes: logs, screens, JSON, errors.

A registered value is replaced wherever it stands, also encoded: base64, URL-quoted, escaped as in JSON. Of a
value with several lines each longer line is replaced too, since output comes line by line. Values shorter
than five characters are ignored: they would blacken half of every text and hide nothing.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from holdfast.kernel.secret import Secret

MASK = "***"
SHORTEST = 5
_SHORTEST_LINE = 8
_DEEPEST = 40


class Redactor:
    """Values are only ever added. Safe to use from several threads."""

    __slots__ = ("_forms", "_lock", "_pattern")

    def __init__(self, values: Iterable[str | Secret] = ()) -> None:
        self._forms: set[str] = set()
        self._lock = threading.Lock()
        self._pattern: re.Pattern[str] | None = None
        for value in values:
            self.register(value)

    def __repr__(self) -> str:
        return f"Redactor({len(self._forms)} forms)"

    def register(self, value: str | Secret) -> None:
        text = value.reveal() if isinstance(value, Secret) else value
        forms = {form for form in _forms(text) if len(form) >= SHORTEST}
        with self._lock:
            if not forms <= self._forms:
                self._forms |= forms
                self._pattern = None

    def clean(self, text: str) -> str:
        """The text without any registered value. Where two overlap, both go."""
        pattern = self._compiled()
        if pattern is None:
            return text
        kept: list[str] = []
        at = 0
        while (match := pattern.search(text, at)) is not None:
            kept += (text[at : match.start()], MASK)
            at = _end(pattern, text, match)
        return "".join((*kept, text[at:]))

    def _compiled(self) -> re.Pattern[str] | None:
        with self._lock:
            if self._pattern is None and self._forms:
                self._pattern = re.compile(_any_of(sorted(self._forms)))
            return self._pattern


def _end(pattern: re.Pattern[str], text: str, match: re.Match[str]) -> int:
    """Where the secret text ends that begins with this match: another one may begin inside it."""
    start, end = match.span()
    while (inner := pattern.search(text, start + 1)) is not None and inner.start() < end:
        start, end = inner.start(), max(end, inner.end())
    return end


def _any_of(forms: list[str], depth: int = 0) -> str:
    """A pattern for the longest of the forms, sharing what they share: one pass, however many they are."""
    ends_here = "" in forms
    groups: dict[str, list[str]] = {}
    for form in filter(None, forms):
        groups.setdefault(form[0], []).append(form)
    branches = [_branch(group, depth) for group in groups.values()]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if ends_here else ''}"


def _branch(forms: list[str], depth: int) -> str:
    """Forms that begin alike. Very deep nesting is left to a plain list, longest first."""
    if len(forms) == 1 or depth >= _DEEPEST:
        return "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
    first, last = min(forms), max(forms)
    differ = (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    shared = next(differ, min(len(first), len(last)))
    return re.escape(first[:shared]) + _any_of([form[shared:] for form in forms], depth + 1)


def _forms(text: str) -> Iterator[str]:
    if len(text) < SHORTEST:
        return
    lines = [line for line in (line.strip() for line in text.splitlines()) if len(line) >= _SHORTEST_LINE]
    for plain in dict.fromkeys((text, text.strip(), *lines)):
        yield plain
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        yield quote(plain, safe="")
        yield quote(plain)
        yield quote_plus(plain)
    data = text.encode("utf-8", "surrogatepass")
    yield base64.b64encode(data).decode().rstrip("=")
    yield base64.urlsafe_b64encode(data).decode().rstrip("=")
