"""The source line of a finding: complete, with masked values, or not at all. Pure.

Where a secret was found, and in variables files, where any value may be one, only names stay. Everything that
is not certainly a name becomes `…`; a line that cannot be parsed, or is part of a longer text, is not shown.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from holdfast.checks.model.interface import Finding, Rule
from holdfast.checks.secrets.known_secrets import is_known

_NATIVE = (".tf", ".tofu", ".tfvars", ".hcl", ".tfbackend")
_VARIABLES = (".tfvars", ".tfvars.json")
_TEXT = r'"(?:[^"\\$%]|\\.|[$%](?!\{)|[$%]\{[^"{}]*\})*"'
_TOKEN = (
    rf"(?P<text>{_TEXT})|(?P<heredoc><<[-~]?[A-Za-z_][\w-]*$)|(?P<comment>(?:#|//).*|/\*.*\*/$)"
    r"|(?P<reference>(?:var|local|module|data|each|count|self|path)(?:\.[A-Za-z_][\w-]*)+)"
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)|(?P<number>\d[\w.]*)"
    r"|(?P<mark>[-=:,?!<>&|+*/%()\[\]{}.])|(?P<space>\s+)"
)
_HIDDEN = {"text": '"…"', "heredoc": "<<…", "comment": "# …", "name": "…", "number": "…"}
_GIVEN = r"\s*(?:=(?![=>])\s*\S|\{)"
_LONGEST_NAME = 64
_LONGEST_LINE = 2000
"""Longer lines are not shown: they are unreadable and slow to parse."""
_HEADER = r'[a-z_]+(?:\s+"[\w.-]+")*\s*\{'
_WORDS = frozenset(("true", "false", "null", "for", "in", "if"))
_OPENS = r"<<[-~]?([A-Za-z_][\w-]*)\s*$"


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compiled on first use, since few reports need them."""
    return re.compile(pattern, re.ASCII)


class SecretLines:
    """Where secrets were found: lines, or whole files."""

    def __init__(self, findings: Iterable[tuple[Rule, Finding]]) -> None:
        self._lines: dict[str, set[int]] = {}
        self._whole: set[str] = set()
        self._longer: dict[str, set[int]] = {}
        self._shown: dict[tuple[str, int], str | None] = {}
        for rule, finding in findings:
            if not rule.secret or finding.place is None:
                continue
            if finding.place.line is None:
                self._whole.add(finding.place.file)
            else:
                last = max(finding.end_line or 0, finding.place.line)
                self._lines.setdefault(finding.place.file, set()).update(range(finding.place.line, last + 1))

    def display_line(self, path: str, lines: Sequence[str], number: int) -> str | None:
        """A line of a file as any finding may show it. Cached."""
        key = (path, number)
        if key not in self._shown:
            self._shown[key] = self._line(path, lines, number)
        return self._shown[key]

    def _line(self, path: str, lines: Sequence[str], number: int) -> str | None:
        if not 0 < number <= len(lines) or path in self._whole:
            return None
        line = lines[number - 1].strip()
        any_value = path.endswith(_VARIABLES)
        secret = self._lines.get(path, set())
        if not secret and not any_value:
            return line
        if not path.endswith(_NATIVE):
            return None
        if path not in self._longer:
            self._longer[path] = _in_longer_texts(lines)
        if number in self._longer[path]:
            return None
        return mask_values(line) if any_value or number in secret else line


def _in_longer_texts(lines: Sequence[str]) -> set[int]:
    """The lines of heredocs and comments, in which a secret may span several lines."""
    numbers: set[int] = set()
    end: str | None = None
    for number, line in enumerate(lines, start=1):
        if end is not None:
            numbers.add(number)
            end = None if line.strip() == end or (end == "*/" and end in line) else end
            continue
        opens = _compile(_OPENS).search(line)
        if opens is not None:
            end = opens[1]
        elif "/*" in line and "*/" not in (code := _compile(_TEXT).sub("", line)) and "/*" in code:
            end = "*/"
    return numbers


def mask_values(line: str) -> str | None:
    """The line with its names only; None if it cannot be masked."""
    if len(line) > _LONGEST_LINE:
        return None
    masked = line if _compile(_HEADER).fullmatch(line) else _mask(line)
    return None if masked is None or is_known(masked) else masked


def _mask(line: str) -> str | None:
    pieces: list[str] = []
    at, named, hidden = 0, False, False
    while at < len(line):
        token = _compile(_TOKEN).match(line, at)
        if token is None:
            return None
        kind, text, at = token.lastgroup or "", token[0], token.end()
        if kind == "name" and (text in _WORDS or (not pieces and _is_given(text, line[at:]))):
            named = True
        elif kind in _HIDDEN:
            text, hidden = _HIDDEN[kind], True
        pieces.append(text)
    return "".join(pieces) if named or not hidden else None


def _is_given(name: str, after: str) -> bool:
    """It comes first and is followed by a value or a block."""
    plain = len(name) <= _LONGEST_NAME and "." not in name
    return plain and _compile(_GIVEN).match(after) is not None
