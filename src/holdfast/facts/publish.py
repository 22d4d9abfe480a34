"""Publishes the facts of a target: every file is regenerated, and pushed in one transaction."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.audit.entry import Entry
from holdfast.config import placeholders
from holdfast.config.publishing import Facts
from holdfast.config.settings import Target
from holdfast.contract.facts import EnvironmentFacts
from holdfast.contract.facts_file import About, facts_text, read_facts
from holdfast.facts.argocd import refuse_second_revision
from holdfast.facts.build import build, facts_of
from holdfast.facts.outputs import stacks_of
from holdfast.facts.push import open_branch, push_files
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.policies import require_owner_of_target
from holdfast.system import git
from holdfast.system.git_branch import GitBranch


class PublishedFile(Struct, frozen=True, kw_only=True):
    environment: str
    path: str
    status: Literal["published", "unchanged", "removed"]
    digest: str | None
    facts: Mapping[str, object]
    changed: tuple[str, ...] = ()
    """The facts that are new, different or gone."""
    replaced_edit: bool = False
    """A manual edit of the file was overwritten."""


class Publication(Struct, frozen=True, kw_only=True):
    target: str
    repository: str
    branch: str
    commit: str | None
    """None if nothing had to change."""
    files: tuple[PublishedFile, ...]
    notes: tuple[str, ...] = ()


async def publish(context: ChangeContext, target: Target) -> Publication:
    settings = facts_of(target)
    await require_publisher(context, target, "its facts")
    loop = asyncio.get_running_loop()

    def rebuild() -> Sequence[EnvironmentFacts]:
        """From states that are at least as new as the branch: a slow publish never brings old facts back."""
        for stack in stacks_of(context.project, target):
            context.states.forget(stack.name)
        return asyncio.run_coroutine_threadsafe(build(context, target), loop).result()

    return await asyncio.to_thread(_publish, context, target, settings, rebuild)


async def require_publisher(context: ChangeContext, target: Target, what: str) -> None:
    """Only who may apply the target may say what came of it."""
    await context.identity.prove()
    require_owner_of_target(context.project, target, f"{what} may be published")


def _publish(
    context: ChangeContext, target: Target, settings: Facts, rebuild: Callable[[], Sequence[EnvironmentFacts]]
) -> Publication:
    branch = open_branch(context, settings.repository, settings.branch, settings.credentials)
    notes = refuse_second_revision(context.project, settings, branch)
    tree = git.find(context.project.root, context.project.environment.variables)
    source = tree.head() if tree is not None else None
    audit = context.identity.audit
    result: list[PublishedFile] = []

    def change(tip: str | None) -> Mapping[str, bytes | None]:
        result.clear()
        contents: dict[str, bytes | None] = {}
        built = rebuild()
        for facts in built:
            about = About(
                target=target.name,
                environment=facts.environment,
                stacks=facts.stacks,
                by=audit.who.shown,
                commit=source,
            )
            path = settings.file(target=target.name, environment=facts.environment)
            file, text = _file(branch, tip, path, about, facts)
            result.append(file)
            if text is not None:
                contents[path] = text.encode()
        wanted = {file.path for file in result}
        for path, environment in published_files(branch, tip, target.name, settings):
            if path not in wanted:
                contents[path] = None
                result.append(
                    PublishedFile(environment=environment, path=path, status="removed", digest=None, facts={})
                )
        return contents

    details: dict[str, str | int | None] = {
        "target": target.name,
        "repository": settings.repository,
        "branch": settings.branch,
    }
    pushed = push_files(
        branch,
        change,
        message=lambda: _message(target, result, audit.who.shown, source),
        before=functools.partial(audit.record, Entry(what="facts-publish", outcome="begun", details=details)),
    )
    if pushed.commit is not None:
        files = ", ".join(f"{file.path} {file.digest or 'removed'}" for file in result)
        done = {**details, "commit": pushed.commit, "files": files}
        audit.record(Entry(what="facts-publish", outcome="done", details=done))
    return Publication(
        target=target.name,
        repository=settings.repository,
        branch=settings.branch,
        commit=pushed.commit,
        files=tuple(result),
        notes=notes,
    )


def _file(
    branch: GitBranch, tip: str | None, path: str, about: About, facts: EnvironmentFacts
) -> tuple[PublishedFile, str | None]:
    """What becomes of a file, and its new text if that differs."""
    text = facts_text(about, facts.tree)
    content = branch.read(tip, path)
    new = read_facts(text)
    file = PublishedFile(
        environment=facts.environment, path=path, status="published", digest=new.digest, facts=facts.facts
    )
    if content is None:
        return replace(file, changed=tuple(facts.facts)), text
    old = read_facts(content.decode("utf-8", "surrogateescape"))
    if old.about is None:
        raise Refused(
            "HF-FACT-7",
            f"{branch.url}: {path} exists, and Holdfast did not write it",
            hint="Remove it from the branch if these facts shall replace it, or set another `facts.path`.",
        )
    same_origin = (old.about.target, old.about.environment) == (about.target, about.environment)
    if not old.edited and old.body == new.body and same_origin:
        return replace(file, status="unchanged", digest=old.digest), None
    changed = old.differing(facts.facts)
    return replace(file, changed=changed, replaced_edit=old.edited), text


def published_files(
    branch: GitBranch, tip: str | None, target: str, settings: Facts
) -> list[tuple[str, str]]:
    """Path and environment of every file of this target on the branch."""
    template = placeholders.parse(settings.path)
    parts = (
        re.escape(part.text)
        if isinstance(part, placeholders.Literal)
        else re.escape(target)
        if part.name == "target"
        else "[^/]+"
        for part in template.parts
    )
    matching = re.compile("".join(parts))
    found: list[tuple[str, str]] = []
    for path in branch.files(tip):
        if matching.fullmatch(path) and (content := branch.read(tip, path)) is not None:
            about = read_facts(content.decode("utf-8", "surrogateescape")).about
            if about is not None and about.target == target:
                found.append((path, about.environment))
    return found


def _message(target: Target, files: Sequence[PublishedFile], by: str, source: str | None) -> str:
    environments = ", ".join(file.environment for file in files if file.status != "unchanged")
    of = f"\nCommit of the code: {source}" if source is not None else ""
    return f"Publish facts of {target.name}: {environments}\n\nPublished by {by}{of}\n"
