"""The way back to an earlier version of a state: old content, a greater serial, the same lineage.

Only the record moves: no real object is touched, and the next plan shows how far they are apart. Plans that
were made before are void by themselves, for the serial has moved.
"""

from __future__ import annotations

from msgspec import Struct, structs

from holdfast.kernel.errors import Busy, Exit, Failed, HoldfastError, Refused, UnknownOutcome, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext, Engines, Identity
from holdfast.plans.status import STATUS_OF_EXIT, Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs import audit_trail
from holdfast.runs.claims import hold_claim
from holdfast.runs.outcome import require_previous_finished
from holdfast.runs.run import new_run, write_run
from holdfast.secrets.redact import Redactor
from holdfast.stacks.stack import Stack
from holdfast.states.operations import push_content
from holdfast.states.versions import CURRENT, Loaded, copied, load
from holdfast.store.retention import prune_states
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.states import StateSnapshot
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.statefile.diff import StateDiff, diff_states
from holdfast.terraform.statefile.edit import raise_serial
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state


class Standing(MaskedStruct, frozen=True, kw_only=True):
    """What is there before the way back. `lost`: a local file that is empty, damaged or gone."""

    lineage: str
    serial: int
    number: int = 0
    """Of a kept state: its version."""
    lost: bool = False
    encrypted: bool = False
    content: bytes = b""


class RolledBack(Struct, frozen=True, kw_only=True):
    run: str
    goal: str
    """The version whose content is back."""
    previous: int | None
    """The serial of before; None: it was lost."""
    serial: int
    lineage: str
    resources: int | None
    backup: str | None
    """What was there before: the name of a version or a copy. None: there was nothing to copy."""


class Preview(Struct, frozen=True, kw_only=True):
    goal: Loaded
    serial: int | None
    """Of the state as it is now; the way back is refused when it has moved meanwhile."""
    change: StateDiff | None
    """From now to then. None: one of them could not be looked into."""


async def preview(context: ChangeContext, stack: Stack, wanted: str) -> Preview:
    """What the way back would change in the record, for a person to look at."""
    goal = await load(context, stack, wanted)
    try:
        now = await load(context, stack, CURRENT)
    except UnknownOutcome:
        # A state that is lost: what the way back then may do, it decides itself.
        return Preview(goal=goal, serial=None, change=None)
    return Preview(
        goal=goal,
        serial=now.entry.serial,
        change=compare(context.engines, context.redactor, stack, now.content, goal.content),
    )


def compare(
    engines: Engines, redactor: Redactor, stack: Stack, before: bytes, after: bytes
) -> StateDiff | None:
    """With everything secret in either hidden."""
    old, new = read_state(before), read_state(after)
    redactor.register_all(sensitive_in_state(old) | sensitive_in_state(new))
    tofu = engines.choose(stack).engine.product is Product.TOFU
    return diff_states(old, new, clean=redactor.clean_field, tofu=tofu)


async def rollback(
    context: ChangeContext, stack: Stack, wanted: str, *, seen: int | None = None
) -> RolledBack:
    """Under the stack's claim, and Terraform's lock where the state lies elsewhere.

    `seen` is the serial that a person agreed to leave.
    """
    await require_previous_finished(context.store, context.control, stack)
    goal = await load(context, stack, wanted)
    run = new_run(stack.name, "rollback", context.identity, run=context.identity.change).to(Status.APPLYING)
    async with (
        hold_claim(context.store, context.control, context.identity, stack, "rollback"),
        open_workdir(context, stack) as ready,
    ):
        try:
            with audit_trail.audited(
                context.identity, context.control.tell, stack.name, what="rollback", version=goal.entry.name
            ):
                done = await _under_claim(context, ready, goal, seen)
        except HoldfastError as error:
            # What was refused has changed nothing, and that is known.
            status = Status.FAILED if error.exit is Exit.UNKNOWN else STATUS_OF_EXIT[error.exit]
            write_run(context.store, run.to(status, error.problem.message))
            raise
        write_run(context.store, run.to(Status.APPLIED, f"back to {goal.entry.shown}"))
    prune_states(context.store, stack.name, context.project.config.backups)
    return done


async def _under_claim(
    context: ChangeContext, ready: StackWorkdir, goal: Loaded, seen: int | None
) -> RolledBack:
    stack = ready.stack
    now = _kept_now(context.store, stack) if ready.home.managed else await _now(context, ready)
    content, state = rolled(stack.name, now, goal, seen=seen)
    if ready.home.managed:
        return _add_version(context.store, context.identity, stack, now, goal, content, state)
    backup = None
    if not now.lost:
        made = copied(
            context.store,
            context.identity.who,
            stack,
            now.content,
            why="before a rollback",
            run=context.identity.change,
        )
        backup = made.name
    after = await push_content(context, ready, content)
    return RolledBack(
        run=context.identity.change,
        goal=goal.entry.name,
        previous=None if now.lost else now.serial,
        serial=after.serial,
        lineage=after.lineage,
        resources=after.managed,
        backup=backup,
    )


def rolled(stack: str, now: Standing, goal: Loaded, *, seen: int | None = None) -> tuple[bytes, State]:
    """The content to write and what it is, or why there is none. Pure."""
    old = read_state(goal.content)
    if seen is not None and now.serial != seen:
        raise Refused(
            "HF-STATE-28",
            f"{stack}: its state changed from serial {seen} to {now.serial} in the meantime",
            hint="Look at the new state, then roll back again if you still want to.",
        )
    if not isinstance(old, State):
        raise Failed("HF-STATE-24", f"{stack}: version {goal.entry.name} is not a state")
    if now.encrypted or old.encrypted:
        raise Refused(
            "HF-STATE-26",
            f"{stack}: OpenTofu encrypted its state, so Holdfast cannot raise the serial",
            hint="Decrypt the old state with OpenTofu and raise its serial, then: "
            f"holdfast state push {stack} FILE",
        )
    if now.lineage and old.lineage != now.lineage:
        raise Refused(
            "HF-STATE-25",
            f"{stack}: version {goal.entry.name} has another lineage ({old.lineage}) than the state "
            f"({now.lineage}): it describes other resources",
            hint="Choose a version of the same lineage.",
        )
    if old.serial == now.serial and not now.lost:
        raise UsageError(
            "HF-STATE-27",
            f"{stack}: version {goal.entry.name} is the current one (serial {now.serial})",
            hint=f"Choose an earlier one: holdfast state versions {stack}",
        )
    serial = max(now.serial, old.serial) + 1
    return raise_serial(goal.content, serial), structs.replace(old, serial=serial)


def _kept_now(store: RunStore, stack: Stack) -> Standing:
    version = store.states.current(stack.name)
    if version is None:
        raise UsageError("HF-STATE-22", f"{stack.name} has no state", hint="The first apply creates it.")
    return Standing(
        lineage=version.lineage,
        serial=version.serial,
        number=version.number,
        encrypted=version.resources is None,
        content=version.state,
    )


async def _now(context: ChangeContext, ready: StackWorkdir) -> Standing:
    """As the backend gives it. A local file that is lost makes room; a remote "nothing" is not believed."""
    stack, home = ready.stack, ready.home
    seen = context.store.last_seen(stack.name)
    known = seen if seen is not None and seen.place == home.place else None
    if home.file is not None and not _is_state(home.file.read_bytes() if home.file.exists() else b""):
        return _lost(known)
    terraform = Terraform(context, ready)
    await terraform.init()
    content = await terraform.state_pull()
    state = read_state(content)
    state_continuity.require_same_place(stack, home, seen, state)
    if not isinstance(state, State):
        raise UsageError("HF-STATE-22", f"{stack.name} has no state", hint="The first apply creates it.")
    context.redactor.register_all(sensitive_in_state(state))
    return Standing(lineage=state.lineage, serial=state.serial, content=content)


def _is_state(content: bytes) -> bool:
    return isinstance(read_state(content), State)


def _lost(known: StateRecord | None) -> Standing:
    return Standing(
        lineage=known.lineage if known is not None else "",
        serial=known.serial if known is not None else 0,
        lost=True,
    )


def _add_version(
    store: RunStore,
    identity: Identity,
    stack: Stack,
    now: Standing,
    goal: Loaded,
    content: bytes,
    state: State,
) -> RolledBack:
    why = f"rollback to {goal.entry.name}"
    new = StateSnapshot.of(content, state, run=identity.change, who=identity.who, why=why)
    if store.states.add(stack.name, new, after=now.number) is None:
        raise Busy(
            "HF-LOCK-2",
            f"{stack.name}: another process changed its state in the meantime",
            hint="Look at the new state, then try again.",
        )
    state_continuity.record_managed(store, stack.name, state)
    return RolledBack(
        run=identity.change,
        goal=goal.entry.name,
        previous=now.serial,
        serial=state.serial,
        lineage=state.lineage,
        resources=state.managed,
        backup=str(now.number),
    )
