"""Whether the published facts are what Holdfast published: edits by hand, and who made them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.publishing import Facts
from holdfast.config.settings import Target
from holdfast.contract.facts_file import FactsFile, read_facts
from holdfast.facts.build import build, environments, facts_of
from holdfast.facts.publish import published_files
from holdfast.facts.push import open_branch
from holdfast.plans.context import ChangeContext
from holdfast.system.git_branch import Commit, GitBranch

_MOST_EDITS = 20


class VerifiedFile(Struct, frozen=True, kw_only=True):
    environment: str
    path: str
    status: Literal["ok", "edited", "deleted", "missing", "different", "left"]
    """`missing`: never published. `different`: from the outputs. `left`: of an environment that is gone."""
    digest: str | None = None
    by: str | None = None
    """Who published it."""
    edits: tuple[Commit, ...] = ()
    """The commits since Holdfast published it, the newest first."""
    facts: tuple[str, ...] = ()
    """Those that differ from the outputs, or from what was published last."""


class Verification(Struct, frozen=True, kw_only=True):
    target: str
    repository: str
    branch: str
    commit: str | None
    files: tuple[VerifiedFile, ...]
    compared: bool
    """Whether the facts were also compared with the outputs."""

    @property
    def good(self) -> bool:
        return all(file.status == "ok" for file in self.files)


async def verify(context: ChangeContext, target: Target, *, outputs: bool) -> Verification:
    settings = facts_of(target)
    names = environments(context, target)
    expected: Mapping[str, Mapping[str, object]] = {}
    if outputs:
        expected = {facts.environment: facts.facts for facts in await build(context, target)}
    return await asyncio.to_thread(_verify, context, target, settings, names, expected)


def _verify(
    context: ChangeContext,
    target: Target,
    settings: Facts,
    names: Sequence[str],
    expected: Mapping[str, Mapping[str, object]],
) -> Verification:
    branch = open_branch(context, settings.repository, settings.branch, settings.credentials)
    tip = branch.full_tip()
    paths = {settings.file(target=target.name, environment=name): name for name in names}
    files = [
        _file(branch, tip, path, environment, expected.get(environment))
        for path, environment in paths.items()
    ]
    for path, environment in published_files(branch, tip, target.name, settings):
        if path not in paths:
            files.append(VerifiedFile(environment=environment, path=path, status="left"))
    return Verification(
        target=target.name,
        repository=settings.repository,
        branch=settings.branch,
        commit=tip,
        files=tuple(files),
        compared=bool(expected),
    )


def _file(
    branch: GitBranch,
    tip: str | None,
    path: str,
    environment: str,
    expected: Mapping[str, object] | None,
) -> VerifiedFile:
    verified = VerifiedFile(environment=environment, path=path, status="missing")
    content = branch.read(tip, path)
    if content is None:
        edits, before = _edits(branch, tip, path)
        return replace(verified, status="deleted", edits=edits) if before is not None else verified
    file = _parsed(content)
    by = file.about.by if file.about is not None else None
    verified = replace(verified, status="ok", digest=file.digest, by=by)
    if file.edited:
        edits, before = _edits(branch, tip, path)
        facts = file.differing(before.leaves) if before is not None else ()
        return replace(verified, status="edited", edits=edits, facts=facts)
    if expected is not None and (facts := file.differing(expected)):
        return replace(verified, status="different", facts=facts)
    return verified


def _edits(branch: GitBranch, tip: str | None, path: str) -> tuple[tuple[Commit, ...], FactsFile | None]:
    """The commits since the last one that Holdfast wrote, and the file as that had it."""
    edits: list[Commit] = []
    if tip is None:
        return (), None
    for commit in branch.commits(tip, path):
        content = branch.read(commit.id, path)
        if content is not None and not (file := _parsed(content)).edited:
            return tuple(edits), file
        if len(edits) < _MOST_EDITS:
            edits.append(commit)
    return tuple(edits), None


def _parsed(content: bytes) -> FactsFile:
    return read_facts(content.decode("utf-8", "surrogateescape"))
