"""What a run writes to the run store: claim, intent, state backup, secrets of its journal, outcome."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Callable, Iterable

import msgspec

from holdfast.config.settings import BackupSettings
from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.plans.context import ChangeContext, Identity
from holdfast.plans.plan_file import PlanFile
from holdfast.runs.claims import Claim
from holdfast.runs.intent import Intent, PlanIntent, planned_changes
from holdfast.runs.run import Run, write_run
from holdfast.secrets.sources.interface import is_local
from holdfast.secrets.stack_secrets import references_of
from holdfast.store.retention import prune_states
from holdfast.store.run_store import RunStore
from holdfast.store.states import StateSnapshot
from holdfast.system import clock, process_table
from holdfast.system.files import file_error
from holdfast.terraform.argv import PLAN_FILE
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def apply_claim(
    store: RunStore, identity: Identity, run: Run, stack: str, digest: str, plan_file: PlanFile
) -> Claim:
    """Everything that recovery needs if this process is gone."""
    workdir, engine = plan_file.terraform.workdir, plan_file.terraform.identity
    plan = PlanIntent(
        digest=digest,
        lineage=plan_file.prior.lineage,
        serial=plan_file.prior.serial,
        place=workdir.home.place,
        engine={"kind": engine.kind.value, "product": engine.product.value, "version": engine.version},
        work=str(workdir.work.folder),
        backup=_current_version(store, plan_file),
        changes=planned_changes(plan_file.plan),
        missing=tuple(change.address for change in plan_file.plan.missing),
        destroy=plan_file.destroy,
        variables=tuple(dict.fromkeys(map(str, plan_file.options.variables))),
    )
    intent = Intent(
        operation=str(run.operation),
        who=identity.who,
        started=clock.now().isoformat(),
        process=process_table.this_process(),
        change=identity.change,
        plan=plan,
    )
    return Claim(stack=stack, run=run.id, intent=intent)


def _current_version(store: RunStore, plan_file: PlanFile) -> str | None:
    """A managed state is its own backup: its versions never change. A new stack has none."""
    if not plan_file.terraform.workdir.home.managed or not plan_file.prior.lineage:
        return None
    numbers = store.states.numbers(plan_file.terraform.workdir.stack.name)
    return str(numbers[-1]) if numbers else None


def write_backup(store: RunStore, who: str, run: str, plan_file: PlanFile) -> None:
    """The state before the apply, from the plan itself: Terraform applies it to no other state."""
    workdir = plan_file.terraform.workdir
    if workdir.home.managed or not plan_file.prior.lineage:
        return
    content = _state_in_plan(plan_file)
    state = read_state(content) if content is not None else None
    if content is None or not isinstance(state, State):
        return
    store.backups.add(
        workdir.stack.name,
        StateSnapshot.of(content, state, run=run, who=who, why="before an apply"),
        name=run,
    )


def _state_in_plan(plan_file: PlanFile) -> bytes | None:
    """`tfstate-prev` is the backend's state without serial and lineage, which Terraform leaves out there.

    None where OpenTofu encrypted the plan.
    """
    try:
        with zipfile.ZipFile(plan_file.terraform.workdir.work.module / PLAN_FILE) as archive:
            fields = _FIELDS.decode(archive.read("tfstate-prev"))
    except (zipfile.BadZipFile, KeyError, msgspec.DecodeError):
        return None
    identity = {"serial": plan_file.prior.serial, "lineage": plan_file.prior.lineage}
    return msgspec.json.encode({**fields, **identity})


def finish_run(
    store: RunStore, run: Run, backups: BackupSettings, remember: Callable[[], None] | None = None
) -> None:
    """Record the outcome, then free the stack. An outcome that cannot be recorded is unknown.

    `remember` records what the stack was applied as.
    """
    stack = str(run.stack)
    try:
        write_run(store, run)
        if remember is not None:
            remember()
        store.claims.release(stack, run.id)
    except (HoldfastError, OSError) as error:
        why = error.problem.message if isinstance(error, HoldfastError) else file_error(error).problem.message
        raise UnknownOutcome(
            "HF-RUN-11",
            f"{stack}: the run is {run.status}, but Holdfast could not record that: {why}",
            hint=f"When the run store is available again: holdfast runs reconcile {run.id}",
        ) from error
    with contextlib.suppress(HoldfastError, OSError):
        # Pruning can wait for the next run; this one is over and recorded.
        prune_states(store, stack, backups)


_SECRETS = "secrets"


def store_run_secrets(store: RunStore, run: str, values: Iterable[str]) -> None:
    """Encrypted beside the journal, so that later readers can mask what was secret then."""
    store.runs.write(run, _SECRETS, json.dumps(sorted(set(values)), ensure_ascii=False).encode())


def stored_run_secrets(store: RunStore, run: str) -> frozenset[str]:
    stored = store.runs.read(run, _SECRETS) if store.shows_output else None
    return frozenset(json.loads(stored)) if stored is not None else frozenset()


def register_run_secrets(context: ChangeContext, run: str | None, name: str | None) -> None:
    """The secrets that the run stored, sensitive values of its states, and local secret references."""
    if run is not None:
        context.redactor.register_all(stored_run_secrets(context.store, run))
    if name is None:
        return
    for snapshot in (context.store.states.current(name), context.store.backups.last(name)):
        if snapshot is not None:
            context.redactor.register_all(sensitive_in_state(read_state(snapshot.state)))
    stack = context.project.stacks.get(name)
    # Remote secrets are not read again: those that the run used are stored with it.
    for reference in filter(is_local, references_of(stack) if stack is not None else ()):
        with contextlib.suppress(HoldfastError):
            context.redactor.register(context.secrets.read(reference))
