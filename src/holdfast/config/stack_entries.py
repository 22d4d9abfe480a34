"""Checks of `stacks` that concern several keys: patterns, placeholders, targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from holdfast.config.declarations import At, Bad, dotted
from holdfast.config.defaults import Shared, entry_needs, missing_keys, shared_in, value_at
from holdfast.config.matrix import EXCLUDE
from holdfast.config.placeholders import (
    DERIVED,
    FILES,
    SHARED_VALUES,
    VALUES,
    VAR,
    MalformedError,
    find_cycle,
    names_in,
    parse,
    parse_pattern,
)
from holdfast.config.problems import Problems, closest, did_you_mean, listed
from holdfast.config.reader import Fillable
from holdfast.config.stack_rules import RuleKind, rule_kind

_ESCAPE: Final = "Write {{ and }} for literal braces."
_SHOWN: Final = {FILES: "the variables files", SHARED_VALUES: "values"}


class _Entry(Struct, frozen=True, kw_only=True):
    at: At
    pattern: str | None
    captured: tuple[str, ...] | None
    """The placeholders that the pattern or the matrix gives values to; None when that itself is wrong."""
    fillable: tuple[Fillable, ...]


def check_entries(top: At, fillable: Iterable[Fillable], *, problems: Problems) -> None:
    """`top` is the whole file."""
    by_index: dict[int, list[Fillable]] = {}
    shared_texts: list[Fillable] = []
    for text in fillable:
        match text.keys:
            case ("stacks", int(index), *_):
                by_index.setdefault(index, []).append(text)
            case ("defaults" | "values" | "env", *_) | (_, _, "defaults" | "values", *_):
                shared_texts.append(text)
            case _:
                continue
    targets = tuple(top.get("targets", {}))
    shared = shared_in(top)
    entries = [
        _read_entry(at, by_index.get(index, []), problems)
        for index, at in enumerate(top.get("stacks", ()))
        if not isinstance(at.value, Bad)
    ]
    for entry in entries:
        _check_target(entry, targets, problems)
        for text in entry.fillable:
            _check_text(text, entry, top, shared, problems)
        if entry.captured is not None:
            _check_cycle(entry, entry.captured, shared, problems)
        if not shared.every_layer:
            add_missing_keys(entry.at, problems)
    everywhere = [entry.captured for entry in entries]
    captured = None if None in everywhere else tuple({name for names in everywhere for name in names or ()})
    for text in shared_texts:
        _check_text(text, _Entry(at=top, pattern=None, captured=captured, fillable=()), top, shared, problems)


def add_missing_keys(entry: At, problems: Problems) -> None:
    for section, name in missing_keys(entry):
        message = f"{section.where} needs the key `{name}`"
        problems.add("HF-CONF-5", message, place=section.place)


def _read_entry(at: At, fillable: list[Fillable], problems: Problems) -> _Entry:
    kind = rule_kind({name: item.value for name, item in at.value.items()})
    pattern = at.get(kind) if kind in {RuleKind.VARIABLES, RuleKind.FOLDER} else None
    captured: tuple[str, ...] | None = None
    if kind is RuleKind.NAMED:
        captured = _matrix_names(at, problems)
    elif kind is not None and isinstance(pattern, str):
        captured = _pattern_names(pattern, at.value[kind], problems)
    return _Entry(at=at, pattern=pattern, captured=captured, fillable=tuple(fillable))


def _matrix_names(at: At, problems: Problems) -> tuple[str, ...] | None:
    matrix = at.get("matrix", {})
    for name, axis in matrix.items():
        for key in ("folders", "files"):
            if isinstance(pattern := axis.get(key), str):
                names = _pattern_names(pattern, axis.value[key], problems)
                if other := next((other for other in names or () if other != name), None):
                    problems.add(
                        "HF-CONF-9",
                        f"{{{other}}} is not a placeholder of {axis.where}",
                        place=axis.value[key].place,
                        hint=f"Use * or {{{name}}}.",
                    )
    return None if isinstance(matrix, Bad) else tuple(name for name in matrix if name != EXCLUDE)


def _pattern_names(pattern: str, at: At, problems: Problems) -> tuple[str, ...] | None:
    try:
        return names_in(parse_pattern(pattern))
    except MalformedError as error:
        problems.add(
            "HF-CONF-19",
            f"the pattern {pattern} contains {error}",
            place=at.place,
            hint=_ESCAPE if "without its" in str(error) else "See `Patterns` in docs/configuration.md.",
        )
        return None


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


def _check_text(text: Fillable, entry: _Entry, top: At, shared: Shared, problems: Problems) -> None:
    """`entry` is the whole file (`top`) for texts that entries share: each may lack some placeholders."""
    try:
        names = parse(text.text).names
    except MalformedError as error:
        problems.add("HF-CONF-19", f"{dotted(text.keys)} contains {error}", place=text.place, hint=_ESCAPE)
        return
    for name in names:
        if name.startswith(VALUES):
            _check_value(name.removeprefix(VALUES), text, shared, problems)
        elif entry.captured is None or name.startswith(VAR) or name in entry.captured:
            continue
        elif name not in {*DERIVED, "company"}:
            _add_unknown(name, text, entry, problems)
        elif name == "company" and "company" not in top.value:
            problems.add(
                "HF-CONF-20",
                f"{{company}} is used in {dotted(text.keys)}, but the file has no `company`",
                place=text.place,
                hint="Add it at the top: company: acme",
            )
        elif name in {"account", "region", "target"} and not _may_have(entry, name, top, shared):
            problems.add(
                "HF-CONF-20",
                f"{{{name}}} is used in {dotted(text.keys)}, but {entry.at.where} has no {name}",
                place=text.place,
                hint=f"Add `{name}:` to the entry, or {{{name}}} to its pattern.",
            )


def _may_have(entry: _Entry, name: str, top: At, shared: Shared) -> bool:
    return (
        entry.at is top or name in entry.at.value or any(name in layer.value for layer in shared.every_layer)
    )


def _check_value(path: str, text: Fillable, shared: Shared, problems: Problems) -> None:
    everywhere = (shared.values, *shared.environment_values.values())
    if any(value_at(values, path) is not None for values in everywhere):
        return
    known = tuple(dict.fromkeys(name for values in everywhere for name in values))
    near = closest(path, known)
    problems.add(
        "HF-CONF-9",
        f"{{{VALUES}{path}}} is used in {dotted(text.keys)}, but `values` has no `{path}`",
        place=text.place,
        hint=f"Did you mean {{{VALUES}{near}}}?" if near else f"Add it at the top: values: {{ {path}: … }}",
    )


def _add_unknown(name: str, text: Fillable, entry: _Entry, problems: Problems) -> None:
    captured = entry.captured or ()
    known = tuple(dict.fromkeys((*captured, "company", *DERIVED)))
    near = closest(name, known)
    what = f"the pattern {entry.pattern}" if entry.pattern else f"{entry.at.where}, which has no pattern"
    if not entry.at.keys:
        what = "any entry of `stacks`"
    hint = f"Did you mean {{{near}}}?" if near else f"Known here: {listed(f'{{{name}}}' for name in known)}."
    problems.add(
        "HF-CONF-9",
        f"{{{name}}} is not a placeholder of {what}",
        place=text.place,
        hint=f"{hint} {_ESCAPE}" if near is None else hint,
    )


def _check_cycle(entry: _Entry, captured: tuple[str, ...], shared: Shared, problems: Problems) -> None:
    cycle = find_cycle(entry_needs(entry.at, shared, captured))
    if cycle is None:
        return
    names = " → ".join(_SHOWN.get(key, key) for key in cycle)
    hint = "Write one of them without the other."
    if shared.every_layer or shared.environment_values:
        hint += " `environment` and `target` decide which defaults and values apply."
    at = entry.at.value.get("variables_files" if cycle[0] == FILES else cycle[0], entry.at)
    problems.add(
        "HF-CONF-18",
        f"the placeholders of {entry.at.where} form a cycle: {names}",
        place=at.place,
        hint=hint,
    )
