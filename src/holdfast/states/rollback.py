"""The way back to an earlier version of a state: old content, a greater serial, the same lineage.

Only the record moves: no real object is touched, and the next plan shows how far they are apart. Plans that
were made before are void by themselves, for the serial has moved.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import Busy, Exit, Failed, HoldfastError, Refused, UnknownOutcome, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import Session
from holdfast.plans.status import STATUS_OF_EXIT, Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import Prepared, prepared
from holdfast.runs import audit_trail
from holdfast.runs.claims import claimed
from holdfast.runs.outcome import require_settled
from holdfast.stacks.stack import Stack
from holdfast.states.operations import push_content
from holdfast.states.versions import CURRENT, Loaded, copied, load, prune
from holdfast.store.run_store import StateRecord
from holdfast.store.snapshots import StateSnapshot
from holdfast.system import clock
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


async def preview(session: Session, stack: Stack, wanted: str) -> Preview:
    """What the way back would change in the record, for a person to look at."""
    goal = await load(session, stack, wanted)
    try:
        now = await load(session, stack, CURRENT)
    except UnknownOutcome:
        # A state that is lost: what the way back then may do, it decides itself.
        return Preview(goal=goal, serial=None, change=None)
    return Preview(
        goal=goal,
        serial=now.entry.serial,
        change=compare(session, stack, now.content, goal.content),
    )


def compare(session: Session, stack: Stack, before: bytes, after: bytes) -> StateDiff | None:
    """With everything secret in either hidden."""
    old, new = read_state(before), read_state(after)
    session.redactor.register_all(sensitive_in_state(old) | sensitive_in_state(new))
    tofu = session.choose(stack).engine.product is Product.TOFU
    return diff_states(old, new, clean=session.redactor.clean_field, tofu=tofu)


async def rollback(session: Session, stack: Stack, wanted: str, *, seen: int | None = None) -> RolledBack:
    """Under the stack's claim, and Terraform's lock where the state lies elsewhere.

    `seen` is the serial that a person agreed to leave.
    """
    await require_settled(session, stack)
    goal = await load(session, stack, wanted)
    began = clock.now().isoformat()
    async with claimed(session, stack, "rollback"), prepared(session, stack) as ready:
        try:
            with audit_trail.act(session, stack.name, what="rollback", version=goal.entry.name):
                done = await _under_claim(session, ready, goal, seen)
        except HoldfastError as error:
            # What was refused has changed nothing, and that is known.
            status = Status.FAILED if error.exit is Exit.UNKNOWN else STATUS_OF_EXIT[error.exit]
            _record(session, stack, status, began, error.problem.message)
            raise
        _record(session, stack, Status.APPLIED, began, f"back to {goal.entry.shown}")
    prune(session.store, stack.name, session.config.backups)
    return done


async def _under_claim(session: Session, ready: Prepared, goal: Loaded, seen: int | None) -> RolledBack:
    stack = ready.stack
    now = _kept_now(session, stack) if ready.home.managed else await _now(session, ready)
    content, state = rolled(stack.name, now, goal, seen=seen)
    if ready.home.managed:
        return _add_version(session, stack, now, goal, content, state)
    backup = None
    if not now.lost:
        made = copied(session, stack, now.content, why="before a rollback", run=session.change)
        backup = made.name
    after = await push_content(session, ready, content)
    return RolledBack(
        run=session.change,
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
            f"{stack}: its state moved from serial {seen} to {now.serial} while it was looked at",
            hint="Look again, then decide.",
        )
    if not isinstance(old, State):
        raise Failed("HF-STATE-24", f"{stack}: version {goal.entry.name} is not a state")
    if now.encrypted or old.encrypted:
        raise Refused(
            "HF-STATE-26",
            f"{stack}: its state is encrypted by OpenTofu, its serial too: it cannot be given a greater one",
            hint="Decrypt the old state with OpenTofu and raise its serial, then: "
            f"holdfast state push {stack} FILE",
        )
    if now.lineage and old.lineage != now.lineage:
        raise Refused(
            "HF-STATE-25",
            f"{stack}: version {goal.entry.name} is of another lineage ({old.lineage}) than the state "
            f"({now.lineage}): it is the record of other objects",
            hint="Only a version of the same lineage can come back.",
        )
    if old.serial == now.serial and not now.lost:
        raise UsageError(
            "HF-STATE-27",
            f"{stack}: version {goal.entry.name} is what is there already (serial {now.serial})",
            hint=f"Choose an earlier one: holdfast state versions {stack}",
        )
    serial = max(now.serial, old.serial) + 1
    return raise_serial(goal.content, serial), msgspec.structs.replace(old, serial=serial)


def _kept_now(session: Session, stack: Stack) -> Standing:
    version = session.store.states.current(stack.name)
    if version is None:
        raise UsageError("HF-STATE-22", f"{stack.name} has no state", hint="It begins with the first apply.")
    return Standing(
        lineage=version.lineage,
        serial=version.serial,
        number=version.number,
        encrypted=version.resources is None,
        content=version.state,
    )


async def _now(session: Session, ready: Prepared) -> Standing:
    """As the backend gives it. A local file that is lost makes room; a remote "nothing" is not believed."""
    stack, home = ready.stack, ready.home
    seen = session.store.last_seen(stack.name)
    known = seen if seen is not None and seen.place == home.place else None
    if home.file is not None and not _is_state(home.file.read_bytes() if home.file.exists() else b""):
        return _lost(known)
    terraform = Terraform(session, ready)
    await terraform.init()
    content = await terraform.state_pull()
    state = read_state(content)
    state_continuity.require_same_place(stack, home, seen, state)
    if not isinstance(state, State):
        raise UsageError("HF-STATE-22", f"{stack.name} has no state", hint="It begins with the first apply.")
    session.redactor.register_all(sensitive_in_state(state))
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
    session: Session, stack: Stack, now: Standing, goal: Loaded, content: bytes, state: State
) -> RolledBack:
    why = f"rollback to {goal.entry.name}"
    new = StateSnapshot.of(content, state, run=session.change, who=session.who, why=why)
    if session.store.states.add(stack.name, new, after=now.number) is None:
        raise Busy(
            "HF-LOCK-2",
            f"{stack.name}: somebody else wrote its state meanwhile",
            hint="Look at what is there, then try again.",
        )
    state_continuity.record_kept(session.store, stack.name, state)
    return RolledBack(
        run=session.change,
        goal=goal.entry.name,
        previous=now.serial,
        serial=state.serial,
        lineage=state.lineage,
        resources=state.managed,
        backup=str(now.number),
    )


def _record(session: Session, stack: Stack, status: Status, began: str, note: str) -> None:
    """A rollback is a run like any other: listed, with its end."""
    session.store.runs.finish(
        session.change,
        {
            "version": 1,
            "id": session.change,
            "change": session.change,
            "stack": stack.name,
            "operation": "rollback",
            "status": status.value,
            "started": began,
            "ended": clock.now().isoformat(),
            "who": session.who,
            "digest": None,
            "notes": [note],
        },
    )
