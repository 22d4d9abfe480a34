"""`state mv`: move resources to another address, or to the state of another stack.

Between two stacks the destination is written first and the source last, each under its own claim: a crash
leaves the resources in both states, never in none. The claims then say what was being moved, and
`runs reconcile` finishes it (`recovery.finish_move`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator
from enum import Enum

from msgspec import structs

from holdfast.guard.deletion_rules import covering
from holdfast.guard.weakening import lowered_since
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Failed, HoldfastError, Refused
from holdfast.kernel.text import plural
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.errors import StateLocked
from holdfast.plans.policies import applied_as, applied_before, policy_of
from holdfast.plans.status import Status
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs import lanes
from holdfast.runs.claims import Claim, take_claim
from holdfast.runs.intent import Intent, MoveIntent
from holdfast.runs.outcome import require_previous_finished
from holdfast.runs.run import UnsettledRun, new_run, recorded
from holdfast.stacks.stack import Stack
from holdfast.states import surgery
from holdfast.states.edits import (
    COPY,
    Request,
    Written,
    audited_edit,
    content_to_edit,
    edit_copies,
    edit_one,
    require_present,
    write_edited,
)
from holdfast.states.surgery import StateChange
from holdfast.store.retention import prune_states
from holdfast.system import clock, process_table
from holdfast.terraform import argv
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.statefile.edit import blank_state
from holdfast.terraform.statefile.losses import moved_resources
from holdfast.terraform.statefile.model import Contents, State, StateFile, StateResource, read_state

_OTHER = "destination.tfstate"
Moved = tuple[str, str, str | None]
"""As in `MoveIntent`."""


class Move(MaskedStruct, frozen=True, kw_only=True):
    """A move that was computed and not written yet."""

    source: Stack
    destination: Stack
    address: str
    target: str
    moved: tuple[Moved, ...]
    leaving: StateChange
    """Of the source; inside one stack, the whole change."""
    arriving: StateChange | None

    @property
    def digest(self) -> str:
        return self.leaving.digest


async def preview(
    context: ChangeContext, source: Stack, destination: Stack, address: str, target: str
) -> Move:
    for stack in _stacks(source, destination):
        await require_previous_finished(context.store, context.control, stack)
    _require_same_engine(context, source, destination)
    async with contextlib.AsyncExitStack() as held:
        workdirs = [
            await held.enter_async_context(open_workdir(context, stack))
            for stack in _stacks(source, destination)
        ]
        return await _compute(context, workdirs[0], workdirs[-1], address, target)


def _stacks(source: Stack, destination: Stack) -> tuple[Stack, ...]:
    return (source,) if source.name == destination.name else (source, destination)


async def _compute(
    context: ChangeContext, left: StackWorkdir, right: StackWorkdir, address: str, target: str
) -> Move:
    source, destination, alone = left.stack, right.stack, left is right
    before = await content_to_edit(context, left)
    require_present(source, before, address)
    there = b"" if alone else await content_to_edit(context, right, may_be_new=True)
    copies = {COPY: before}
    if not alone:
        copies[_OTHER] = there or blank_state(_lineage(read_state(before), destination))
    words = argv.state_mv(COPY, address, target, into=None if alone else _OTHER)
    edited = await edit_copies(context, left, words, copies)
    after = edited[COPY]
    arrived = (before, after) if alone else (there, edited[_OTHER])
    moved = _moved(source, before, after, *arrived)
    leaving = structs.replace(surgery.state_change(source.name, "mv", before, after), lost=())
    arriving = None
    if not alone:
        arriving = surgery.state_change(destination.name, "mv", *arrived)
        digest = hashlib.sha256(f"{leaving.digest} {arriving.digest}".encode()).hexdigest()
        leaving = structs.replace(
            leaving, digest=digest, weaker=_weaker(context, source, destination, before)
        )
        arriving = structs.replace(arriving, digest=digest)
    return Move(
        source=source,
        destination=destination,
        address=address,
        target=target,
        moved=moved,
        leaving=leaving,
        arriving=arriving,
    )


def _lineage(source: StateFile, destination: Stack) -> str:
    """Of a state that starts with moved resources. Not random: the same move has the same digest."""
    known = f"{source.lineage} {source.serial}" if isinstance(source, State) else ""
    text = hashlib.sha256(f"{known} {destination.name}".encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def _moved(stack: Stack, before: bytes, after: bytes, there: bytes, arrived: bytes) -> tuple[Moved, ...]:
    """Every resource that left must have arrived, with all its attributes."""
    states = (read_state(before), read_state(after), read_state(arrived))
    if all(isinstance(state, State) for state in states):
        left, kept, now = states
        pairs = moved_resources(left, kept, read_state(there), now)  # type: ignore[arg-type]
        if pairs:
            return tuple((old.address, new.address, old.deposed) for old, new in pairs)
    raise Failed(
        "HF-STATE-15",
        f"{stack.name}: after Terraform's `state mv`, the resources are not the same as before",
        hint="Nothing was changed. Use `moved` blocks in the code, then: holdfast plan " + stack.name,
    )


def _weaker(context: ChangeContext, source: Stack, destination: Stack, before: bytes) -> tuple[str, ...]:
    """How the destination guards less than the source, as it is configured and as it was last applied."""
    project, state = context.project, read_state(before)
    lineage = state.lineage if isinstance(state, State) else ""
    declared = project.stacks.get(source.name, source)
    records = applied_before(project, context.store, declared, lineage)
    return lowered_since(
        (applied_as(project.config, source), *records), applied_as(project.config, destination)
    )


def _require_same_engine(context: ChangeContext, source: Stack, destination: Stack) -> None:
    """Engines and versions differ in how they write a state and in the names of providers."""
    ours, theirs = (context.engines.choose(stack).engine for stack in (source, destination))
    if (ours.product, ours.version) != (theirs.product, theirs.version):
        raise Refused(
            "HF-STATE-16",
            f"{source.name} uses {ours.product} {ours.version}, {destination.name} uses {theirs.product} "
            f"{theirs.version}",
            hint="Apply both with the same version first, then move the resources.",
        )


async def move(context: ChangeContext, seen: Move, request: Request) -> tuple[Written, ...]:
    """Of the source first; inside one stack only that."""
    details = {"moved": moved_text(seen)}
    if seen.arriving is not None:
        return await _move_between(context, seen, request, details)

    async def compute(workdir: StackWorkdir) -> StateChange:
        return (await _compute(context, workdir, workdir, seen.address, seen.target)).leaving

    return (await edit_one(context, seen.source, compute, seen.leaving, request, details),)


def moved_text(move: Move | MoveIntent) -> str:
    return ", ".join(dict.fromkeys(f"{old} → {new}" for old, new, _ in move.moved))


async def _move_between(
    context: ChangeContext, seen: Move, request: Request, details: dict[str, str]
) -> tuple[Written, ...]:
    source, destination = seen.source, seen.destination
    store, control, identity = context.store, context.control, context.identity
    intent = MoveIntent(
        source=source.name,
        destination=destination.name,
        source_run=identity.change,
        destination_run=clock.new_id(),
        moved=seen.moved,
    )
    for stack in (source, destination):
        await require_previous_finished(store, control, stack)
    runs = [
        new_run(stack.name, "mv", identity, run=run).to(Status.APPLYING)
        for stack, run in ((source, intent.source_run), (destination, intent.destination_run))
    ]
    async with (
        lanes.hold_lanes(store, control, identity, (source, destination), operation="state mv"),
        _hold_both(context, intent) as held,
        open_workdir(context, source) as left,
        open_workdir(context, destination) as right,
    ):
        with recorded(store, runs[0]), recorded(store, runs[1]):
            now = await _compute(context, left, right, seen.address, seen.target)
            arriving, given = _arriving(now), (seen.leaving, request)
            to, from_ = {**details, "to": destination.name}, {**details, "from": source.name}
            with (
                audited_edit(context, source, now.leaving, *given, to),
                audited_edit(context, destination, arriving, *given, from_),
            ):
                written = await held.write(left, right, now)
    for stack in (source, destination):
        prune_states(store, stack.name, context.project.config.backups)
    return written


def _arriving(move: Move) -> StateChange:
    if move.arriving is None:
        raise ValueError("a move inside one stack")
    return move.arriving


class _HeldStacks:
    """Both stacks are claimed. `unsettled`: they stay so, because it is unknown what was written."""

    def __init__(self, context: ChangeContext, intent: MoveIntent) -> None:
        self._context = context
        self._intent = intent
        self.unsettled = False

    async def write(self, left: StackWorkdir, right: StackWorkdir, move: Move) -> tuple[Written, ...]:
        context, intent = self._context, self._intent
        self.unsettled = True
        try:
            arrived = await write_edited(
                context, right, _arriving(move), run=intent.destination_run, journalled=True
            )
        except StateLocked:
            self.unsettled = False
            raise
        except (HoldfastError, OSError) as error:
            raise _interrupted(intent, error) from error
        try:
            rest = await write_edited(context, left, move.leaving, run=intent.source_run, journalled=True)
        except (HoldfastError, OSError) as error:
            raise _interrupted(intent, error) from error
        self.unsettled = False
        return rest, arrived


def _interrupted(intent: MoveIntent, error: HoldfastError | OSError) -> UnsettledRun:
    why = error.problem.message if isinstance(error, HoldfastError) else str(error)
    return UnsettledRun(
        "HF-STATE-17",
        f"{intent.source}: the move to {intent.destination} was interrupted, and the resources may be in "
        f"both states ({moved_text(intent)}): {why}",
        hint="Nothing is planned or applied on these stacks until this is resolved: "
        f"holdfast runs reconcile {intent.source_run}",
    )


@contextlib.asynccontextmanager
async def _hold_both(context: ChangeContext, intent: MoveIntent) -> AsyncIterator[_HeldStacks]:
    """In the order of their names, so that no two moves wait for each other."""
    store, identity, held = context.store, context.identity, _HeldStacks(context, intent)
    runs = {intent.source: intent.source_run, intent.destination: intent.destination_run}
    about = Intent(
        operation="mv",
        who=identity.who,
        started=clock.now().isoformat(),
        process=process_table.this_process(),
        change=identity.change,
        move=intent,
    )
    taken: list[str] = []
    try:
        for name in sorted(runs):
            await take_claim(store, context.control, Claim(stack=name, run=runs[name], intent=about))
            taken.append(name)
        yield held
    finally:
        for name in taken if not held.unsettled else ():
            store.claims.release(name, runs[name])


class MoveOutcome(Enum):
    NOTHING = "nothing was moved"
    BOTH = "the resources are in both states"
    DONE = "the resources were moved"
    MIXED = "the states were changed since"


def move_outcome(intent: MoveIntent, source: Contents, destination: Contents) -> MoveOutcome:
    """What an interrupted move did, by the two states. Pure."""
    left = [_at(source, old, deposed) for old, _, deposed in intent.moved]
    arrived = [_at(destination, new, deposed) for _, new, deposed in intent.moved]
    if not any(arrived) and all(left):
        return MoveOutcome.NOTHING
    if all(arrived) and not any(left):
        return MoveOutcome.DONE
    pairs = zip(left, arrived, strict=True)
    if all(old is not None and new is not None and _same(old, new) for old, new in pairs):
        return MoveOutcome.BOTH
    return MoveOutcome.MIXED


def _at(contents: Contents, address: str, deposed: str | None) -> StateResource | None:
    if deposed is None:
        return contents.current.get(address)
    return contents.deposed.get(address, {}).get(deposed)


def _same(old: StateResource, new: StateResource) -> bool:
    """By its id, because the provider may have refreshed one of them since."""
    return old.type == new.type and (old.id == new.id if old.id is not None else old.same_as(new))


def notes_on(project: Project, move: Move) -> tuple[str, ...]:
    """What the code must look like afterwards, and which protection does not follow."""
    code, patterns = project.code, policy_of(project.config, move.destination).addresses
    source, destination, address, target = move.source, move.destination, move.address, move.target
    notes = [
        f"`{pattern}` protects {old}, but not its new address {new}"
        for old, new, _ in move.moved
        if (pattern := covering(old, patterns)) is not None and covering(new, patterns) is None
    ]
    if not address.endswith("]") and declares(code, source.module, address):
        notes.append(
            f"The code of {source.name} still declares {address}: its next plan would create it again. "
            "Remove it there."
        )
    if not declares(code, destination.module, target):
        notes.append(
            f"The code of {destination.name} does not declare {target}: its next plan would delete it. "
            "Add it there."
        )
    others = [
        stack.name
        for stack in project.stacks.values()
        if stack.module == source.module and stack.name != source.name
    ]
    if source.name == destination.name and others:
        notes.append(
            f"{plural(len(others), 'other stack uses', 'other stacks use')} {source.module} too; for these, "
            f"add a `moved` block to the code: from = {address}, to = {target}"
        )
    return tuple(notes)


def declares(code: Code, module: str, address: str) -> bool:
    """In the root module: a resource, or the call of the module that it is in."""
    kind, *names = without_keys(address).split(".")
    if kind == "module":
        return any(block.labels[:1] == (names[0],) for block in code.module(module).blocks("module"))
    block_type, labels = ("data", tuple(names)) if kind == "data" else ("resource", (kind, *names))
    return any(tuple(block.labels) == labels for block in code.module(module).blocks(block_type))
