"""Policies in Rego as they are written: packages, rules, and what of a document they can look at. Pure.

This is no parser of Rego: it reads words outside strings and comments, and where words leave a doubt it takes
the answer that hides nothing.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

FOLDER = "policy"
_SUFFIX = ".rego"
_TOKENS = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*')
_STEP = r'(?:\.[A-Za-z_]\w*|\["[^"\\\n]+"\])'
_PACKAGE = re.compile(rf"^[ \t]*package[ \t]+([A-Za-z_]\w*{_STEP}*)[ \t]*(?:[#;\r].*)?$", re.MULTILINE)
_DATA = re.compile(rf"(?<![\w.])data((?:{_STEP})+)")
_NAME = r"(?:deny|violation|warn)(?:_[a-zA-Z0-9]+)*"
_HEAD = re.compile(rf"^[ \t]*({_NAME})\b(?![ \t]*\()([^\n]*)", re.MULTILINE)
_OLD = re.compile(rf"^[ \t]*{_NAME}[ \t]*(?:\[[^\]\n]*\])?[ \t]*\{{", re.MULTILINE)
_TEST = re.compile(r"^[ \t]*((?:todo_)?test_\w+)\b", re.MULTILINE)
_DENIES = re.compile(r"(?:deny|violation)(?:_[a-zA-Z0-9]+)*")
_WARNS = re.compile(r"warn(?:_[a-zA-Z0-9]+)*")


def is_policy(path: str) -> bool:
    """A policy in Rego, or a test of one, by where it lies and how its name ends."""
    return path.startswith(f"{FOLDER}/") and path.endswith(_SUFFIX)


def changes_policies(path: str) -> bool:
    """Whether a change of this path may change what policies say: one of them, or a submodule or link."""
    if path != FOLDER and not path.startswith(f"{FOLDER}/"):
        return False
    return (is_policy(path) and not _is_test(path)) or "." not in path.rpartition("/")[2]


class Policy(Struct, frozen=True, kw_only=True):
    """One file."""

    path: str
    text: str

    @property
    def plain(self) -> str:
        """The text without strings and comments, each line where it was."""
        return _plain(self.text)

    def finds(self, what: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int]]:
        """What is written outside strings and comments, each with its line."""
        text, at, line = self.plain, 0, 1
        for found in what.finditer(text):
            line += text.count("\n", at, found.start())
            at = found.start()
            yield found, line

    @property
    def is_test(self) -> bool:
        return _is_test(self.path)

    @property
    def package(self) -> str | None:
        """As it is written: `main`, `terraform.s3`, `teams["data-lake"]`. It is what a file begins with."""
        found = _PACKAGE.search(self.text)
        return found[1] if found is not None else None


def _is_test(path: str) -> bool:
    return path.endswith("_test.rego")


@functools.lru_cache(maxsize=1024)
def _plain(text: str) -> str:
    return _TOKENS.sub(_blank, text)


def _blank(token: re.Match[str]) -> str:
    text = token[0]
    return "" if text.startswith("#") else f'""{chr(10) * text.count(chr(10))}'


def is_failure(rule: str) -> bool:
    return _DENIES.fullmatch(rule) is not None


def is_warning(rule: str) -> bool:
    return _WARNS.fullmatch(rule) is not None


def rules_of(policies: Sequence[Policy]) -> Mapping[str, Mapping[str, bool]]:
    """Packages that deny or warn, with their rules: True for one that is a set, and so is always defined."""
    found: dict[str, dict[str, bool]] = {}
    for policy in policies:
        if policy.package is None or policy.is_test:
            continue
        for head in _HEAD.finditer(policy.plain):
            rules = found.setdefault(policy.package, {})
            rules[head[1]] = rules.get(head[1], False) or head[2].lstrip().startswith("contains")
    return found


def old_rules(policies: Sequence[Policy]) -> Iterator[str]:
    """`deny[msg] {`, as Rego before 1.0 wrote it: where each first one stands."""
    for policy in policies:
        for _, line in itertools.islice(policy.finds(_OLD), 1):
            yield f"{policy.path}:{line}"


def unknown_data(policies: Sequence[Policy]) -> Iterator[str]:
    """`data.regions`, where no policy is that package: nothing is there, and a rule that asks never fires.

    Each with the first place in each file.
    """
    packages = {_steps(policy.package) for policy in policies if policy.package is not None}
    for policy in policies:
        if policy.is_test:
            continue
        told: set[str] = set()
        for found, line in policy.finds(_DATA):
            if found[1] in told:
                continue
            told.add(found[1])
            wanted = _steps(found[1])
            if not any(one[: len(wanted)] == wanted[: len(one)] for one in packages):
                yield f"`data{found[1]}` ({policy.path}:{line})"


def _steps(path: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w[^.\[\]\"]*", path))


def tests_of(policies: Sequence[Policy]) -> tuple[tuple[str, str, str], ...]:
    """Package, name and file of every test."""
    return tuple(
        dict.fromkeys(
            (policy.package, found[1], policy.path)
            for policy in policies
            if policy.package is not None
            for found in _TEST.finditer(policy.plain)
        )
    )


# What of a plan they can look at.

_PARTS = (
    *("applyable", "checks", "complete", "configuration", "errored", "output_changes", "planned_values"),
    *("prior_state", "relevant_attributes", "resource_changes", "resource_drift", "timestamp", "variables"),
)
_CHANGE = ("after", "after_sensitive", "after_unknown", "before", "before_sensitive")
_INPUT_WHOLE = re.compile(r"\binput\b(?!\.[A-Za-z_])|\bimport[ \t]+input\b")
_CHANGE_WHOLE = re.compile(r"\bchange\b(?!\.[A-Za-z_])")
_WHOLE = re.compile(r"\b(?:walk|json\.filter|json\.remove|graph\.reachable|object\.\w+)[ \t]*\(")
_ANY_KEY = re.compile(
    r"\[[ \t]*[a-z_]\w*[ \t]*\][ \t]*\[[ \t]*[a-z_]|\bsome[ \t]+\w+[ \t]*,[ \t]*\w+[ \t]+in\b"
)


def slim(plan: Mapping[str, object], policies: Sequence[Policy]) -> dict[str, object]:
    """The plan without those of its large parts that no policy names.

    A policy that takes the input or a change as a whole (`walk(input)`, `input[x]`) can see everything: then
    nothing is left out, and one that goes through keys by variables sees changes as they are. Which resources
    there are is never changed.
    """
    text = "\n".join(policy.plain for policy in policies)
    named = "\n".join(policy.text for policy in policies)
    if _INPUT_WHOLE.search(text) or _WHOLE.search(text):
        return dict(plan)
    result = {part: value for part, value in plan.items() if part not in _PARTS or _has(part, named)}
    unread = frozenset(part for part in _CHANGE if not _has(part, named))
    if unread and not _CHANGE_WHOLE.search(text) and not _ANY_KEY.search(text):
        for part in ("resource_changes", "resource_drift"):
            changes = result.get(part)
            if isinstance(changes, list):
                result[part] = [_without(one, unread) for one in changes]
    return result


def _has(word: str, text: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


def _without(one: object, parts: frozenset[str]) -> object:
    change = one.get("change") if isinstance(one, dict) else None
    if not isinstance(one, dict) or not isinstance(change, dict):
        return one
    return {**one, "change": {key: value for key, value in change.items() if key not in parts}}
