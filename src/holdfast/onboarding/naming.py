"""Recognises environments, regions and accounts in paths, and names the placeholders of a pattern."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.config.settings import PRODUCTION_NAMES, Environment
from holdfast.stacks.environment import recognise

_BEFORE_PRODUCTION: Final = frozenset(
    (
        *("dev", "devel", "develop", "development", "test", "testing", "tst", "qa", "uat"),
        *("stage", "staging", "stg", "sandbox", "sbx", "integration", "preview", "playground"),
        *("nonprod", "preprod", "nonproduction", "preproduction"),
    )
)
_NOT_QUITE: Final = re.compile(r"\b(non|pre)[-_.]?(prod)", re.IGNORECASE)
_SIDES: Final = "central|north|south|east|west|northeast|northwest|southeast|southwest"
_REGION: Final = re.compile(
    rf"(?:af|ap|ca|cn|eu|il|me|mx|sa|us)(?:-gov|-iso[a-z]?)?-(?:{_SIDES})-\d"
    rf"|(?:africa|asia|australia|europe|me|northamerica|southamerica|us)-(?:{_SIDES})\d+"
    r"|(?:north|west|east|central|south|southeast|southcentral|northcentral|westcentral)"
    r"(?:us|europe|asia|india)\d?"
    r"|(?:uk|france|germany|sweden|switzerland|norway|poland|italy|spain|israel|qatar|mexico|japan|korea"
    r"|australia|brazil|canada|uae|southafrica|newzealand)"
    r"(?:north|south|east|west|central|westcentral|southeast)\d?"
)
_ACCOUNT_ID: Final = re.compile(r"\d{12}")
_HINTS: Final = {
    word: placeholder
    for placeholder, words in {
        "account": "account accounts",
        "app": "app apps applications",
        "cluster": "clusters",
        "component": "component components",
        "customer": "customers",
        "environment": "env envs environment environments",
        "project": "project projects",
        "region": "region regions",
        "service": "service services",
        "subscription": "subscriptions",
        "team": "team teams",
        "tenant": "tenants",
    }.items()
    for word in words.split()
}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")
_LIKELY_TO_VARY: Final = frozenset(("environment", "region", "account"))
_GENERIC_NAMES: Final = frozenset(("terraform", "main", "variables", "vars", "values", "config", "inputs"))
"""File names that say nothing about the stack."""


class EnvironmentWord(Struct, frozen=True, kw_only=True):
    text: str
    """As written in the value: `dev`, `Prod`."""
    production: bool


def environment_word(value: str) -> EnvironmentWord | None:
    """The environment that a value names; production if it names several."""
    joined_up = _NOT_QUITE.sub(r"\1\2", value)
    tokens = [token for token in re.split(r"[-_.]", joined_up) if token]
    bare = {token: token.lower().rstrip("0123456789") for token in tokens}
    for production, words in ((True, PRODUCTION_NAMES), (False, _BEFORE_PRODUCTION)):
        word = next((token for token in tokens if bare[token] in words), None)
        if word is not None:
            return EnvironmentWord(text=word, production=production)
    return None


def ends_with_environment(value: str) -> bool:
    """Whether the last word is one, as in `acme-sandbox`: in `dev-portal` it may be part of a name."""
    word = environment_word(value)
    return word is not None and _NOT_QUITE.sub(r"\1\2", value).endswith(word.text)


def is_region(value: str) -> bool:
    return bool(_REGION.fullmatch(value))


def is_environment(value: str) -> bool:
    """Whether the whole value is the name of an environment."""
    word = environment_word(value)
    return word is not None and word.text == _NOT_QUITE.sub(r"\1\2", value)


def environment_folder(path: str) -> str | None:
    """The folder below `environments` or `envs`, if its name is that of an environment."""
    pairs = itertools.pairwise(path.split("/"))
    inner = (inside for above, inside in pairs if _HINTS.get(above.lower()) == "environment")
    return next(filter(is_environment, inner), None)


def is_hint(name: str) -> bool:
    """Whether a folder's name tells what the folders in it are: `accounts`, `envs`."""
    return name.lower() in _HINTS and name.lower().endswith(("s", "env"))


def path_pattern(
    paths: Sequence[tuple[str, ...]], *, leaf: str, component: int | None = None
) -> tuple[str, ...]:
    """The pattern of paths of equal length: parts that vary or have a known meaning become placeholders.

    `leaf` is the placeholder for the last part, `component` the index of the part that names a module.
    """
    columns = [tuple(dict.fromkeys(column)) for column in zip(*paths, strict=True)]
    affixes = [
        _around_environments(column) if _hint(columns, index) in (None, "environment") else ("", "")
        for index, column in enumerate(columns)
    ]
    columns = [
        tuple(value[len(before) : len(value) - len(after)] for value in column)
        for column, (before, after) in zip(columns, affixes, strict=True)
    ]
    environment = _environment_column(columns)
    parts: list[str] = []
    taken: set[str] = set()
    for index, column in enumerate(columns):
        kind = _kind(columns, index, environment=environment, leaf=leaf, taken=taken)
        kind = "component" if kind == "group" and index == component else kind
        if len(column) == 1 and not _opens(kind, column[0], taken, last=index == len(columns) - 1):
            parts.append(column[0])
            continue
        names = (kind, *(f"{kind}{number}" for number in range(2, 100)))
        name = next(candidate for candidate in names if candidate not in taken)
        taken.add(name)
        before, after = affixes[index]
        parts.append(f"{before}{{{name}}}{after}")
    return tuple(parts)


def common_affixes(values: Sequence[str]) -> tuple[str, str]:
    """What all values begin and end with, up to a separator: `("acme-", "")` of acme-dev and acme-prod."""
    prefix = _common_start(values)
    suffix = _common_start([value[len(prefix) :][::-1] for value in values])
    return prefix, suffix[::-1]


def _common_start(values: Sequence[str]) -> str:
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*values, strict=False))
    start = "".join(letters[0] for letters in same)
    return start[: max(start.rfind(separator) for separator in "-_./") + 1]


def _around_environments(column: Sequence[str]) -> tuple[str, str]:
    """The text around the environments in `acme-dev` and `acme-prod`; empty if there is none."""
    if len(column) == 1 or _mostly(column, is_environment):
        return "", ""
    before, after = common_affixes(column)
    inner = [value[len(before) : len(value) - len(after)] for value in column]
    return (before, after) if all(inner) and _mostly(inner, is_environment) else ("", "")


def _opens(kind: str, value: str, taken: Collection[str], *, last: bool) -> bool:
    """Whether a part with a single value becomes a placeholder too, because others are likely."""
    if kind in _LIKELY_TO_VARY:
        return True
    return kind == "service" or (last and bool(taken) and value not in _GENERIC_NAMES)


def _mostly(column: Collection[str], is_kind: Callable[[str], bool]) -> bool:
    return 2 * sum(map(is_kind, column)) >= len(column) and bool(column)


def _environment_column(columns: Sequence[tuple[str, ...]]) -> int | None:
    """The part of the path that names the environment most often."""
    counted = [
        (sum(map(is_environment, column)), index)
        for index, column in enumerate(columns)
        if _mostly(column, is_environment) and column != ("live",)
    ]
    return max(counted, key=lambda pair: (pair[0], -pair[1]))[1] if counted else None


def _hint(columns: Sequence[tuple[str, ...]], index: int) -> str | None:
    """What the folder above says about the values: `accounts`, `envs`."""
    before = columns[index - 1] if index else ()
    return _HINTS.get(before[0].lower()) if len(before) == 1 else None


def _kind(
    columns: Sequence[tuple[str, ...]], index: int, *, environment: int | None, leaf: str, taken: set[str]
) -> str:
    column = columns[index]
    hint = _hint(columns, index)
    if _mostly(column, is_region):
        return "region"
    if hint is not None and hint not in taken:
        return hint
    if index == environment:
        return "environment"
    if all(_ACCOUNT_ID.fullmatch(value) for value in column):
        return "account"
    if index == len(columns) - 1:
        return leaf
    return "service" if "account" in taken else "group"


def environments_for(values: Iterable[str]) -> tuple[tuple[Environment, ...], tuple[str, ...]]:
    """What to write under `environments`, and the values without a known name: they count as production."""
    words = {value: environment_word(value) for value in dict.fromkeys(values)}
    globs: dict[str, tuple[bool, list[str]]] = {}
    for value, word in words.items():
        if word is None or not _NAME.fullmatch(word.text):
            continue
        match = globs.setdefault(value if is_environment(value) else word.text, (word.production, []))[1]
        glob = _glob(value, word)
        if not is_environment(value) and glob not in match:
            match.append(glob)
    environments = _environments(globs)
    for value, word in words.items():
        if word is None:
            continue
        recognised = recognise(value, environments)
        if recognised is None or recognised.production != word.production:
            globs[word.text if word.text in globs else value][1].append(value)
            environments = _environments(globs)
    return environments, tuple(value for value, word in words.items() if word is None)


def _environments(globs: Mapping[str, tuple[bool, list[str]]]) -> tuple[Environment, ...]:
    environments = (
        Environment(name=name, match=tuple(match), production=production)
        for name, (production, match) in globs.items()
    )
    return tuple(sorted(environments, key=lambda environment: (environment.production, environment.name)))


def _glob(value: str, word: EnvironmentWord) -> str:
    """`acme-dev` becomes `*-dev`; a value that does not contain the word as written stays as it is."""
    before, word_found, after = value.partition(word.text)
    if not word_found:
        return value
    return f"{f'*{before[-1]}' if before else ''}{word.text}{f'{after[0]}*' if after else ''}"
