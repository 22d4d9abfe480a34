"""`state rm` and `state mv`: Terraform edits copies of states; Holdfast decides, backs up and writes them.

Of two states the last one is written first, each under its own claim: a crash leaves moved resources in both
states, never in none. The claims then say what was being moved, and `runs reconcile` finishes it
(`recovery.finish_move`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from msgspec import Struct, field

from holdfast.kernel.errors import Failed, HoldfastError, Refused, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import StateLocked, TerraformFailed
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs import lanes
from holdfast.runs.claims import Claim, take_claim
from holdfast.runs.intent import Intent, Moved, MoveIntent, moved_text
from holdfast.runs.outcome import require_previous_finished
from holdfast.runs.run import UnsettledRun, new_run, record_outcome
from holdfast.stacks.stack import Stack
from holdfast.states import surgery
from holdfast.states.operations import current_content, push_content
from holdfast.states.surgery import Override, StateChange
from holdfast.states.versions import add_backup, no_state
from holdfast.store.retention import prune_states
from holdfast.system import clock, process_table
from holdfast.terraform import argv
from holdfast.terraform.addresses import covers, is_address
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

COPY = "state.tfstate"
Workdirs = tuple[StackWorkdir, ...]


class Edit(MaskedStruct, frozen=True, kw_only=True):
    """Changes of one or two states, computed and not written yet; of a move, the source comes first."""

    changes: tuple[StateChange, ...]
    moved: tuple[Moved, ...] = ()


class Request(Struct, frozen=True, kw_only=True):
    """What the user asked for and decided."""

    stacks: tuple[Stack, ...]
    compute: Callable[[ChangeContext, Workdirs], Awaitable[Edit]]
    command: str
    """Repeats the operation, for hints."""
    override: Override | None = None
    reason: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    """For the audit log."""


class Written(Struct, frozen=True, kw_only=True):
    stack: str
    run: str
    lineage: str
    serial: int
    resources: int | None
    backup: str | None
    """The version or backup of the state before; None: there was none."""


def removal(addresses: tuple[str, ...]) -> Callable[[ChangeContext, Workdirs], Awaitable[Edit]]:
    """The resources still exist, and nothing manages them any more."""

    async def compute(context: ChangeContext, workdirs: Workdirs) -> Edit:
        (workdir,) = workdirs
        before = await content_to_edit(context, workdir)
        for address in addresses:
            require_present(workdir.stack, before, address)
        after = await edit_copies(context, workdir, argv.state_rm(COPY, addresses), {COPY: before})
        return Edit(changes=(surgery.state_change(workdir.stack.name, "rm", before, after[COPY]),))

    return compute


async def preview(context: ChangeContext, request: Request) -> Edit:
    async with _open_workdirs(context, request.stacks) as workdirs:
        return await request.compute(context, workdirs)


@contextlib.asynccontextmanager
async def _open_workdirs(context: ChangeContext, stacks: tuple[Stack, ...]) -> AsyncIterator[Workdirs]:
    async with contextlib.AsyncExitStack() as held:
        for stack in stacks:
            await require_previous_finished(context.store, context.control, stack)
        yield tuple([await held.enter_async_context(open_workdir(context, stack)) for stack in stacks])


async def write(context: ChangeContext, request: Request, seen: Edit) -> tuple[Written, ...]:
    """Compute the edit again under the claims, and write it if it is still the one that was `seen`."""
    store, control, identity = context.store, context.control, context.identity
    stacks, what = request.stacks, seen.changes[0].operation
    store.require_apply_key(f"state {what}")
    details = {**request.details, **({"moved": moved_text(seen.moved)} if seen.moved else {})}
    for stack in stacks:
        await require_previous_finished(store, control, stack)
    runs = {stack.name: clock.new_id() if number else identity.change for number, stack in enumerate(stacks)}
    async with contextlib.AsyncExitStack() as held:
        lane = lanes.hold_lanes(store, control, identity, stacks, operation=f"state {what}")
        await held.enter_async_context(lane)
        writing = await held.enter_async_context(_hold_claims(context, seen, runs))
        for name, run in runs.items():
            held.enter_context(
                record_outcome(store, new_run(name, what, identity, run=run).to(Status.APPLYING))
            )
        workdirs = [await held.enter_async_context(open_workdir(context, stack)) for stack in stacks]
        edit = await request.compute(context, tuple(workdirs))
        for stack, change in zip(stacks, edit.changes, strict=True):
            audited = surgery.audited_change(
                context,
                stack,
                change,
                request.override,
                seen=seen.changes[0].digest,
                command=request.command,
                reason=request.reason,
                **details,
            )
            held.enter_context(audited)
        written = await writing.write(tuple(workdirs), edit)
    for stack in stacks:
        prune_states(store, stack.name, context.project.config.backups)
    return written


class _Writing:
    """The states are claimed. `unsettled`: they stay so, because it is unknown what was written."""

    def __init__(self, context: ChangeContext, runs: Mapping[str, str], move: MoveIntent | None) -> None:
        self._context = context
        self._runs = runs
        self._move = move
        self.unsettled = False

    async def write(self, workdirs: Workdirs, edit: Edit) -> tuple[Written, ...]:
        self.unsettled, written = self._move is not None, []
        try:
            for workdir, change in reversed(tuple(zip(workdirs, edit.changes, strict=True))):
                run = self._runs[workdir.stack.name]
                journalled = self._move is not None
                written.append(
                    await write_edited(self._context, workdir, change, run=run, journalled=journalled)
                )
        except (HoldfastError, OSError) as error:
            if self._move is None or (isinstance(error, StateLocked) and not written):
                self.unsettled = False
                raise
            raise _interrupted_error(self._move, error) from error
        self.unsettled = False
        return tuple(reversed(written))


def _interrupted_error(move: MoveIntent, error: HoldfastError | OSError) -> UnsettledRun:
    why = error.problem.message if isinstance(error, HoldfastError) else str(error)
    return UnsettledRun(
        "HF-STATE-17",
        f"{move.source}: the move to {move.destination} was interrupted, and the resources may be in both "
        f"states ({moved_text(move.moved)}): {why}",
        hint="Nothing is planned or applied on these stacks until this is resolved: "
        f"holdfast runs reconcile {move.source_run}",
    )


@contextlib.asynccontextmanager
async def _hold_claims(
    context: ChangeContext, edit: Edit, runs: Mapping[str, str]
) -> AsyncIterator[_Writing]:
    """In the order of their names, so that no two moves wait for each other."""
    store, identity, move = context.store, context.identity, None
    if len(runs) > 1:
        (source, source_run), (destination, destination_run) = runs.items()
        move = MoveIntent(
            source=source,
            destination=destination,
            source_run=source_run,
            destination_run=destination_run,
            moved=edit.moved,
        )
    intent = Intent(
        operation=edit.changes[0].operation,
        who=identity.who,
        started=clock.now().isoformat(),
        process=process_table.this_process(),
        change=identity.change,
        move=move,
    )
    writing, taken = _Writing(context, runs, move), []
    try:
        for name in sorted(runs):
            await take_claim(store, context.control, Claim(stack=name, run=runs[name], intent=intent))
            taken.append(name)
        yield writing
    finally:
        for name in taken if not writing.unsettled else ():
            store.claims.release(name, runs[name])


async def write_edited(
    context: ChangeContext, workdir: StackWorkdir, change: StateChange, *, run: str, journalled: bool = False
) -> Written:
    """Back up the state, then push the new one: Terraform compares lineage and serial under its lock."""
    store, stack, what = context.store, workdir.stack, change.operation
    backup = None
    if workdir.home.managed:
        numbers = store.states.numbers(stack.name)
        backup = str(numbers[-1]) if numbers else None
    elif change.before:
        who, why = context.identity.who, f"before a state {what}"
        backup = add_backup(store, who, stack, change.before, why=why, run=run).name
    now = await push_content(context, workdir, change.after, run=run, why=what, journalled=journalled)
    return Written(
        stack=stack.name,
        run=run,
        lineage=now.lineage,
        serial=now.serial,
        resources=now.managed,
        backup=backup,
    )


async def content_to_edit(
    context: ChangeContext, workdir: StackWorkdir, *, may_be_new: bool = False
) -> bytes:
    """The state of the stack: the recorded one or a later version of it, and readable."""
    stack, seen = workdir.stack, context.store.last_seen(workdir.stack.name)
    state_continuity.require_readable(stack, workdir.home, seen)
    content = await current_content(context, workdir)
    state = read_state(content)
    state_continuity.require_same_state(stack, workdir.home, seen, state)
    context.redactor.register_all(sensitive_in_state(state))
    if isinstance(state, State) and not state.encrypted:
        return content
    if isinstance(state, State):
        raise Refused(
            "HF-STATE-26",
            f"{stack.name}: OpenTofu encrypted its state, so Holdfast cannot edit it",
            hint=f"Use `moved` and `removed` blocks in the code, then: holdfast plan {stack.name}",
        )
    if content:
        raise Failed("HF-STATE-24", f"{stack.name}: its backend does not contain a valid state")
    if not may_be_new:
        raise no_state(stack)
    return b""


def require_address(address: str) -> None:
    if not is_address(address):
        raise UsageError(
            "HF-STATE-14",
            f"{address} is not the address of a resource or a module",
            hint="Write it as Terraform does, quoted for the shell: 'module.app[\"eu\"].aws_eip.b[0]'",
        )


def require_present(stack: Stack, content: bytes, address: str) -> None:
    state = read_state(content)
    resources = (state.resources or ()) if isinstance(state, State) else ()
    if not any(covers(address, resource.address) for resource in resources):
        raise UsageError(
            "HF-STATE-14",
            f"{stack.name}: its state has nothing at {address}",
            hint=f"List the addresses: holdfast state list {stack.name}",
        )


async def edit_copies(
    context: ChangeContext, workdir: StackWorkdir, words: argv.Argv, states: dict[str, bytes]
) -> dict[str, bytes]:
    """What Terraform refuses is refused: it knows which addresses can move where."""
    try:
        return await Terraform(context, workdir).edit_states(words, states)
    except TerraformFailed as error:
        parts = (" ".join(part.split()) for part in error.problem.message.split("\n\n"))
        text = ": ".join(filter(None, parts)).removeprefix("Error: ")
        raise Refused(
            "HF-STATE-15",
            f"{workdir.stack.name}: Terraform refuses this: {text}",
            hint=f"Nothing was changed. List the addresses: holdfast state list {workdir.stack.name}",
        ) from None
