"""Checks of `stacks` that concern several keys: patterns, placeholders, targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from holdfast.config.declarations import At, Bad, dotted
from holdfast.config.placeholders import (
    DERIVED,
    FILES,
    VAR,
    MalformedError,
    direct_needs,
    find_cycle,
    names_in,
    parse,
    parse_pattern,
)
from holdfast.config.problems import Problems, closest, did_you_mean, listed
from holdfast.config.reader import Fillable
from holdfast.config.stack_rules import RuleKind, rule_kind

_ESCAPE: Final = "Write {{ and }} for literal braces."
_FILES_KEYS: Final = ("variables_files", "module")


class _Entry(Struct, frozen=True, kw_only=True):
    at: At
    pattern: str | None
    captured: tuple[str, ...] | None
    """The placeholders that the pattern gives values to; None when the pattern itself is wrong."""
    fillable: tuple[Fillable, ...]


def check_entries(top: At, fillable: Iterable[Fillable], *, problems: Problems) -> None:
    """`top` is the whole file."""
    by_index: dict[int, list[Fillable]] = {}
    for text in fillable:
        match text.keys:
            case ("stacks", int(index), *_):
                by_index.setdefault(index, []).append(text)
            case _:
                continue
    targets = tuple(top.get("targets", {}))
    for index, at in enumerate(top.get("stacks", ())):
        if isinstance(at.value, Bad):
            continue
        entry = _read_entry(at, by_index.get(index, []), problems)
        _check_target(entry, targets, problems)
        for text in entry.fillable:
            _check_text(text, entry, company="company" in top.value, problems=problems)
        if entry.captured is not None:
            _check_cycle(entry, entry.captured, problems)


def _read_entry(at: At, fillable: list[Fillable], problems: Problems) -> _Entry:
    kind = rule_kind({name: item.value for name, item in at.value.items()})
    pattern = at.get(kind) if kind in {RuleKind.VARIABLES, RuleKind.FOLDER} else None
    captured: tuple[str, ...] | None = () if kind is RuleKind.NAMED else None
    if kind is not None and isinstance(pattern, str):
        try:
            captured = names_in(parse_pattern(pattern))
        except MalformedError as error:
            problems.add(
                "HF-CONF-19",
                f"the pattern {pattern} contains {error}",
                place=at.value[kind].place,
                hint=_ESCAPE if "without its" in str(error) else "See `Patterns` in docs/configuration.md.",
            )
    return _Entry(at=at, pattern=pattern, captured=captured, fillable=tuple(fillable))


def _check_target(entry: _Entry, targets: Collection[str], problems: Problems) -> None:
    target = entry.at.get("target")
    if target is None or "{" in target or target in targets:
        return
    problems.add(
        "HF-CONF-20",
        f"{entry.at.where} uses the target `{target}`, which is not in `targets`",
        place=entry.at.value["target"].place,
        hint=did_you_mean(target, targets) or f"Add it: targets: {{ {target}: {{ owner: developers }} }}",
    )


def _check_text(text: Fillable, entry: _Entry, *, company: bool, problems: Problems) -> None:
    try:
        names = parse(text.text).names
    except MalformedError as error:
        problems.add("HF-CONF-19", f"{dotted(text.keys)} contains {error}", place=text.place, hint=_ESCAPE)
        return
    if entry.captured is None:
        return
    for name in names:
        if name.startswith(VAR) or name in entry.captured:
            continue
        if name not in {*DERIVED, "company"}:
            _add_unknown(name, text, entry, problems)
        elif name == "company" and not company:
            problems.add(
                "HF-CONF-20",
                f"{{company}} is used in {dotted(text.keys)}, but the file has no `company`",
                place=text.place,
                hint="Add it at the top: company: acme",
            )
        elif name in {"account", "region", "target"} and name not in entry.at.value:
            problems.add(
                "HF-CONF-20",
                f"{{{name}}} is used in {dotted(text.keys)}, but {entry.at.where} has no {name}",
                place=text.place,
                hint=f"Add `{name}:` to the entry, or {{{name}}} to its pattern.",
            )


def _add_unknown(name: str, text: Fillable, entry: _Entry, problems: Problems) -> None:
    captured = entry.captured or ()
    known = tuple(dict.fromkeys((*captured, "company", *DERIVED)))
    near = closest(name, known)
    what = f"the pattern {entry.pattern}" if entry.pattern else f"{entry.at.where}, which has no pattern"
    hint = f"Did you mean {{{near}}}?" if near else f"Known here: {listed(f'{{{name}}}' for name in known)}."
    problems.add(
        "HF-CONF-9",
        f"{{{name}}} is not a placeholder of {what}",
        place=text.place,
        hint=f"{hint} {_ESCAPE}" if near is None else hint,
    )


def _check_cycle(entry: _Entry, captured: tuple[str, ...], problems: Problems) -> None:
    texts: dict[str, list[str]] = {}
    places: dict[str, Fillable] = {}
    for text in entry.fillable:
        key = str(text.keys[2])
        key = FILES if key in _FILES_KEYS else key
        texts.setdefault(key, []).append(text.text)
        places.setdefault(key, text)
    cycle = find_cycle(direct_needs(texts, captured))
    if cycle is None:
        return
    names = ["the variables files" if key == FILES else key for key in cycle]
    problems.add(
        "HF-CONF-18",
        f"the placeholders of {entry.at.where} form a cycle: {' → '.join(names)}",
        place=places[cycle[0]].place,
        hint="Write one of them without the other.",
    )
