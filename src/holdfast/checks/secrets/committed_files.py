"""Files that do not belong in Git: in the tree, about to be added, and in the history. Pure.

A rule classifies a path, by its content if the name is not enough. For the history only names are known, and
what `git_history` found in old versions.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from holdfast.checks.model.contents import ContentKind, History, HistoryMatch, in_utf8
from holdfast.checks.model.interface import CheckResult, Finding, Severity, Skipped
from holdfast.checks.model.subjects import Checkout
from holdfast.checks.secrets.evidence import is_sealed
from holdfast.kernel.errors import Place

NO_GIT = "not a Git working tree, so the tracked files are not known"
_LARGEST = 5_000_000
_NOT_THESE = (
    ".tf", ".tofu", ".tfvars", ".md", ".rst", ".adoc", ".py", ".go", ".js", ".ts", ".rb", ".sh", ".ps1",
    ".rego", ".sentinel", ".yaml", ".yml", ".hcl", ".tpl", ".tftpl", ".tfbackend", ".example", ".sample",
    ".png", ".svg", ".html",
)  # fmt: skip


class Content(NamedTuple):
    """A file of the tree, read when a rule asks."""

    checkout: Checkout
    path: str

    def __call__(self) -> bytes | None:
        content = self.checkout.content(self.path)
        return in_utf8(content) if content is not None and len(content) <= _LARGEST else None

    def beside(self, endings: tuple[str, ...]) -> Iterator[bytes]:
        """The files with these endings in the same folder, and itself."""
        folder = self.path.rpartition("/")[0]
        for path in self.checkout.files:
            if path == self.path or (path.endswith(endings) and path.rpartition("/")[0] == folder):
                yield Content(self.checkout, path)() or b""


class Suspect(Struct, frozen=True):
    """`what` it is, with an article: `a state file`."""

    what: str
    folder: str | None = None
    """One finding covers everything below it."""
    severity: Severity | None = None
    belongs_to: str | None = None
    """A backup belongs to this file: both are one finding."""
    group: str | None = None
    """Of the finding: all of them need the same change."""
    hint: str | None = None
    """Other than that of the rule, while it is in the tree."""


Classify = Callable[[str, Content | None], Suspect | None]
"""Classifies a path; its content is None if it is not available."""


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def is_source_or_document(name: str) -> bool:
    """Code, documentation or a template about such a file, not the file itself: `plan.sh`, `tfstate.md`."""
    return name.lower().endswith(_NOT_THESE)


def in_git(classify: Classify, *marks: ContentKind) -> dict[str, Any]:
    """The fields of a `Rule` about files in Git; `marks`: what old versions may be, under any name."""
    return {
        "repository": partial(_check_tree, classify),
        "history": partial(_check_history, classify, frozenset(marks)),
        "of_git": True,
    }


def _check_tree(classify: Classify, checkout: Checkout) -> Iterator[CheckResult]:
    if checkout.tracked is None:
        yield Skipped(reason=NO_GIT)
        return
    found: dict[tuple[str, bool], list[tuple[str, Suspect]]] = {}
    for path in checkout.files:
        content = Content(checkout, path)
        suspect = classify(path, content)
        if suspect is None or (suspect.folder is None and is_sealed(content() or b"")):
            continue
        key = (suspect.folder or suspect.belongs_to or path, path in checkout.tracked)
        found.setdefault(key, []).append((path, suspect))
    for (_, tracked), suspects in found.items():  # The most severe of its files counts.
        (path, suspect), *others = sorted(
            suspects, key=lambda found: (found[1].severity or Severity.ERROR).rank
        )
        names = () if suspect.folder else tuple(f", `{name_of(other)}`" for other, _ in others)
        yield _committed(path, suspect, "".join(names)) if tracked else _not_ignored(path, suspect)


def _committed(path: str, suspect: Suspect, others: str) -> Finding:
    return Finding(
        message=f"{suspect.what} is committed to Git (`{suspect.folder or name_of(path)}`{others})",
        place=Place(file=path),
        hint=suspect.hint,
        severity=suspect.severity,
        group=suspect.group,
    )


def _not_ignored(path: str, suspect: Suspect) -> Finding:
    return Finding(
        message=f"{suspect.what} (`{suspect.folder or name_of(path)}`) is not covered by `.gitignore`",
        place=Place(file=path),
        hint=f"Add `{_ignore_pattern(path, suspect)}` to `.gitignore`.",
        severity=Severity.WARNING,
    )


def _ignore_pattern(path: str, suspect: Suspect) -> str:
    return f"{posixpath.basename(suspect.folder)}/" if suspect.folder else name_of(path)


def _check_history(
    classify: Classify, marks: frozenset[ContentKind], history: History
) -> Iterator[CheckResult]:
    tracked = history.checkout.tracked or frozenset()
    reported: set[str] = set()
    for trace in history.traces:
        if (
            trace.mark in marks
            and trace.path not in reported
            and not _is_still_committed(classify, history, trace.path)
        ):
            reported.add(trace.path)
            yield _in_history(trace.path, _suspect(classify, trace), trace.commit, trace.date)
    for commit in history.commits:
        for path in commit.paths:
            suspect = classify(path, None)
            if suspect is None or path in tracked or (suspect.folder or path) in reported:
                continue
            reported.add(suspect.folder or path)
            yield _in_history(path, suspect, commit.id, commit.date)
    for unread in history.unread if marks else ():
        yield Skipped(reason=unread.reason, file=unread.path)


def _is_still_committed(classify: Classify, history: History, path: str) -> bool:
    """Whether the tree still has it, so that it is reported there."""
    is_tracked = history.checkout.tracked is not None and path in history.checkout.tracked
    return is_tracked and classify(path, Content(history.checkout, path)) is not None


def _suspect(classify: Classify, trace: HistoryMatch) -> Suspect:
    """By its content, in the words for its name if these say as much."""
    named = classify(trace.path, None)
    if named is not None and named.severity is None:
        return named
    return Suspect(
        trace.mark.value, severity=Severity.WARNING if trace.mark is ContentKind.SHOWN_PLAN else None
    )


def _in_history(path: str, suspect: Suspect, commit: str, date: str) -> Finding:
    return Finding(
        message=f"{suspect.what} (`{suspect.folder or name_of(path)}`) was added in commit "
        f"{commit[:12]} of {date[:10]} and is still in the history",
        place=Place(file=path),
        hint="Rotate every secret in it; then rewrite the history (`git filter-repo "
        f"--invert-paths --path {suspect.folder or path}`) and have everyone clone again.",
        severity=suspect.severity,
    )
