"""What the shape of a `stacks:` entry cannot say: that its pattern and its placeholders make sense."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from holdfast.config.needs import DERIVED, FILES, circle, direct_needs
from holdfast.config.patterns import names_in, parse_pattern
from holdfast.config.placeholders import VAR, MalformedError, parse
from holdfast.config.problems import Problems, closest, did_you_mean, listed
from holdfast.config.reading import At, Fillable, shown
from holdfast.config.scalars import Bad
from holdfast.config.valid import RuleKind
from holdfast.kernel.values import dataclass

_ESCAPE: Final = "Braces that are meant as they are: {{ and }}."
_FILES_KEYS: Final = ("variables_files", "module")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    at: At
    where: str
    pattern: str | None
    captured: tuple[str, ...] | None
    """What the pattern gives values to; None when the pattern itself is wrong."""
    fillable: tuple[Fillable, ...]

    def has(self, key: str) -> bool:
        return key in self.at.value


def check_entries(
    stacks: Sequence[At],
    fillable: Iterable[Fillable],
    *,
    company: bool,
    targets: Collection[str],
    problems: Problems,
) -> None:
    by_index: dict[int, list[Fillable]] = {}
    for text in fillable:
        match text.keys:
            case ("stacks", int(index), *_):
                by_index.setdefault(index, []).append(text)
            case _:
                continue
    for index, at in enumerate(stacks):
        if isinstance(at.value, Bad):
            continue
        entry = _entry(at, index, by_index.get(index, []), problems)
        _check_target(entry, targets, problems)
        for text in entry.fillable:
            _check_text(text, entry, company=company, problems=problems)
        if entry.captured is not None:
            _check_circle(entry, entry.captured, problems)


def _entry(at: At, index: int, fillable: list[Fillable], problems: Problems) -> _Entry:
    key = "variables" if at.form == RuleKind.VARIABLES else "folder"
    pattern = at.get(key) if at.form in {RuleKind.VARIABLES, RuleKind.FOLDER} else None
    captured: tuple[str, ...] | None = ()
    if at.form is None or (pattern is None and at.form != RuleKind.NAMED):
        captured = None
    if isinstance(pattern, str):
        try:
            captured = names_in(parse_pattern(pattern))
        except MalformedError as error:
            captured = None
            problems.add(
                "HF-CONF-19",
                f"the pattern {pattern} holds {error}",
                place=at.value[key].place,
                hint=_ESCAPE if "without its" in str(error) else "See `Patterns` in docs/configuration.md.",
            )
    return _Entry(
        at=at, where=shown(("stacks", index)), pattern=pattern, captured=captured, fillable=tuple(fillable)
    )


def _check_target(entry: _Entry, targets: Collection[str], problems: Problems) -> None:
    target = entry.at.get("target")
    if target is None or "{" in target or target in targets:
        return
    problems.add(
        "HF-CONF-20",
        f"{entry.where} lives on the target `{target}`, which is not in `targets`",
        place=entry.at.value["target"].place,
        hint=did_you_mean(target, targets) or f"Add it: targets: {{ {target}: {{ owner: developers }} }}",
    )


def _check_text(text: Fillable, entry: _Entry, *, company: bool, problems: Problems) -> None:
    try:
        names = parse(text.text).names
    except MalformedError as error:
        problems.add("HF-CONF-19", f"{shown(text.keys)} holds {error}", place=text.place, hint=_ESCAPE)
        return
    if entry.captured is None:
        return
    for name in names:
        if name.startswith(VAR) or name in entry.captured:
            continue
        if name not in {*DERIVED, "company"}:
            _unknown(name, text, entry, entry.captured, problems)
        elif name == "company" and not company:
            problems.add(
                "HF-CONF-20",
                f"{{company}} is used in {shown(text.keys)}, and the file does not name the company",
                place=text.place,
                hint="Add it at the top: company: acme",
            )
        elif name in {"account", "region", "target"} and not entry.has(name):
            problems.add(
                "HF-CONF-20",
                f"{{{name}}} is used in {shown(text.keys)}, and nothing gives {entry.where} its {name}",
                place=text.place,
                hint=f"Add `{name}:` to the entry, or {{{name}}} to its pattern.",
            )


def _unknown(name: str, text: Fillable, entry: _Entry, captured: tuple[str, ...], problems: Problems) -> None:
    known = tuple(dict.fromkeys((*captured, "company", *DERIVED)))
    near = closest(name, known)
    what = f"the pattern {entry.pattern}" if entry.pattern else f"{entry.where}, which has no pattern"
    hint = f"Did you mean {{{near}}}?" if near else f"Known here: {listed(f'{{{one}}}' for one in known)}."
    problems.add(
        "HF-CONF-9",
        f"{{{name}}} is not a placeholder of {what}",
        place=text.place,
        hint=f"{hint} {_ESCAPE}" if near is None else hint,
    )


def _check_circle(entry: _Entry, captured: tuple[str, ...], problems: Problems) -> None:
    texts: dict[str, list[str]] = {}
    places: dict[str, Fillable] = {}
    for text in entry.fillable:
        key = str(text.keys[2])
        key = FILES if key in _FILES_KEYS else key
        texts.setdefault(key, []).append(text.text)
        places.setdefault(key, text)
    found = circle(direct_needs(texts, captured))
    if found is None:
        return
    names = ["the variables files" if key == FILES else key for key in found]
    problems.add(
        "HF-CONF-18",
        f"the placeholders of {entry.where} go in a circle: {' → '.join(names)}",
        place=places[found[0]].place,
        hint="Write one of them without naming the other.",
    )
