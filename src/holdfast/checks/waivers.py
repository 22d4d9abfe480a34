"""Findings that somebody answers for until a day: written on the line, or in the configuration. Pure.

    password = "changeme"  # holdfast:ignore HF201 until=2027-01-01 owner=platform reason=set at first login

A comment that stands alone is about the next line that is not a comment. One inside a block is about the
block too, where a finding is about the block as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from holdfast.checks.covering import is_name, is_path, is_rule
from holdfast.checks.report import Reported, Waiver
from holdfast.config.check_valid import ConfigWaiver
from holdfast.kernel.errors import Place
from holdfast.kernel.values import dataclass

MARK = "holdfast:ignore"
_COMMENT = re.compile(rf"(?:#|//|/\*)\s*{MARK}\b(.*)")
_COMMENT_LINE = re.compile(r"\s*(?:#|//|/\*.*\*/\s*$|$)")
_RULES = re.compile(r"\s*([A-Za-z][A-Za-z0-9_.-]*(?:\s*,\s*[A-Za-z][A-Za-z0-9_.-]*)*)(?![A-Za-z0-9_.=-])")
_FIELD = re.compile(
    r"""\b(until|reason|owner)=("[^"]*"|'[^']*'|.*?)(?=\s+(?:until|reason|owner)=|\s*(?:\*/\s*)?$)"""
)
_OURS = re.compile(r"HF[0-9]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineWaiver:
    """A waiver written in a file: of one rule, for one line."""

    waiver: Waiver
    line: int

    @property
    def file(self) -> str:
        return self.waiver.place.file

    def covers(self, one: Reported) -> bool:
        if one.file != self.file or one.line is None or not is_rule(self.waiver.rule, one.rule.id):
            return False
        return one.line <= self.line <= (one.end_line or one.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A waiver that says too little, or what cannot be."""

    place: Place
    message: str


def read_waivers(path: str, lines: Sequence[str], ids: frozenset[str]) -> Iterator[LineWaiver | Broken]:
    """The waivers in the lines of one file; `ids` are the rules that there are."""
    for number, line in enumerate(lines, start=1):
        found = _COMMENT.search(line) if MARK in line else None
        if found is None:
            continue
        place = Place(file=path, line=number, column=found.start() + 1)
        about = number if line[: found.start()].strip() else _next_code(lines, number)
        yield from _read(found[1], place, about, ids)


def _next_code(lines: Sequence[str], number: int) -> int:
    """The line that a comment on a line of its own is about."""
    for index in range(number, len(lines)):
        if not _COMMENT_LINE.match(lines[index]):
            return index + 1
    return number


def _read(text: str, place: Place, about: int, ids: frozenset[str]) -> Iterator[LineWaiver | Broken]:
    named = _RULES.match(text)
    if named is None:
        yield Broken(place=place, message="it names no rule")
        return
    fields = {name: _unquoted(value) for name, value in _FIELD.findall(text[named.end() :])}
    until = _day(fields.get("until", ""))
    reason = fields.get("reason", "")
    if not reason:
        yield Broken(place=place, message="it gives no reason (`reason=…`)")
    elif until is None:
        given = f"`{fields['until']}` is no day" if fields.get("until") else "it has no end date"
        yield Broken(place=place, message=f"{given} (`until=2027-01-31`)")
    else:
        for rule in re.split(r"\s*,\s*", named[1]):
            if is_unknown(rule, ids):
                yield Broken(place=place, message=f"there is no rule `{rule}`")
                continue
            waiver = Waiver(
                rule=rule, reason=reason, until=until, place=place, owner=fields.get("owner") or None
            )
            yield LineWaiver(waiver=waiver, line=about)


def is_unknown(rule: str, ids: frozenset[str]) -> bool:
    """An id of our own kind that no rule has. Those of other people's tools are theirs to know."""
    return _OURS.fullmatch(rule) is not None and rule.upper() not in ids


def _unquoted(text: str) -> str:
    stripped = text.strip().removesuffix("*/").strip()
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    return stripped[1:-1].strip() if quoted else stripped


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def from_config(given: ConfigWaiver) -> Waiver:
    return Waiver(
        rule=given.rule, reason=given.reason, until=given.until, place=given.place, owner=given.owner
    )


def config_covers(given: ConfigWaiver, one: Reported) -> bool:
    return (
        is_rule(given.rule, one.rule.id)
        and (given.path is None or is_path(given.path, one.file))
        and (given.address is None or is_name(given.address, one.address))
        and (given.stack is None or is_name(given.stack, one.stack))
    )


def expired(waiver: Waiver, today: date) -> bool:
    return today > waiver.until


def waiver_of(
    one: Reported, lines: Iterable[LineWaiver], config: Iterable[ConfigWaiver], today: date
) -> LineWaiver | ConfigWaiver | None:
    """The waiver that counts for a finding: the nearest that has not expired."""
    for line in lines:
        if line.covers(one) and not expired(line.waiver, today):
            return line
    for given in config:
        if config_covers(given, one) and not expired(from_config(given), today):
            return given
    return None
