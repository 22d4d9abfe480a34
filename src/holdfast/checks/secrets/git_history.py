"""Finds states, plans, keys and secrets of known formats in old versions of files. Pure.

Versions of a file differ in a few lines. Every version is scanned once, and only its new lines with a few
lines around them, since a key spans several lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from holdfast.checks.model.contents import (
    Commit,
    ContentKind,
    HistoryMatch,
    UnreadVersion,
    is_key,
    is_packed_plan,
    is_shown_plan,
    is_state,
)
from holdfast.checks.secrets.committed_files import is_source_or_document, name_of
from holdfast.checks.secrets.known_secrets import known_in

LARGEST = 5_000_000
_BESIDE = 3
_BINARY = 8_000
"""A file with a zero byte in this prefix is binary, as in Git."""
_WHOLE_FOLDERS = frozenset((".terraform", ".terragrunt-cache"))
"""Found by name, with everything in them."""


class FileVersion(NamedTuple):
    """An old version, and the first commit with it."""

    path: str
    commit: str
    date: str


def versions_by_blob(commits: Iterable[Commit]) -> dict[str, FileVersion]:
    """Every version by blob id, oldest first. Commits are given newest first."""
    versions: dict[str, FileVersion] = {}
    for commit in reversed(tuple(commits)):
        for path, blob in commit.blobs:
            if blob not in versions and _WHOLE_FOLDERS.isdisjoint(path.split("/")):
                versions[blob] = FileVersion(path, commit.id, commit.date)
    return versions


class HistoryScanner:
    """Scans versions one by one, oldest first, and collects matches."""

    def __init__(self) -> None:
        self.traces: list[HistoryMatch] = []
        self.unread: list[UnreadVersion] = []
        self._lines: set[int] = set()
        self._secrets: set[str] = set()

    def scan(self, version: FileVersion, content: bytes | None, why_not: str | None = None) -> None:
        if content is None:
            self.unread.append(UnreadVersion(version.path, f"an old version was not searched: {why_not}"))
            return
        mark = _mark(name_of(version.path), content)
        if mark is not None:
            self.traces.append(HistoryMatch(mark, *version))
        elif b"\0" not in content[:_BINARY]:
            self.traces.extend(self._secrets_in(version, content.decode(errors="replace")))

    def _secrets_in(self, version: FileVersion, text: str) -> Iterator[HistoryMatch]:
        numbers, part = self._new(text.split("\n"))
        for secret in known_in(part) if part else ():
            if secret.digest not in self._secrets:
                self._secrets.add(secret.digest)
                line = numbers[secret.line - 1]
                yield HistoryMatch(
                    ContentKind.SECRET, *version, what=secret.what, line=line, digest=secret.digest
                )

    def _new(self, lines: list[str]) -> tuple[list[int], str]:
        """Lines that are new, with their numbers and context."""
        known = self._lines
        new = [number for number, line in enumerate(lines) if hash(line) not in known]
        known.update(map(hash, lines))
        near = {neighbour for number in new for neighbour in range(number - _BESIDE, number + _BESIDE + 1)}
        selected = [number for number in sorted(near) if 0 <= number < len(lines)]
        numbers: list[int] = []
        parts: list[str] = []
        for number in selected:
            if numbers and number != numbers[-1]:
                # A gap, so that lines that are not adjacent do not become one text.
                numbers.append(number)
                parts.append("")
            numbers.append(number + 1)
            parts.append(lines[number])
        return numbers, "\n".join(parts)


def _mark(name: str, content: bytes) -> ContentKind | None:
    """What the whole content is."""
    if is_packed_plan(content):
        return ContentKind.PLAN
    if is_key(content):
        return ContentKind.KEY
    if is_source_or_document(name) or content[:_BINARY].lstrip()[:1] != b"{":
        return None
    if is_state(content):
        return ContentKind.STATE
    return ContentKind.SHOWN_PLAN if is_shown_plan(content) else None
