"""Restores a saved plan in a work directory, if everything that it was made from is unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.kernel.errors import Refused
from holdfast.plans import renames, state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.destination import require_equal, require_none
from holdfast.plans.plan_file import PlanFile, product_change, repository_change
from holdfast.plans.policies import policy_digest
from holdfast.plans.retry import Retrying
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.terraform import Terraform
from holdfast.plans.variables import variables_note
from holdfast.plans.workdir import StackWorkdir
from holdfast.stacks.stack import Stack
from holdfast.terraform.argv import PLAN_FILE
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.plan.archive import (
    InvalidPlanFile,
    PlanArchive,
    different_code,
    is_encrypted,
    read_archive,
)
from holdfast.terraform.plan.values import sensitive_values
from holdfast.terraform.workdirs.created_files import new_files, restore_files

_ENCRYPTED = "OpenTofu encrypted the plan file: Holdfast cannot check that it was made from this code"


async def restore_plan(
    context: ChangeContext, stack: Stack, workdir: StackWorkdir, bundle: SavedPlan, retrying: Retrying
) -> PlanFile:
    """Restore a saved plan in a work directory, as if it had just been planned there."""
    last_seen = context.store.last_seen(stack.name)
    state_continuity.require_readable(stack, workdir.home, last_seen)
    prior = StateIdentity(lineage=bundle.parts.lineage, serial=bundle.parts.serial)
    state_continuity.require_not_stale(stack, last_seen, prior)
    _require_same(stack, bundle, workdir, policy=policy_digest(context.project, stack))
    terraform = Terraform(context, workdir, retrying)
    # Before init, which sends credentials to the backend's endpoint.
    require_equal(stack.name, bundle.parts.destination, terraform.destination())
    require_none(stack.name, terraform.changed_modules())
    if bundle.lock is not None:
        terraform.require_unchanged_providers(bundle.lock)
        workdir.work.lock_file.write_bytes(bundle.lock)
    await terraform.init()
    if bundle.lock is not None and terraform.lock != bundle.lock:
        raise Refused(
            "HF-BUND-6",
            f"{stack.name}: the exact provider versions of this plan are not available",
            hint=f"Make a new plan: holdfast plan {stack.name} --out DIR",
        )
    require_equal(stack.name, bundle.parts.modules, terraform.downloaded_modules())
    # What the plan does is read from the plan file: with the plan key, anything can be put into a bundle.
    archive = _require_own_code(stack, bundle, workdir)
    _restore_files(context.project.root, stack, bundle, workdir)
    (workdir.work.module / PLAN_FILE).write_bytes(bundle.plan)
    plan, plan_json = await terraform.show()
    context.redactor.register_all(sensitive_values(plan))
    destroy = bundle.destroy or (archive is not None and archive.destroy)
    origin = renames.origin_of(context.project, stack, plan, last_seen)
    if last_seen is None and not prior.lineage and not destroy:
        renames.require_not_a_rename(context, stack, plan, origin, declared=False)
    return PlanFile(
        terraform=terraform,
        plan=plan,
        json=plan_json,
        parts=bundle.parts,
        prior=prior,
        ephemeral=bundle.ephemeral,
        changes=plan.has_changes or bundle.changes,
        destroy=destroy,
        targeted=bundle.targeted or (archive is not None and archive.targeted),
        # No command saves a plan of imports, which the guard judges otherwise: a bundle has none.
        options=bundle.options._replace(imports=()),
        origin=origin,
        product_change=product_change(workdir.engine.identity, last_seen),
        repository_change=repository_change(origin.repository, last_seen),
        notes=(*variables_note(bundle.options.variables), *((_ENCRYPTED,) if archive is None else ())),
    )


def _restore_files(root: Path, stack: Stack, bundle: SavedPlan, workdir: StackWorkdir) -> None:
    """The files that the plan created, as its digest covers them, and never instead of reviewed ones."""
    if bundle.made is not None:
        restore_files(workdir.work, bundle.made)
    if new_files(workdir.work, root, workdir.laid_out) != bundle.parts.files:
        raise Refused(
            "HF-BUND-3",
            f"{stack.name}: the files that the plan created are not those of its digest",
            hint=f"Make a new plan: holdfast plan {stack.name} --out DIR",
        )
    require_only_new_files(root, stack, bundle.parts.files)


def require_only_new_files(root: Path, stack: Stack, names: Iterable[str]) -> None:
    """A bundle brings no other version of a file in the repository: it would not be the reviewed one."""
    if changed := next((name for name in sorted(names) if (root / name).exists()), None):
        raise Refused(
            "HF-BUND-22",
            f"{stack.name}: the plan changes {changed}, which is in the repository",
            hint="Let it write another file, or remove this one from the repository.",
        )


def plans_destroy(bundle: SavedPlan) -> bool:
    """By the bundle, or by its plan file, if that can be read."""
    try:
        return bundle.destroy or read_archive(bundle.plan).destroy
    except InvalidPlanFile:
        return bundle.destroy


def _require_own_code(stack: Stack, bundle: SavedPlan, workdir: StackWorkdir) -> PlanArchive | None:
    """Terraform applies the code in the plan file: it must be the code that is applied here.

    None if OpenTofu encrypted the plan file.
    """
    tofu = workdir.engine.identity.product is Product.TOFU
    if tofu and is_encrypted(bundle.plan):
        return None
    try:
        archive = read_archive(bundle.plan)
    except InvalidPlanFile as error:
        raise Refused(
            "HF-BUND-3",
            f"{stack.name}: {error}",
            hint=f"Make a new plan: holdfast plan {stack.name} --out DIR",
        ) from None
    if (different := different_code(archive, workdir.work.module, tofu=tofu)) is not None:
        raise Refused(
            "HF-BUND-21",
            f"{stack.name}: the plan was made from other code ({different})",
            hint=f"Find out how the bundle was made. Make a new plan: holdfast plan {stack.name} --out DIR",
        )
    return archive


def _require_same(stack: Stack, bundle: SavedPlan, workdir: StackWorkdir, *, policy: str) -> None:
    """Refuse a saved plan if engine, stack, state location, inputs or policy changed."""
    identity = workdir.engine.identity
    if bundle.engine != {"product": identity.product.value, "version": identity.version}:
        raise Refused(
            "HF-BUND-5",
            f"{stack.name}: the plan was made with {bundle.engine['product']} {bundle.engine['version']}, "
            f"but {identity.product} {identity.version} would apply it",
            hint=f"Install that version, or set `engine: {{use: {bundle.engine['product']}}}` if it is "
            f"installed. Or make a new plan: holdfast plan {stack.name} --out DIR",
        )
    moved = [
        what
        for what, then, now in (
            ("its module", bundle.module, stack.module),
            ("its workspace", bundle.workspace, stack.workspace),
            ("the location of its state", bundle.place, workdir.home.place),
            ("its code, variables or files", bundle.parts.inputs, workdir.inputs),
            ("its guard rules", bundle.parts.policy, policy),
        )
        if then != now
    ]
    if moved:
        raise Refused(
            "HF-BUND-6",
            f"{stack.name}: {' and '.join(moved)} changed since the plan was made",
            hint=f"Make a new plan: holdfast plan {stack.name} --out DIR",
        )
