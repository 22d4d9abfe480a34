"""The record of a deploy, and its stages after the apply. Each stage can be repeated without harm.

A stage is recorded as running before it begins, so that a deploy that was killed says where.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from holdfast.changes.preconditions import require_secrets_of_target
from holdfast.config.settings import Target
from holdfast.deploy.bootstrap import apply_manifests, read_manifests
from holdfast.deploy.cluster import open_cluster
from holdfast.deploy.verify import environments_of, in_environments, values_by_environment
from holdfast.facts.publish import publish
from holdfast.facts.seal import seal
from holdfast.gates.values import names_in
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.kernel.text import plural
from holdfast.kubernetes.client import KubernetesClient
from holdfast.plans.context import ChangeContext
from holdfast.plans.policies import require_owner_of_target
from holdfast.plans.status import Status
from holdfast.runs.lanes import hold_lanes
from holdfast.runs.run import DEPLOY, Run, new_run, read_run, write_run
from holdfast.runs.stages import NEW, Stage, StageStatus, is_complete, resumed, with_stage
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.system import git

_MOST_RUNS = 1000
"""Of the newest runs, among which the last deploy is looked for."""


async def begin(context: ChangeContext, target: Target, *, resume: bool) -> Run:
    """The run of a new deploy, or of the one that is continued. Raises before anything is changed."""
    await context.identity.prove()
    require_owner_of_target(context.project, target, "it is deployed")
    context.store.require_apply_key("a deploy")
    await require_secrets_of_target(context, target)
    source = await asyncio.to_thread(source_of, context, target)
    run = new_run(None, DEPLOY, context.identity, target=target.name)
    run = replace(run.to(Status.APPLYING), stages=NEW, source=source)
    if resume:
        last = _resumable(context.store, target, source)
        note = f"continues the deploy {last.id}"
        run = replace(run, stages=resumed(last.stages or NEW), notes=(note,))
        if last.status.is_running:
            write_run(context.store, last.to(Status.FAILED, f"interrupted; continued by the deploy {run.id}"))
    write_run(context.store, run)
    return run


def _resumable(store: RunStore, target: Target, source: str) -> Run:
    last = last_deploy(store, target.name)
    fresh = f"Deploy from the beginning: holdfast deploy {target.name}"
    if last is None or last.stages is None or is_complete(last.stages):
        what = "has no deploy" if last is None else "is deployed completely: there is nothing"
        raise UsageError("HF-DEPLOY-1", f"the target {target.name} {what} to continue", hint=fresh)
    if last.source != source:
        raise UsageError(
            "HF-DEPLOY-2",
            f"the code changed since the deploy {last.id} of {target.name} began",
            hint=f"Its finished stages are about other code. {fresh}",
        )
    return last


def last_deploy(store: RunStore, target: str) -> Run | None:
    for run_id in store.runs.ids()[:_MOST_RUNS]:
        run = read_run(store, run_id)
        if run is not None and run.operation == DEPLOY and run.target == target:
            return run
    return None


def source_of(context: ChangeContext, target: Target) -> str:
    """A digest of the commit, of what differs from it, and of what the stages read."""
    digest = hashlib.sha256()
    project = context.project
    tree = git.find(project.root, project.environment.variables)
    names = [project.config.file.name]
    if target.bootstrap is not None:
        names += [manifest.file for manifest in target.bootstrap.manifests]
    if tree is not None:
        head = tree.head()
        digest.update((head or "").encode())
        changed = tree.changed_since(head) if head is not None else {}
        names += sorted(changed)
    for name in names:
        path = project.root / name
        digest.update(f"\0{name}\0".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def stage_begins(store: RunStore, run: Run, name: str) -> Run:
    return _with(store, run, Stage(name=name, status=StageStatus.RUNNING), Status.APPLYING)


def stage_ends(store: RunStore, run: Run, stage: Stage) -> Run:
    """The deploy fails with its first stage that fails, and is applied with its last."""
    stages = with_stage(run.stages or NEW, stage)
    status = Status.APPLYING
    if stage.status is StageStatus.FAILED:
        status = Status.FAILED
    elif is_complete(stages):
        status = Status.APPLIED
    return _with(store, run, stage, status)


def _with(store: RunStore, run: Run, stage: Stage, status: Status) -> Run:
    run = replace(run.to(status), stages=with_stage(run.stages or NEW, stage))
    write_run(store, run)
    return run


def failed_stage(name: str, error: HoldfastError, clean: Callable[[str], str]) -> Stage:
    problem = error.problem
    details = tuple(clean(text) for text in (problem.hint,) if text)
    return Stage(
        name=name,
        status=StageStatus.FAILED,
        summary=clean(f"{problem.message} ({problem.code})"),
        details=details,
    )


def skipped(name: str, why: str) -> Stage:
    return Stage(name=name, status=StageStatus.SKIPPED, summary=why)


def done(name: str, summary: str, details: Sequence[str] = ()) -> Stage:
    return Stage(name=name, status=StageStatus.DONE, summary=summary, details=tuple(details))


# The stages


@asynccontextmanager
async def _lane(context: ChangeContext, target: Target) -> AsyncIterator[None]:
    """No other writer of the target works meanwhile."""
    async with hold_lanes(
        context.store, context.control, context.identity, _stacks(context, target), operation="deploy"
    ):
        yield


def _stacks(context: ChangeContext, target: Target) -> tuple[Stack, ...]:
    stacks = context.project.stacks.values()
    return tuple(stack for stack in stacks if stack.target is not None and stack.target.name == target.name)


async def facts_stage(context: ChangeContext, target: Target) -> Stage:
    if target.facts is None and not target.bridge:
        return skipped("facts", "the target publishes no facts")
    details: list[str] = []
    async with _lane(context, target):
        if target.facts is not None:
            publication = await publish(context, target)
            for file in publication.files:
                changed = f" ({plural(len(file.changed), 'fact')} changed)" if file.changed else ""
                details.append(f"{file.path}: {file.status}{changed}")
        if target.bridge:
            sealed = await seal(context, target)
            details.append(f"the bridge: {plural(len(sealed), 'repository', 'repositories')}")
    return done("facts", "published", details)


async def clusters_of(context: ChangeContext, target: Target) -> tuple[KubernetesClient, ...]:
    """One for each environment that has its own."""
    settings = target.kubernetes
    if settings is None:
        return ()
    names = names_in(settings)
    environments = in_environments(names, environments_of(context.project.stacks.values(), target))
    values = await values_by_environment(context, target, environments, names)
    clients = [
        await asyncio.to_thread(open_cluster, context, settings, values[environment])
        for environment in environments
    ]
    return tuple({(client.access.server, client.access.context): client for client in clients}.values())


async def cluster_stage(context: ChangeContext, target: Target) -> Stage:
    """Whether each cluster can be reached with these credentials."""
    clients = await clusters_of(context, target)
    if not clients:
        return skipped("cluster", "the target has no `kubernetes`")
    versions = [await asyncio.to_thread(client.version) for client in clients]
    shown = [
        f"{client.access.context}: Kubernetes {version}"
        for client, version in zip(clients, versions, strict=True)
    ]
    return done("cluster", ", ".join(shown))


async def bootstrap_stage(context: ChangeContext, target: Target) -> Stage:
    if target.bootstrap is None:
        return skipped("bootstrap", "the target has no `bootstrap`")
    manifests = await asyncio.to_thread(read_manifests, context.project.root, target.bootstrap)
    async with _lane(context, target):
        clients = await clusters_of(context, target)
        for client in clients:
            await asyncio.to_thread(apply_manifests, client, manifests, target.bootstrap.namespace)
    count = plural(len(manifests.resources), "resource")
    return done(
        "bootstrap",
        f"{count} applied from {plural(manifests.files, 'file')}",
        [one.access.context for one in clients],
    )
