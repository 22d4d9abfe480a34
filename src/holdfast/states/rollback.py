"""Roll a state back to an earlier version: old content, a greater serial, the same lineage.

No resource changes; the next plan shows the differences. Earlier plans become stale by the new serial.
"""

from __future__ import annotations

from msgspec import Struct, structs

from holdfast.kernel.errors import Busy, Failed, Refused, UnknownOutcome, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext, Engines
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs.claims import hold_claim
from holdfast.runs.outcome import require_previous_finished
from holdfast.runs.run import new_run, record_outcome
from holdfast.secrets.redact import Redactor
from holdfast.stacks.stack import Stack
from holdfast.states import surgery
from holdfast.states.operations import push_content
from holdfast.states.surgery import Override, StateChange
from holdfast.states.versions import CURRENT, LoadedVersion, add_backup, load, no_state
from holdfast.store.retention import prune_states
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.states import StateSnapshot
from holdfast.system import files
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.statefile.diff import StateDiff, diff_states
from holdfast.terraform.statefile.edit import raise_serial
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state


class CurrentState(MaskedStruct, frozen=True, kw_only=True):
    """The state before the rollback. `lost`: a local file that is empty, damaged or missing."""

    lineage: str
    serial: int
    number: int = 0
    """The version of a managed state."""
    lost: bool = False
    encrypted: bool = False
    content: bytes = b""


class RolledBack(Struct, frozen=True, kw_only=True):
    run: str
    goal: str
    """The version that was restored."""
    previous: int | None
    """The serial before; None: the state was lost."""
    serial: int
    lineage: str
    resources: int | None
    backup: str | None
    """The version or backup of the state before; None: there was none."""


class Preview(MaskedStruct, frozen=True, kw_only=True):
    goal: LoadedVersion
    change: StateChange


async def preview(context: ChangeContext, stack: Stack, wanted: str) -> Preview:
    """What a rollback would change in the state."""
    goal = await load(context, stack, wanted)
    try:
        before = (await load(context, stack, CURRENT)).content
    except UnknownOutcome:
        # The state is lost; `rollback` decides what is possible.
        before = surgery.last_known_copy(context.store, stack.name)
    states = (read_state(before), read_state(goal.content))
    if any(isinstance(state, State) and state.encrypted for state in states):
        serials = (state.serial for state in states if isinstance(state, State))
        raise _encrypted_state(stack.name, goal, max(serials) + 1)
    return Preview(goal=goal, change=_change(stack, before, goal))


def _change(stack: Stack, before: bytes, goal: LoadedVersion) -> StateChange:
    return surgery.state_change(stack.name, "rollback", before, goal.content)


def compare(
    engines: Engines, redactor: Redactor, stack: Stack, before: bytes, after: bytes
) -> StateDiff | None:
    """With secrets of both masked."""
    old, new = read_state(before), read_state(after)
    redactor.register_all(sensitive_in_state(old) | sensitive_in_state(new))
    tofu = engines.choose(stack).engine.product is Product.TOFU
    return diff_states(old, new, clean=redactor.clean_field, tofu=tofu)


async def rollback(
    context: ChangeContext,
    stack: Stack,
    wanted: str,
    *,
    seen: str | None = None,
    override: Override | None = None,
) -> RolledBack:
    """Under the stack's claim, and Terraform's lock in a remote backend.

    `seen` is the digest of the change that the user confirmed.
    """
    await require_previous_finished(context.store, context.control, stack)
    goal = await load(context, stack, wanted)
    run = new_run(stack.name, "rollback", context.identity, run=context.identity.change).to(Status.APPLYING)
    async with (
        hold_claim(context.store, context.control, context.identity, stack, "rollback"),
        open_workdir(context, stack) as workdir,
    ):
        with record_outcome(context.store, run, f"back to {goal.entry.shown}"):
            done = await _under_claim(context, workdir, goal, seen, override)
    prune_states(context.store, stack.name, context.project.config.backups)
    return done


async def _under_claim(
    context: ChangeContext,
    workdir: StackWorkdir,
    goal: LoadedVersion,
    seen: str | None,
    override: Override | None,
) -> RolledBack:
    store, stack = context.store, workdir.stack
    now = _managed_now(store, stack) if workdir.home.managed else await _state_now(context, workdir)
    content, after = content_to_restore(stack.name, now, goal, record=store.last_seen(stack.name))
    before = surgery.last_known_copy(store, stack.name) if now.lost else now.content
    command = f"holdfast state rollback {stack.name} {goal.entry.name}"
    change = _change(stack, before, goal)
    with surgery.audited_change(
        *(context, stack, change, override), seen=seen, command=command, version=goal.entry.name
    ):
        return await _write(context, workdir, goal, now, content, after)


async def _write(
    context: ChangeContext,
    workdir: StackWorkdir,
    goal: LoadedVersion,
    now: CurrentState,
    content: bytes,
    after: State,
) -> RolledBack:
    store, identity, stack = context.store, context.identity, workdir.stack
    backup = None
    if workdir.home.managed:
        why = f"rollback to {goal.entry.name}"
        new = StateSnapshot.of(content, after, run=identity.change, who=identity.who, why=why)
        if store.states.add(stack.name, new, after=now.number) is None:
            raise Busy(
                "HF-LOCK-2",
                f"{stack.name}: another process changed its state in the meantime",
                hint=f"Show the new state: holdfast state show {stack.name}. Then try again.",
            )
        state_continuity.record_managed(store, stack.name, after)
        backup = str(now.number)
    else:
        if not now.lost:
            why = "before a rollback"
            backup = add_backup(store, identity.who, stack, now.content, why=why, run=identity.change).name
        after = await push_content(context, workdir, content)
    return RolledBack(
        run=identity.change,
        goal=goal.entry.name,
        previous=None if now.lost else now.serial,
        serial=after.serial,
        lineage=after.lineage,
        resources=after.managed,
        backup=backup,
    )


def content_to_restore(
    stack: str, now: CurrentState, goal: LoadedVersion, *, record: StateRecord | None = None
) -> tuple[bytes, State]:
    """The content to write, or the reason why not. Pure.

    Its serial is greater than any before, also than the recorded one, which an older state may have replaced.
    """
    old = read_state(goal.content)
    if not isinstance(old, State):
        raise Failed("HF-STATE-24", f"{stack}: version {goal.entry.name} is not a state")
    if now.encrypted or old.encrypted:
        raise _encrypted_state(stack, goal, max(now.serial, old.serial) + 1)
    if now.lineage and old.lineage != now.lineage:
        raise Refused(
            "HF-STATE-25",
            f"{stack}: version {goal.entry.name} has a different lineage ({old.lineage}) than the current "
            f"state ({now.lineage}): it describes other resources",
            hint=f"Choose a version with the same lineage: holdfast state versions {stack}",
        )
    if old.serial == now.serial and not now.lost:
        raise UsageError(
            "HF-STATE-27",
            f"{stack}: version {goal.entry.name} is the current one (serial {now.serial})",
            hint=f"Choose an earlier one: holdfast state versions {stack}",
        )
    recorded = record.serial if record is not None and record.lineage == old.lineage else 0
    serial = max(now.serial, old.serial, recorded) + 1
    return raise_serial(goal.content, serial), structs.replace(old, serial=serial)


def _encrypted_state(stack: str, goal: LoadedVersion, serial: int) -> Refused:
    """OpenTofu compares the serial beside the encrypted data with the one in it."""
    return Refused(
        "HF-STATE-26",
        f"{stack}: OpenTofu encrypted its state, so Holdfast cannot write an old version with a new serial",
        hint=f"Get it: holdfast state pull {stack} {goal.entry.name} > old/terraform.tfstate. Decrypt it "
        f"with `tofu state pull` in old/, set its serial to {serial}, then: holdfast state push {stack} "
        "FILE. Each command is in docs/state.md, Rollback of an encrypted state.",
    )


def _managed_now(store: RunStore, stack: Stack) -> CurrentState:
    version = store.states.current(stack.name)
    if version is None:
        raise no_state(stack)
    return CurrentState(
        lineage=version.lineage,
        serial=version.serial,
        number=version.number,
        encrypted=version.resources is None,
        content=version.state,
    )


async def _state_now(context: ChangeContext, workdir: StackWorkdir) -> CurrentState:
    """From the backend. A lost local file can be replaced; a remote backend without state is an error."""
    stack, home = workdir.stack, workdir.home
    seen = context.store.last_seen(stack.name)
    if home.file is not None and not isinstance(read_state(files.content_of(home.file) or b""), State):
        known = seen if seen is not None and seen.place == home.place else None
        return CurrentState(
            lineage=known.lineage if known is not None else "",
            serial=known.serial if known is not None else 0,
            lost=True,
        )
    terraform = Terraform(context, workdir)
    await terraform.init()
    content = await terraform.state_pull()
    state = read_state(content)
    state_continuity.require_not_lost(stack, home, seen, state)
    if not isinstance(state, State):
        raise no_state(stack)
    context.redactor.register_all(sensitive_in_state(state))
    return CurrentState(lineage=state.lineage, serial=state.serial, content=content)
