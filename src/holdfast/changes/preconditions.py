"""What must hold before a change starts: key, store, disk space, owner, secrets, dependents of a destroy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from holdfast.changes.repository import Repository
from holdfast.config.secret_refs import SecretRef
from holdfast.config.settings import Target
from holdfast.kernel.errors import Failed, HoldfastError, Problem, Refused, UsageError
from holdfast.kernel.text import first_names
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.policies import require_owner
from holdfast.secrets.keys import is_key_configured
from holdfast.secrets.stack_secrets import stacks_by_reference
from holdfast.stacks.order import dependents_of
from holdfast.stacks.stack import Stack
from holdfast.states.versions import is_managed
from holdfast.store.place import folders_of
from holdfast.store.run_store import RunStore
from holdfast.store.stack_names import require_no_device
from holdfast.terraform.workdirs.gc import collect_garbage, too_little_space

_MOST_NAMES = 5


def require_store_key(repository: Repository) -> None:
    """A run store that outlives this machine needs a configured key: a generated one would be lost."""
    environment = repository.environment
    if repository.store.on_server:
        return
    remote = not folders_of(repository.store.blobs)
    if is_key_configured(environment) or not (remote or (environment.ci and repository.config.store_named)):
        return
    why = "is not on this machine" if remote else "outlives this CI runner"
    raise UsageError(
        "HF-KEY-8",
        f"the run store {repository.store.blobs.shown} {why} and needs a configured key",
        hint="Set HOLDFAST_KEY (create one with: openssl rand -base64 32) or HOLDFAST_KEY_FILE.",
    )


def require_bundle_key(repository: Repository) -> None:
    """A bundle written in CI outlives the runner, and so must its key. With a server, it has the server's."""
    environment = repository.environment
    if not repository.store.on_server and environment.ci and not is_key_configured(environment):
        raise UsageError(
            "HF-KEY-9",
            "a bundle that is written in CI needs a configured key: a generated one is lost with the runner",
            hint="Set HOLDFAST_KEY (base64 of 32 bytes) or HOLDFAST_KEY_FILE as a secret of the "
            "pipeline, the same for plan and apply.",
        )


def require_store(repository: Repository) -> None:
    """Check key and store once, so that a wrong one is a single error and not a failure of every stack.

    An empty folder is left alone: nothing is written before there is something to store.
    """
    require_store_key(repository)
    store = repository.store
    if not folders_of(store.blobs) or not store.empty:
        _ = store.key


def require_names(store: RunStore, stacks: Iterable[Stack]) -> None:
    """On a server, some names belong to devices."""
    if store.on_server:
        require_no_device(stack.name for stack in stacks)


def require_disk_space(repository: Repository) -> None:
    """A full disk could keep a run from saving its state: clean up, then refuse if that is not enough."""
    home = repository.environment.home
    places = (home, *folders_of(repository.store.blobs))
    if too_little_space(places) is not None:
        collect_garbage(home, repository.config.work)
        if (error := too_little_space(places)) is not None:
            raise error


def require_no_dependents(project: Project, store: RunStore, stacks: Sequence[Stack]) -> None:
    """A stack is destroyed with or after the stacks that depend on it, unless those have no resources."""
    chosen = {stack.name for stack in stacks}
    for stack in stacks:
        dependents = dependents_of(stack.name, project.stacks.values())
        known = ((name, store.last_seen(name)) for name in dependents if name not in chosen)
        names = [name for name, seen in known if seen is not None and seen.resources != 0]
        if names:
            both = "both" if len(names) == 1 else "all"
            depend = "depends on it and still has" if len(names) == 1 else "depend on it and still have"
            raise Refused(
                "HF-DEST-1",
                f"{stack.name}: {', '.join(names)} {depend} resources",
                hint=f"Destroy {both}: holdfast destroy {' '.join((*names, stack.name))}",
            )


class SecretsMissing(Failed):
    """Every secret of a change that cannot be read, at once."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems[0].code, problems[0].message, hint=problems[0].hint)
        self.problems = problems


async def require_secrets(context: ChangeContext, stacks: Iterable[Stack]) -> None:
    """A missing secret is noticed before the first stack is applied, not halfway through the change.

    Values stay in memory, so the runs do not read them again.
    """
    await _require_readable(context, stacks_by_reference(stacks))


async def require_secrets_of_target(context: ChangeContext, target: Target) -> None:
    """Those that its platform needs, whoever reads them later: before a deploy begins."""
    used_by = {secret.secret: (f"{target.name}/{secret.name}",) for secret in target.secrets}
    await _require_readable(context, used_by)


async def _require_readable(context: ChangeContext, used_by: Mapping[SecretRef, Sequence[str]]) -> None:
    answers = await asyncio.to_thread(context.secrets.read_all, used_by)
    problems: list[Problem] = []
    for ref, answer in answers.items():
        if isinstance(answer, HoldfastError):
            users = first_names(used_by[ref], _MOST_NAMES)
            message = f"{answer.problem.message}; needed by {users}. Nothing was applied"
            problems.append(answer.problem._replace(message=message))
        else:
            context.redactor.register(answer.secret)
    if problems:
        raise SecretsMissing(tuple(problems))


def applicable_stacks(project: Project, stacks: Iterable[Stack]) -> tuple[Stack, ...]:
    """The stacks that need their lane: a stack that is refused anyway waits for none."""
    return tuple(stack for stack in stacks if refusal(project, stack) is None)


def refusal(project: Project, stack: Stack) -> Refused | None:
    """Why a stack is not applied here, whatever its plan."""
    try:
        require_owner(project, stack)
        require_durable_store(project, stack)
    except Refused as error:
        return error
    return None


def require_durable_store(project: Project, stack: Stack) -> None:
    """The default folder is lost with the CI runner: a managed state or a production run needs another."""
    managed = is_managed(project, stack)
    if project.config.store_named or not project.environment.ci or not (stack.production or managed):
        return
    why = "its state would be stored in" if managed else "it is production, and its runs would be recorded in"
    raise Refused(
        "HF-STORE-10",
        f"{stack.name}: {why} {project.config.store}, which is lost with the CI runner",
        hint="Set `store: s3://bucket/prefix` (or a folder that outlives the runner) in holdfast.yaml, and "
        "set HOLDFAST_KEY. Planning needs neither.",
    )
