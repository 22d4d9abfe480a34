"""Operations on the state of one stack: pull, outputs, push, unlock."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from msgspec import structs

from holdfast.kernel.errors import Busy, Failed, Refused, UsageError
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext, Control, Identity
from holdfast.plans.errors import StateLocked, TerraformFailed
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, home_of, open_workdir, state_at, state_without_terraform
from holdfast.runs import audit_trail
from holdfast.runs.claims import Claim, claim_on, hold_claim, is_working, stack_busy
from holdfast.runs.outcome import close_run, exited_by_itself, require_ended
from holdfast.runs.record import register_run_secrets
from holdfast.stacks.stack import Stack
from holdfast.stacks.unreadable import require_readable
from holdfast.states import surgery
from holdfast.states.surgery import Override, StateChange
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.supervisor.request import StateWriter
from holdfast.system import clock, files
from holdfast.terraform.engine.interface import CommandResult
from holdfast.terraform.statefile.edit import blank_state, raise_serial, with_lineage
from holdfast.terraform.statefile.losses import lost_resources
from holdfast.terraform.statefile.model import State, StateFile, UnreadableState, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_outputs, sensitive_in_state
from holdfast.terraform.workdirs.workdir import remove_files

_PUSHED = "holdfast.pushed.tfstate"
_SHOW_VALUES = (("console",), ("output",), ("show",), ("state",))
"""Commands that print values of the state, also sensitive ones."""


async def pull(context: ChangeContext, stack: Stack) -> bytes:
    """The state as Terraform reads it; empty if there is none. A managed one needs no engine."""
    seen = context.store.last_seen(stack.name)
    require_readable(context.project.code, stack, only_encrypted=True)
    home = home_of(context.project, stack)
    if home.managed:
        state_continuity.store_errored_states(context.project, context.store, stack)
        content = state_at(context.store, stack.name, home) or b""
    else:
        async with open_workdir(context, stack, for_state=True) as workdir:
            state_continuity.require_readable(stack, home, seen)
            terraform = Terraform(context, workdir)
            await terraform.init()
            content = await terraform.state_pull()
    if seen is not None and seen.place == home.place:
        state_continuity.require_not_lost(stack, home, seen, read_state(content))
    return content


async def outputs(context: ChangeContext, stack: Stack) -> bytes:
    async with open_workdir(context, stack) as workdir:
        seen = context.store.last_seen(stack.name)
        state_continuity.require_readable(stack, workdir.home, seen)
        if workdir.home.managed and context.store.empty:
            return b""  # Nothing was applied yet, and there may be no key.
        terraform = Terraform(context, workdir)
        await terraform.init()
        document = await terraform.outputs()
        if seen is not None:
            content = state_without_terraform(context.store, workdir)
            state = read_state(content if content is not None else await terraform.state_pull())
            state_continuity.require_same_state(stack, workdir.home, seen, state)
        context.redactor.register_all(sensitive_in_outputs(document))
        return document


async def preview_push(context: ChangeContext, stack: Stack, file: Path | None) -> StateChange:
    """What a push would change in the state."""
    async with open_workdir(context, stack, for_state=True) as workdir:
        return await _push_change(context, workdir, _content(context, stack, file), saves=file is None)


async def push(
    context: ChangeContext,
    stack: Stack,
    file: Path | None,
    *,
    seen: str | None = None,
    override: Override | None = None,
) -> State:
    """Push a file, or the state that the last apply could not save. Terraform checks lineage and serial.

    `seen` is the digest of the change that the user confirmed.
    """
    content = _content(context, stack, file)
    async with (
        _hold_for_push(context.store, context.control, context.identity, stack) as run,
        open_workdir(context, stack, for_state=True) as workdir,
    ):
        change = await _push_change(context, workdir, content, saves=file is None)
        command = push_command(stack, file)
        with surgery.audited_change(context, stack, change, override, seen=seen, command=command):
            try:
                now = await push_content(context, workdir, content, run=run)
            except StateLocked as error:
                if run == context.identity.change:
                    raise
                hint = f"If the interrupted run left it: holdfast runs reconcile {run}"
                raise Busy(error.problem.code, error.problem.message, hint=hint) from None
    _resolve_unsaved(context.store, stack, content)
    return now


def push_command(stack: Stack, file: Path | None) -> str:
    return f"holdfast state push {stack.name}" + (f" {file}" if file is not None else "")


async def _push_change(
    context: ChangeContext, workdir: StackWorkdir, content: bytes, *, saves: bool
) -> StateChange:
    """A state that is lost or damaged is compared with its last copy.

    One that is not the recorded one can be repaired, not replaced by another that is not.
    """
    before = await current_content(context, workdir)
    now, pushed = read_state(before), read_state(content)
    record, unknown = context.store.last_seen(workdir.stack.name), False
    if isinstance(now, State):
        if isinstance(pushed, State) and state_continuity.difference_from_record(record, now) is not None:
            state_continuity.require_recorded(workdir.stack, record, pushed)
    else:
        before = surgery.last_known_copy(context.store, workdir.stack.name)
        unknown = not _is_complete(record, read_state(before), pushed)
    context.redactor.register_all(sensitive_in_state(read_state(before)))
    allowed = removed_by_run(claim_on(context.store, workdir.stack.name)) if saves else None
    change = surgery.state_change(workdir.stack.name, "push", before, content, allowed=allowed)
    return structs.replace(change, lost=None) if unknown and not change.lost else change


def _is_complete(record: StateRecord | None, copy: StateFile, pushed: StateFile) -> bool:
    """Whether a state that replaces a lost one has as many resources, if the last copy cannot tell."""
    if record is None or record.resources == 0 or not isinstance(pushed, State):
        return True
    if isinstance(copy, State) and copy.lineage == record.lineage and copy.serial >= record.serial:
        return True
    return None not in (record.resources, pushed.managed) and (pushed.managed or 0) >= (record.resources or 0)


async def current_content(context: ChangeContext, workdir: StackWorkdir) -> bytes:
    content = state_without_terraform(context.store, workdir)
    if content is not None:
        return content
    terraform = Terraform(context, workdir)
    await terraform.init()
    return await terraform.state_pull()


def removed_by_run(claim: Claim | None) -> frozenset[str]:
    """What the interrupted run was allowed to remove from the state."""
    plan = claim.intent.plan if claim is not None else None
    if plan is None:
        return frozenset()
    removes = (change for change in plan.changes if {"delete", "forget"} & set(change.actions))
    return frozenset((*plan.missing, *(change.address for change in removes)))


@contextlib.asynccontextmanager
async def _hold_for_push(
    store: RunStore, control: Control, identity: Identity, stack: Stack
) -> AsyncIterator[str]:
    """Claim the stack for the push. The claim of a run that is proved dead stays: the push is made for it.

    If its Terraform exited by itself, only the unsaved state was missing, and the run is closed.
    """
    holder = claim_on(store, stack.name)
    if holder is None or is_working(store, holder):
        async with hold_claim(store, control, identity, stack, "push"):
            yield identity.change
        return
    require_ended(store, holder)
    yield holder.run
    journal = store.runs.journal(holder.run)
    if exited_by_itself(journal):
        close_run(store, holder, Status.FAILED, "its state was pushed afterwards")


async def push_content(
    context: ChangeContext,
    workdir: StackWorkdir,
    content: bytes,
    *,
    run: str | None = None,
    why: str = "push",
    journalled: bool = False,
) -> State:
    """Push under a claim, and check that the backend returns what was pushed.

    With the journal of the run, the claim counts as held until the push has ended, whatever is killed.
    """
    stack, state = workdir.stack, read_state(content)
    run = run or context.identity.change
    writes = StateWriter(run=run, why=why, journal=run if journalled else None)
    pushing = _Pushing(context, workdir, writes)
    with _damage_aside(workdir.home.file):
        await pushing.terraform.init()
        if (
            await pushing.into_nothing()
            and isinstance(state, State)
            and state.lineage
            and not state.encrypted
        ):
            known = context.store.last_seen(stack.name)
            if known is not None and known.lineage == state.lineage and known.serial > state.serial:
                content = raise_serial(content, known.serial)
            await pushing.keep_lineage(content)
        else:
            await pushing.push(content)
    now = read_state(await pushing.terraform.state_pull())
    if not isinstance(now, State) or not isinstance(state, State) or not _same_content(state, now):
        raise Failed(
            "HF-STATE-7",
            f"{stack.name}: the state was pushed, but the backend returns a different one",
            hint="Check the backend before you do anything else with this stack.",
        )
    state_continuity.record(context.store, stack.name, workdir.home, now)
    return now


class _Pushing:
    def __init__(self, context: ChangeContext, workdir: StackWorkdir, writes: StateWriter) -> None:
        self._context = context
        self._workdir = workdir
        self._writes = writes
        self.terraform = Terraform(context, workdir)

    async def push(self, content: bytes, *, journalled: bool = True) -> None:
        """A journal belongs to one command: of several pushes, the one that counts has it."""
        work = self._workdir.work
        writes = self._writes if journalled else self._writes._replace(journal=None)
        try:
            files.write(work.module / _PUSHED, content)
            await self.terraform.state_push(_PUSHED, writes)
        finally:
            remove_files(work, (_PUSHED,))

    async def into_nothing(self) -> bool:
        """Whether the backend has no state. Terraform keeps the lineage in a local file in any case."""
        if self._workdir.home.file is not None:
            return False
        if self._workdir.home.managed:
            return self._context.store.states.current(self._workdir.stack.name) is None
        return not await self.terraform.state_pull()

    async def keep_lineage(self, content: bytes) -> None:
        """Into a backend without a state, under its own lineage: earlier versions then still belong to it.

        Terraform gives a new lineage to whatever it pushes there, but lets any lineage follow a state
        without content. A backend that does not gets the content under the lineage that is there now.
        """
        await self.push(blank_state(), journalled=False)
        try:
            await self.push(content)
        except TerraformFailed:
            blank = read_state(await self.terraform.state_pull())
            if not isinstance(blank, State) or blank.managed != 0:
                raise
            await self.push(with_lineage(content, blank.lineage), journalled=False)


def _same_content(pushed: State, now: State) -> bool:
    """Terraform gives the content a new lineage when it pushes it to an empty remote backend."""
    return now.lineage == pushed.lineage or now.outline == pushed.outline


def _resolve_unsaved(store: RunStore, stack: Stack, content: bytes) -> None:
    """Only the unsaved state itself or a later one resolves it; of another lineage, one with all of it."""
    errored = store.errored(stack.name)
    unsaved, pushed = read_state(errored or b""), read_state(content)
    if errored is None or not isinstance(pushed, State):
        return
    if not isinstance(unsaved, State):
        store.resolve_errored(stack.name, pushed=False)
    elif unsaved.lineage == pushed.lineage:
        if unsaved.serial <= pushed.serial:
            store.resolve_errored(stack.name)
    elif lost_resources(unsaved, pushed) == ():
        store.resolve_errored(stack.name, pushed=False)


def _content(context: ChangeContext, stack: Stack, file: Path | None) -> bytes:
    """An unencrypted state file, or the encrypted one stored after a failed save."""
    if file is None:
        state_continuity.store_errored_states(context.project, context.store, stack)
        content = context.store.errored(stack.name)
        if content is None:
            raise UsageError(
                "HF-STATE-6",
                f"{stack.name}: there is no unsaved state to push",
                hint=f"To push a file: holdfast state push {stack.name} FILE",
            )
    else:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise UsageError("HF-STATE-6", f"{file} cannot be read: {error.strerror}") from None
    state = read_state(content)
    context.redactor.register_all(sensitive_in_state(state))
    if not isinstance(state, State):
        reason = state.reason if isinstance(state, UnreadableState) else "it is empty"
        raise UsageError(
            "HF-STATE-6",
            f"{file or 'the unsaved state'} is not a state: {reason}",
            hint="Give a file that `state pull` wrote.",
        )
    return content


@contextlib.contextmanager
def _damage_aside(file: Path | None) -> Iterator[None]:
    """An empty or unreadable local state would stop the push: it is renamed, never deleted.

    If the push fails it is put back, because a missing state counts as new.
    """
    if file is None or not file.exists() or isinstance(read_state(file.read_bytes()), State):
        yield
        return
    aside = file.rename(file.with_name(f"{file.name}.damaged-{clock.new_id()}"))
    try:
        yield
    except BaseException:
        if not file.exists():
            aside.rename(file)
        raise


def resources_of(state: bytes) -> tuple[str, ...] | None:
    """Addresses of the managed resources in a state; None if it cannot be read."""
    match read_state(state):
        case State(resources=resources) if resources is not None:
            return tuple(resource.address for resource in resources if resource.mode == "managed")
        case State() | UnreadableState():
            return None
        case _:
            return ()


async def list_resources(context: ChangeContext, stack: Stack) -> tuple[str, ...]:
    hint = f"OpenTofu can: holdfast terraform {stack.name} -- state list"
    content = await pull(context, stack)
    if home_of(context.project, stack).managed and not context.store.empty:
        # No work directory was opened, which would have read its secrets: keys may contain them.
        now = context.store.states.current(stack.name)
        register_run_secrets(context, now.run if now else None, stack.name)
    return require_resources(content, stack.name, hint=hint)


def require_resources(content: bytes, name: str, *, hint: str) -> tuple[str, ...]:
    """`hint` says how to list those of an encrypted state."""
    if (resources := resources_of(content)) is not None:
        return resources
    if isinstance(read_state(content), UnreadableState):
        raise Failed("HF-STATE-24", f"{name}: its backend does not contain a valid state")
    raise Refused(
        "HF-STATE-26",
        f"{name}: OpenTofu encrypted its state, so Holdfast cannot list its resources",
        hint=hint,
    )


async def unlock(context: ChangeContext, stack: Stack, lock: str, *, reason: str) -> None:
    """Terraform compares the id if its backend can. Refused while a run of Holdfast claims the stack."""
    claim = claim_on(context.store, stack.name)
    if claim is not None and is_working(context.store, claim):
        raise stack_busy(claim)
    if claim is not None:
        raise Refused(
            "HF-LOCK-6",
            f"{stack.name}: run {claim.run} was interrupted and may still hold the lock",
            hint=f"Reconcile the run: holdfast runs reconcile {claim.run}",
        )
    async with open_workdir(context, stack, for_state=True) as workdir:
        if workdir.home.managed:
            managed = f"{stack.name}: its state is managed by Holdfast; there is no lock to release"
            raise Refused("HF-LOCK-6", managed)
        terraform = Terraform(context, workdir)
        await terraform.init()
        with audit_trail.audited(
            context.identity, context.control.tell, stack.name, what="unlock", reason=reason, lock=lock
        ):
            await terraform.force_unlock(lock)


async def run_read_only(context: ChangeContext, stack: Stack, words: tuple[str, ...]) -> CommandResult:
    """Run any read-only command on a stack, with its files, environment and backend."""
    async with open_workdir(context, stack, for_state=True) as workdir:
        terraform = Terraform(context, workdir)
        await terraform.init()
        if words[:1] in _SHOW_VALUES:
            context.redactor.register_all(sensitive_in_state(read_state(await terraform.state_pull())))
        return await terraform.read(words)
