"""Policies in Rego: the files in `policy/`, and their packages, rules and tests.

This is not a parser: it searches the text outside strings and comments, and if in doubt assumes more.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import PathKind, Worktree
from holdfast.kernel.patterns import pattern
from holdfast.system.repository import NOT_SOURCE

FOLDER = "policy"
_SUFFIX = ".rego"
_TOKENS = pattern(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*')
_STEP = r'(?:\.[A-Za-z_]\w*|\["[^"\\\n]+"\])'
_PACKAGE = pattern(rf"^[ \t]*package[ \t]+([A-Za-z_]\w*{_STEP}*)[ \t]*(?:[#;\r].*)?$", re.MULTILINE)
_DATA = pattern(rf"(?<![\w.])data((?:{_STEP})+)")
_NAME = r"(?:deny|violation|warn)(?:_[a-zA-Z0-9]+)*"
_HEAD = pattern(rf"^[ \t]*({_NAME})\b(?![ \t]*\()([^\n]*)", re.MULTILINE)
_OLD = pattern(rf"^[ \t]*{_NAME}[ \t]*(?:\[[^\]\n]*\])?[ \t]*\{{", re.MULTILINE)
_TEST = pattern(r"^[ \t]*((?:todo_)?test_\w+)\b", re.MULTILINE)
_DENIES = pattern(r"(?:deny|violation)(?:_[a-zA-Z0-9]+)*")
_WARNS = pattern(r"warn(?:_[a-zA-Z0-9]+)*")


def is_policy(path: str) -> bool:
    """A policy in Rego or a test of one, by its path."""
    return path.startswith(f"{FOLDER}/") and path.endswith(_SUFFIX)


def changes_policies(path: str) -> bool:
    """Whether a change of this path may change the policies: a policy file, a submodule or a link."""
    if path != FOLDER and not path.startswith(f"{FOLDER}/"):
        return False
    return (is_policy(path) and not _is_test(path)) or "." not in path.rpartition("/")[2]


class PolicyFile(Struct, frozen=True, kw_only=True):
    path: str
    text: str

    @property
    def plain(self) -> str:
        """The text without strings and comments, with the same line numbers."""
        return _plain(self.text)

    def search(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], int]]:
        """Every match outside strings and comments, with its line."""
        text, at, line = self.plain, 0, 1
        for match in pattern.finditer(text):
            line += text.count("\n", at, match.start())
            at = match.start()
            yield match, line

    @property
    def is_test(self) -> bool:
        return _is_test(self.path)

    @property
    def package(self) -> str | None:
        """As in the source: `main`, `terraform.s3`, `teams["data-lake"]`."""
        match = _PACKAGE.search(self.text)
        return match[1] if match is not None else None


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


def rules_of(policies: Sequence[PolicyFile]) -> Mapping[str, Mapping[str, bool]]:
    """Packages that deny or warn, with their rules: True for a set, which always has a value."""
    packages: dict[str, dict[str, bool]] = {}
    for policy in policies:
        if policy.package is None or policy.is_test:
            continue
        for head in _HEAD.finditer(policy.plain):
            rules = packages.setdefault(policy.package, {})
            rules[head[1]] = rules.get(head[1], False) or head[2].lstrip().startswith("contains")
    return packages


def old_rules(policies: Sequence[PolicyFile]) -> Iterator[str]:
    """The first rule in the syntax before Rego 1.0 (`deny[msg] {`) of each file."""
    for policy in policies:
        for _, line in itertools.islice(policy.search(_OLD), 1):
            yield f"{policy.path}:{line}"


def unknown_data(policies: Sequence[PolicyFile]) -> Iterator[str]:
    """References such as `data.regions` to a package that no policy has: a rule with one would never fire.

    Each with its first place in each file.
    """
    packages = {_steps(policy.package) for policy in policies if policy.package is not None}
    for policy in policies:
        if policy.is_test:
            continue
        first: dict[str, int] = {}
        for match, line in policy.search(_DATA):
            first.setdefault(match[1], line)
        for path, line in first.items():
            wanted = _steps(path)
            if not any(package[: len(wanted)] == wanted[: len(package)] for package in packages):
                yield f"`data{path}` ({policy.path}:{line})"


def _steps(path: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w[^.\[\]\"]*", path))


def tests_of(policies: Sequence[PolicyFile]) -> tuple[tuple[str, str, str], ...]:
    """Package, name and file of every test."""
    return tuple(
        dict.fromkeys(
            (policy.package, match[1], policy.path)
            for policy in policies
            if policy.package is not None
            for match in _TEST.finditer(policy.plain)
        )
    )


# The folder is often a Git submodule, a link, or written by CI. All of its files count, also those that Git
# ignores. A missing file must be noticed: a submodule that was not fetched is an empty folder.


_SUBMODULE: Final = r"(?m)^\s*path\s*=\s*(\S+)"


class PolicyFiles(NamedTuple):
    paths: tuple[str, ...] = ()
    """Policies and their tests."""
    empty: tuple[str, ...] = ()
    """`policy/` itself or a submodule, if empty. Git does not track empty folders."""
    broken_links: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.paths or self.empty or self.broken_links)


def policy_files(code: Code) -> PolicyFiles:
    tree = code.tree
    if FOLDER not in tree.names("."):
        return PolicyFiles()
    paths: list[str] = []
    empty: list[str] = []
    broken_links: list[str] = []
    submodules = re.findall(_SUBMODULE, (code.content(".gitmodules") or b"").decode(errors="replace"))
    for path, kind in _entries(tree):
        if kind is PathKind.FOLDER:
            if path == FOLDER or path in submodules:
                empty.append(path)
        elif kind is PathKind.MISSING:
            broken_links.append(path)
        elif is_policy(path):
            paths.append(path)
    return PolicyFiles(tuple(paths), tuple(empty), tuple(broken_links))


def _entries(tree: Worktree) -> Iterator[tuple[str, PathKind]]:
    """Files, empty folders and broken links, in order. A folder with several links to it counts once."""
    waiting = [(FOLDER, tree.root / FOLDER)]
    visited: set[Path] = set()
    while waiting:
        path, place = waiting.pop()
        kind = tree.kind(path)
        if kind is not PathKind.FOLDER:
            yield path, kind
            continue
        real = place.resolve() if place.is_symlink() else place
        if real in visited:
            continue
        visited.add(real)
        names = tree.names(path)
        if not names:
            yield path, kind
        inside = (name for name in reversed(names) if name not in NOT_SOURCE)
        waiting.extend((tree.join(path, name), real / name) for name in inside)
