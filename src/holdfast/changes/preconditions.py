"""What must hold before a change starts: a durable key, disk space, and bundles of this repository."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.changes.repository import Repository
from holdfast.kernel.errors import Refused, UsageError
from holdfast.plans.saved_plan import SavedPlan
from holdfast.secrets.keys import is_key_configured
from holdfast.stacks.stack import Stack
from holdfast.store.place import folders_of
from holdfast.system.environment import Environment
from holdfast.terraform.workdirs.disk import fullest_disk
from holdfast.terraform.workdirs.disk import require_disk_space as require_free_space
from holdfast.terraform.workdirs.gc import collect_garbage


def require_store_key(repository: Repository) -> None:
    """A run store that outlives this machine needs a configured key: a generated one would be lost."""
    environment = repository.environment
    remote = not folders_of(repository.store.blobs)
    if is_key_configured(environment) or not (remote or (environment.ci and repository.config.store_named)):
        return
    why = "is not on this machine" if remote else "outlives this CI runner"
    raise UsageError(
        "HF-KEY-8",
        f"the run store {repository.store.blobs.shown} {why} and needs a configured key",
        hint="Set HOLDFAST_KEY (create one with: openssl rand -base64 32) or HOLDFAST_KEY_FILE.",
    )


def require_bundle_key(environment: Environment) -> None:
    """A bundle written in CI outlives the runner, and so must its key."""
    if environment.ci and not is_key_configured(environment):
        raise UsageError(
            "HF-KEY-9",
            "a bundle written in CI outlives the runner and needs a configured key",
            hint="Set HOLDFAST_KEY (base64 of 32 bytes) or HOLDFAST_KEY_FILE as a secret of the "
            "pipeline, for plan and apply.",
        )


def require_store(repository: Repository) -> None:
    """Check key and store once, so that a wrong one is a single error and not a failure of every stack.

    An empty folder is left alone: nothing is written before there is something to store.
    """
    require_store_key(repository)
    store = repository.store
    if not folders_of(store.blobs) or not store.empty:
        _ = store.key


def require_disk_space(repository: Repository) -> None:
    """A full disk could keep a run from saving its state: clean up, then refuse if that is not enough."""
    home = repository.environment.home
    places = (home, *folders_of(repository.store.blobs))
    if fullest_disk(places) is not None:
        collect_garbage(home, repository.config.work)
        require_free_space(places)


def stacks_of_bundles(
    repository: Repository, bundles: Iterable[SavedPlan]
) -> tuple[tuple[Stack, SavedPlan], ...]:
    """Each saved plan with its stack, all of which must be in this repository."""
    pairs = []
    for bundle in bundles:
        stack = repository.by_name.get(bundle.stack)
        if stack is None:
            raise Refused(
                "HF-BUND-9",
                f"the bundle has a plan for {bundle.stack}, which is not a stack of this repository",
                hint="Apply it in the repository it was planned in.",
            )
        pairs.append((stack, bundle))
    return tuple(pairs)
