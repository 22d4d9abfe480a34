"""Findings that are accepted until a date, in a comment or in the configuration. Pure.

    password = "changeme"  # holdfast:ignore HF209 until=2027-01-01 owner=platform reason=set at first login

A comment on its own line applies to the next line that is not a comment. Inside a block it also applies to
findings about the whole block. In JSON syntax the property `//` is a comment:

    "//": "holdfast:ignore HF209 until=2027-01-01 reason=set at first login",
    "password": "changeme"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from msgspec import Struct

from holdfast.checks.engine.catalogue import removal_note
from holdfast.checks.model.globs import is_name, is_path, is_rule
from holdfast.checks.model.report import ReportedFinding, Waiver
from holdfast.config.checks import ConfigWaiver
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import pattern

MARK = "holdfast:ignore"
_COMMENT = pattern(rf"(?:#|//|/\*)\s*{MARK}\b(.*)")
_JSON = (".tf.json", ".tofu.json", ".tfvars.json")
_JSON_COMMENT = pattern(rf'"//"\s*:\s*"\s*{MARK}\b((?:[^"\\]|\\.)*)"')
_JSON_COMMENT_LINE = pattern(r'\s*(?:"//"\s*:\s*"(?:[^"\\]|\\.)*"\s*,?\s*)?$')
_JSON_TOKEN = pattern(r'"(?:[^"\\\n]|\\.)*"|[][{}:,\n]')
_COMMENT_LINE = pattern(r"\s*(?:#|//|/\*.*\*/\s*$|$)")
_RULES = pattern(r"\s*([A-Za-z][A-Za-z0-9_.-]*(?:\s*,\s*[A-Za-z][A-Za-z0-9_.-]*)*)(?![A-Za-z0-9_.=-])")
_FIELD = pattern(
    r"""\b(until|reason|owner)=("[^"]*"|'[^']*'|.*?)(?=\s+(?:until|reason|owner)=|\s*(?:\*/\s*)?$)"""
)
_GAP = pattern(r"\s{2,}")
_OURS = pattern(r"HF[0-9][0-9A-Z]*", re.IGNORECASE)


class LineWaiver(Struct, frozen=True, kw_only=True):
    """A waiver in a file: one rule, one line."""

    waiver: Waiver
    line: int
    block: int | None = None
    """In JSON syntax, where a block has no end line: the first line of the enclosing block."""

    @property
    def file(self) -> str:
        return self.waiver.place.file

    def applies_to(self, finding: ReportedFinding) -> bool:
        first = finding.line
        if first is None or finding.file != self.file:
            return False
        here = first <= self.line <= (finding.end_line or first) or first == self.block
        return here and is_rule(self.waiver.rule, finding.rule.id)


class InvalidWaiver(Struct, frozen=True, kw_only=True):
    """A waiver that is incomplete or wrong."""

    place: Place
    message: str
    removed: bool = False
    """It names a rule that was removed: it is valid but has no effect."""


def read_waivers(
    path: str, lines: Sequence[str], ids: frozenset[str]
) -> Iterator[LineWaiver | InvalidWaiver]:
    """The waivers in the lines of one file; `ids` are the known rules."""
    in_json = path.endswith(_JSON)
    comment = _JSON_COMMENT if in_json else _COMMENT
    for number, line in enumerate(lines, start=1):
        match = comment.search(line) if MARK in line else None
        if match is None:
            continue
        place = Place(file=path, line=number, column=match.start() + 1)
        if in_json:
            block = _enclosing_block(lines, number, match.start())
            yield from _read(_decode_json_text(match[1]), place, _next_property(lines, number), ids, block)
        else:
            about = number if line[: match.start()].strip() else _next_code(lines, number)
            yield from _read(match[1], place, about, ids)


def _next_code(lines: Sequence[str], number: int) -> int:
    """The line that a comment on its own line applies to."""
    for index in range(number, len(lines)):
        if not _COMMENT_LINE.match(lines[index]):
            return index + 1
    return number


def _next_property(lines: Sequence[str], number: int) -> int:
    """The same in JSON, where a comment on a shared line applies to that line."""
    for index in range(number - 1, len(lines)):
        if not _JSON_COMMENT_LINE.match(lines[index]):
            return index + 1
    return number


def _enclosing_block(lines: Sequence[str], number: int, column: int) -> int | None:
    """The line of the name of the object that contains this position."""
    before = "\n".join((*lines[: number - 1], lines[number - 1][:column]))
    around: list[int | None] = []
    line, text_at, named = 1, 1, None
    for token in _JSON_TOKEN.findall(before):
        match token:
            case "\n":
                line += 1
            case ":":
                named = text_at
            case "{" | "[":
                around.append(named or (around[-1] if around else None))
                named = None
            case "}" | "]":
                around = around[:-1]
                named = None
            case ",":
                named = None
            case _:
                text_at = line
    return around[-1] if around else None


def _decode_json_text(escaped: str) -> str:
    try:
        return str(json.loads(f'"{escaped}"'))
    except ValueError:
        return escaped


def _read(
    text: str, place: Place, about: int, ids: frozenset[str], block: int | None = None
) -> Iterator[LineWaiver | InvalidWaiver]:
    rules = _RULES.match(text)
    if rules is None:
        yield InvalidWaiver(place=place, message="no rule")
        return
    rest = _GAP.sub(" ", text[rules.end() :])
    fields = {name: _unquote(value) for name, value in _FIELD.findall(rest)}
    first = _FIELD.search(rest)
    between = rest[: first.start()].strip() if first is not None else ""
    until = _day(fields.get("until", ""))
    reason = fields.get("reason", "")
    if between:
        # A second rule without a comma would look waived to a reader.
        yield InvalidWaiver(place=place, message=f"unexpected `{between}`; separate rules with commas")
    elif not reason:
        yield InvalidWaiver(place=place, message="no reason (`reason=…`)")
    elif until is None:
        why = f"`{fields['until']}` is not a date" if fields.get("until") else "no end date"
        yield InvalidWaiver(place=place, message=f"{why} (`until=2027-01-31`)")
    else:
        for rule in dict.fromkeys(re.split(r"\s*,\s*", rules[1])):
            if (note := removal_note(rule)) is not None:
                yield InvalidWaiver(place=place, message=note, removed=True)
                continue
            if is_unknown(rule, ids):
                yield InvalidWaiver(place=place, message=f"there is no rule `{rule}`")
                continue
            waiver = Waiver(
                rule=rule, reason=reason, until=until, place=place, owner=fields.get("owner") or None
            )
            yield LineWaiver(waiver=waiver, line=about, block=block)


def is_unknown(rule: str, ids: frozenset[str]) -> bool:
    """An id or prefix of our own kind that no rule has. Ids of external tools are not checked."""
    id_ = rule.upper().removesuffix("*")
    if _OURS.fullmatch(id_) is None:
        return False
    return not any(known.startswith(id_) for known in ids) if rule.endswith("*") else id_ not in ids


def _unquote(text: str) -> str:
    stripped = text.strip().removesuffix("*/").strip()
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    return stripped[1:-1].strip() if quoted else stripped


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def from_config(waiver: ConfigWaiver) -> Waiver:
    return Waiver(
        rule=waiver.rule, reason=waiver.reason, until=waiver.until, place=waiver.place, owner=waiver.owner
    )


def config_waiver_applies(waiver: ConfigWaiver, finding: ReportedFinding, path: str | None) -> bool:
    return (
        is_rule(waiver.rule, finding.rule.id)
        and (waiver.path is None or is_path(waiver.path, path) or is_path(waiver.path, finding.file))
        and (waiver.address is None or is_name(waiver.address, finding.address))
        and (waiver.stack is None or is_name(waiver.stack, finding.stack))
    )


def is_expired(waiver: Waiver, today: date) -> bool:
    return today > waiver.until


def waiver_for(
    finding: ReportedFinding,
    path: str | None,
    lines: Iterable[LineWaiver],
    config: Iterable[ConfigWaiver],
    today: date,
) -> LineWaiver | ConfigWaiver | None:
    """The waiver that applies to a finding: the closest that has not expired.

    `path` is that of its file, or a link to it: the configuration may name either.
    """
    for line in lines:
        if line.applies_to(finding) and not is_expired(line.waiver, today):
            return line
    for waiver in config:
        if config_waiver_applies(waiver, finding, path) and not is_expired(from_config(waiver), today):
            return waiver
    return None
