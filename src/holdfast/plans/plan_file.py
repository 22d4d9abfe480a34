"""A plan file in a work directory, ready to be applied. `restore` makes one from a bundle."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from holdfast.hcl.eval.code import Code, is_code
from holdfast.kernel.errors import HoldfastError, Refused
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import renames, state_continuity
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.destination import require_equal
from holdfast.plans.errors import TerraformFailed
from holdfast.plans.policies import policy_digest
from holdfast.plans.result import StackResult
from holdfast.plans.retry import Retrying
from holdfast.plans.saved_plan import DigestParts, SavedPlan, StateIdentity, sha256
from holdfast.plans.state_continuity import Origin
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.variables import variables_note
from holdfast.plans.workdir import StackWorkdir, state_without_terraform
from holdfast.stacks.generated import code_of
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.steps import Step
from holdfast.system import clock
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.system.repository import is_other, shown
from holdfast.terraform.addresses import covers, without_keys
from holdfast.terraform.argv import PLAN_FILE, PlanOptions
from holdfast.terraform.engine.confinement import note as confinement_note
from holdfast.terraform.engine.interface import EngineId, Product
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.plan.values import sensitive_values
from holdfast.terraform.statefile.model import State, StateFile, StateOutput, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state
from holdfast.terraform.workdirs.created_files import archive_files, hash_of_file, new_files

_EMPTY_WORKSPACE = (
    "the state of workspace {} is new or empty. If the resources exist already, the name of the workspace is "
    "wrong: compare it with `terraform workspace list`"
)
_GONE = (
    "none of its resources was found, so the destroy only removes them from the state: "
    "is this the right account, region and endpoint?"
)


class _Identity(Struct, frozen=True):
    lineage: str = ""
    serial: int = 0


_IDENTITY = msgspec.json.Decoder(_Identity)


class PlanFile(MaskedStruct, frozen=True, kw_only=True):
    terraform: Terraform
    plan: Plan
    json: bytes
    parts: DigestParts
    prior: StateIdentity
    """The state that was planned against."""
    ephemeral: bool
    """The code has ephemeral variables, which a plan does not contain: the apply needs them again."""
    changes: bool
    origin: Origin = Origin()
    """By which the stack is recognised if it gets another name."""
    destroy: bool = False
    """Planned with `--destroy`."""
    targeted: bool = False
    """Planned with `--target` or `--exclude`."""
    options: PlanOptions = PlanOptions()
    mocks: Mapping[str, Any] = field(default_factory=dict)
    """Variables with a mock value. Such a plan is never applied."""
    notes: tuple[str, ...] = ()
    product_change: str | None = None
    """That the last apply ran the other product, if so."""
    repository_change: str | None = None
    """That the last apply was one of another repository, if so."""
    outputs: tuple[StateOutput, ...] | None = None
    """Of the state that was planned against; None: not known, for example encrypted."""

    @property
    def limits(self) -> tuple[str, ...]:
        """What was planned of the stack. Terraform says nothing if an address does not exist."""
        excludes = self.options.excludes
        targets = () if self.options.imports else self.options.targets
        known = [change.address for change in self.plan.changes]
        known += [resource.address for resource in self.plan.prior_state.resources()]
        unknown = [at for at in targets or excludes if not any(covers(at, address) for address in known)]
        if excludes:  # What is excluded may not exist yet.
            declared = list(self.plan.configuration.addresses())
            unknown = [at for at in unknown if not any(covers(without_keys(at), one) for one in declared)]
        if unknown:
            option = "--exclude" if excludes else "--target"
            return (f"{option} {', '.join(unknown)} matches no resource",)
        shown = ", ".join(targets or excludes)
        return (f"{'without' if excludes else 'only'} {shown}",) if shown else ()

    @property
    def digest(self) -> str:
        return self.parts.digest()

    @property
    def hooks_follow(self) -> bool:
        """Whether hooks run after its apply; not after a destroy: what they manage is gone."""
        return not self.destroy and self.terraform.hooks.has("after_apply")

    @property
    def gone(self) -> bool:
        """A destroy whose resources no longer exist: it only empties the state."""
        return self.destroy and self.changes and not self.plan.has_changes

    def require_intact(self, stack: str, digest: str) -> None:
        """Last check before the apply: what was planned and approved, where it was, with the same content."""
        if self.mocks:
            raise Refused(
                "HF-INPUT-5",
                f"{stack}: the plan was made with mocks ({', '.join(sorted(self.mocks))})",
                hint=f"Plan again when the stacks it reads from are applied: holdfast plan {stack}",
            )
        file = self.terraform.workdir.work.module / PLAN_FILE
        if sha256(file.read_bytes()) != self.parts.plan or self.digest != digest:
            raise Refused(
                "HF-BUND-3",
                f"{stack}: the plan file changed after it was shown",
                hint=f"Make a new plan: holdfast plan {stack}",
            )
        for name, content in self.parts.files.items():
            if hash_of_file(self.terraform.workdir.work.tree / name) != content:
                raise Refused(
                    "HF-BUND-3",
                    f"{stack}: {name}, which the plan created, changed before the apply",
                    hint=f"Let hooks write another file then. Make a new plan: holdfast plan {stack}",
                )
        self.terraform.verify_providers()
        require_equal(stack, self.parts.destination, self.terraform.destination())
        require_equal(stack, self.parts.modules, self.terraform.downloaded_modules())


async def create_plan(
    context: ChangeContext, stack: Stack, workdir: StackWorkdir, options: PlanOptions, retrying: Retrying
) -> PlanFile:
    """Init, validate, plan and show. The state must be the one that the stack had."""
    last_seen = context.store.last_seen(stack.name)
    state_continuity.require_readable(stack, workdir.home, last_seen)
    terraform = Terraform(context, workdir, retrying)
    await terraform.init()
    lock_note = _lock_note(workdir, terraform.lock)
    # Before validate, which looks for the files that the code names.
    await terraform.hooks.run("before_plan")
    await terraform.validate()
    plan_file = await plan_with(context, stack, terraform, options, last_seen)
    if terraform.hooks.has("after_plan"):
        await terraform.hooks.run("after_plan")
        created = new_files(workdir.work, context.project.root, workdir.laid_out)
        plan_file = structs.replace(plan_file, parts=structs.replace(plan_file.parts, files=created))
    unconfined = confinement_note(workdir.engine.confinement)
    notes = (
        *variables_note(options.variables),
        *workdir.notes,
        *((unconfined,) if unconfined else ()),
        *lock_note,
        *_unchecked_note(plan_file.parts.files),
        *terraform.warnings,
        *plan_file.notes,
    )
    return structs.replace(plan_file, notes=notes)


def product_change(engine: EngineId, last_seen: StateRecord | None) -> str | None:
    """Whatever the reason is, a state does not change its product unnoticed."""
    last = last_seen.product if last_seen is not None else ""
    if last in ("", engine.product):
        return None
    return f"last applied with {Product(last).shown}; this plan was made with {engine}"


def repository_change(repository: str, last_seen: StateRecord | None) -> str | None:
    """Two repositories with one store may use the same name for different stacks."""
    last = last_seen.repository if last_seen is not None else ""
    return f"its state was last applied from {shown(last)}" if is_other(last, repository) else None


async def replan(context: ChangeContext, stack: Stack, before: PlanFile, options: PlanOptions) -> PlanFile:
    """A new plan in the same work directory after an apply; init is still valid."""
    last_seen = context.store.last_seen(stack.name)
    plan_file = await plan_with(context, stack, before.terraform, options, last_seen)
    return structs.replace(plan_file, notes=before.notes)


async def plan_with(
    context: ChangeContext,
    stack: Stack,
    terraform: Terraform,
    options: PlanOptions,
    last_seen: StateRecord | None,
    *,
    planned: int | None = None,
) -> PlanFile:
    """Plan and show, where init was done before. `planned`: the exit code of a plan that exists already."""
    workdir = terraform.workdir
    code = planned if planned is not None else await plan_only(context, stack, terraform, options, last_seen)
    plan, plan_json = await terraform.show()
    context.redactor.register_all(sensitive_values(plan))
    prior = await prior_state(terraform)
    origin = renames.origin_of(context.project, stack, plan, last_seen)
    if last_seen is None:
        await context.store.ask_ahead(Step.DECIDE if stack.device else Step.FIRST, stack.name)
    notes = _require_same_stack(context, workdir, last_seen, prior, options, plan, origin)
    state_continuity.record(
        context.store,
        stack.name,
        workdir.home,
        prior,
        known=last_seen,
        # What was only planned is not what the state was applied from.
        origin=None if plan.has_changes else origin,
    )
    lock = terraform.lock
    seen = state_continuity.identity(prior)
    gone = options.destroy and not plan.has_changes and state_continuity.holds_something(prior)
    if gone:
        notes = (*notes, _GONE)
    elif stack.workspace != "default" and plan.has_changes and not state_continuity.holds_something(prior):
        notes = (*notes, _EMPTY_WORKSPACE.format(stack.workspace))
    return PlanFile(
        terraform=terraform,
        plan=plan,
        json=plan_json,
        parts=DigestParts(
            plan=sha256((workdir.work.module / PLAN_FILE).read_bytes()),
            lineage=seen.lineage,
            serial=seen.serial,
            lock=sha256(lock) if lock is not None else None,
            inputs=workdir.inputs,
            made=clock.new_id(),
            policy=policy_digest(context.project, stack),
            files=new_files(workdir.work, context.project.root, workdir.laid_out),
            destination=terraform.destination(),
            modules=terraform.downloaded_modules(),
        ),
        prior=seen,
        ephemeral=has_ephemeral_variables(context.project.code, stack),
        changes=plan.has_changes or code != 0 or gone,
        destroy=options.destroy,
        targeted=bool(options.targets or options.excludes),
        mocks=workdir.read.mocks,
        options=options,
        origin=origin,
        notes=notes,
        product_change=product_change(terraform.identity, last_seen),
        repository_change=repository_change(origin.repository, last_seen),
        outputs=prior.outputs if isinstance(prior, State) else (),
    )


async def plan_only(
    context: ChangeContext,
    stack: Stack,
    terraform: Terraform,
    options: PlanOptions,
    last_seen: StateRecord | None,
    *,
    show: bool = True,
) -> int:
    """The exit code. Secrets in the state are known before its errors are shown."""
    state_continuity.require_readable(stack, terraform.workdir.home, last_seen)
    try:
        return await terraform.plan(options, show=show)
    except TerraformFailed:
        await _register_state(context, terraform)
        raise


def _require_same_stack(
    context: ChangeContext,
    workdir: StackWorkdir,
    last_seen: StateRecord | None,
    prior: StateFile,
    options: PlanOptions,
    plan: Plan,
    origin: Origin,
) -> tuple[str, ...]:
    """The state must be the one that the stack had, and a new stack not an old one under another name."""
    stack = workdir.stack
    if last_seen is None:
        last_seen = renames.record_at(context.project, context.store, workdir.home)
    state_continuity.require_same_state(stack, workdir.home, last_seen, prior)
    if last_seen is not None or state_continuity.holds_something(prior) or options.destroy:
        return ()
    return renames.require_not_a_rename(context, stack, plan, origin, declared=options.not_a_rename)


def to_saved_plan(
    store: RunStore,
    plan_file: PlanFile,
    result: StackResult,
    *,
    change: str,
    dependencies: dict[str, StateIdentity],
    plans: dict[str, str],
    selection: tuple[str, ...],
    base: BaseRules | None,
) -> SavedPlan:
    """What `plan --out` writes."""
    stack, workdir, engine = result.stack, plan_file.terraform.workdir, plan_file.terraform.identity
    return SavedPlan(
        stack=stack.name,
        run=str(result.run),
        change=change,
        digest=plan_file.digest,
        parts=plan_file.parts,
        store=store.id(),
        engine={"product": engine.product.value, "version": engine.version},
        module=stack.module,
        place=workdir.home.place,
        workspace=stack.workspace,
        dependencies=dependencies,
        plans=plans,
        selection=selection,
        created=clock.now().isoformat(),
        environment=stack.environment,
        production=stack.production,
        changes=result.status is not Status.UNCHANGED,
        ephemeral=plan_file.ephemeral,
        destroy=plan_file.destroy,
        targeted=plan_file.targeted,
        options=plan_file.options,
        mocks=plan_file.mocks,
        plan=(workdir.work.module / PLAN_FILE).read_bytes(),
        lock=plan_file.terraform.lock,
        made=archive_files(
            workdir.work,
            plan_file.parts.files,
            ForbiddenFiles(plan_file.terraform.context.project.environment),
        ),
        base=base.seal(stack.name) if base is not None else None,
    )


async def prior_state(terraform: Terraform) -> StateFile:
    """The state that was planned against: from the plan file, or, if that is encrypted, the backend.

    With the resources that the refresh did not find: the state still has them.
    """
    try:
        with zipfile.ZipFile(terraform.workdir.work.module / PLAN_FILE) as archive:
            before, identity = (
                read_state(archive.read("tfstate-prev")),
                _IDENTITY.decode(archive.read("tfstate")),
            )
    except (zipfile.BadZipFile, KeyError, msgspec.DecodeError):
        return read_state(await terraform.state_pull())
    if not isinstance(before, State):
        return before
    return structs.replace(before, lineage=identity.lineage, serial=identity.serial)


def _unchecked_note(created: Iterable[str]) -> tuple[str, ...]:
    """Checks read the code of the repository."""
    names = [name for name in created if is_code(name.rpartition("/")[2])]
    return (f"code that was created during the plan was not checked: {', '.join(names)}",) if names else ()


def _lock_note(workdir: StackWorkdir, now: bytes | None) -> tuple[str, ...]:
    if now is None or now == workdir.source_lock:
        return ()
    what = "is missing from the repository" if workdir.source_lock is None else "would change"
    return (f"the dependency lock file {what}; to write it: holdfast plan --lockfile update",)


def has_ephemeral_variables(code: Code, stack: Stack) -> bool:
    module = code_of(code, stack).module(stack.module)
    return any(block.body.attribute("ephemeral") is not None for block in module.blocks("variable"))


async def _register_state(context: ChangeContext, terraform: Terraform) -> None:
    """A failed plan may quote the state. An error here must not hide why the plan failed."""
    with contextlib.suppress(HoldfastError, OSError):
        content = state_without_terraform(context.store, terraform.workdir)
        if content is None:
            content = await terraform.state_pull()
        context.redactor.register_all(sensitive_in_state(read_state(content)))
