"""Operations on the state of one stack: pull, outputs, push, adopt, unlock."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from msgspec import Struct

from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Failed, Refused, UsageError
from holdfast.plans import state_continuity
from holdfast.plans.backend_config import states_beside
from holdfast.plans.context import ChangeContext, Control, Identity
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir, state_without_terraform
from holdfast.runs import audit_trail
from holdfast.runs.claims import claim_on, hold_claim, is_working, stack_busy
from holdfast.runs.outcome import close_run, exited_by_itself, require_ended
from holdfast.stacks.backend import code_backend
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.store.states import StateSnapshot
from holdfast.system import clock, files
from holdfast.terraform.statefile.model import State, UnreadableState, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_outputs, sensitive_in_state
from holdfast.terraform.workdirs.workdir import remove_files

_PUSHED = "holdfast.pushed.tfstate"


async def pull(context: ChangeContext, stack: Stack) -> bytes:
    """The state as Terraform reads it; empty if there is none."""
    async with open_workdir(context, stack, for_state=True) as workdir:
        seen = context.store.last_seen(stack.name)
        state_continuity.require_readable(stack, workdir.home, seen)
        if workdir.home.managed:
            content = state_without_terraform(context.store, workdir) or b""
        else:
            terraform = Terraform(context, workdir)
            await terraform.init()
            content = await terraform.state_pull()
        if seen is not None and seen.place == workdir.home.place:
            state_continuity.require_same_place(stack, workdir.home, seen, read_state(content))
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
        if document.strip() in (b"", b"{}") and seen is not None and seen.resources != 0:
            state = read_state(await terraform.state_pull())
            state_continuity.require_same_place(stack, workdir.home, seen, state)
        context.redactor.register_all(sensitive_in_outputs(document))
        return document


async def push(context: ChangeContext, stack: Stack, file: Path | None) -> State:
    """Push a file, or the state that the last apply could not save. Terraform checks lineage and serial."""
    content = _content(context.store, stack, file)
    state = read_state(content)
    context.redactor.register_all(sensitive_in_state(state))
    if not isinstance(state, State):
        reason = state.reason if isinstance(state, UnreadableState) else "it is empty"
        raise UsageError(
            "HF-STATE-6",
            f"{file} is not a state: {reason}",
            hint=f"Give a file from: holdfast state pull {stack.name}",
        )
    async with (
        _hold_for_push(context.store, context.control, context.identity, stack) as run,
        open_workdir(context, stack, for_state=True) as workdir,
    ):
        with audit_trail.audited(
            context.identity, context.control.tell, stack.name, what="push", serial=str(state.serial)
        ):
            now = await push_content(context, workdir, content, run=run)
    _resolve_unsaved(context.store, stack, state)
    return now


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
    context: ChangeContext, workdir: StackWorkdir, content: bytes, *, run: str | None = None
) -> State:
    """Push under a claim, and check that the backend returns what was pushed."""
    stack, state = workdir.stack, read_state(content)
    terraform = Terraform(context, workdir)
    try:
        with _damage_aside(workdir.home.file):
            await terraform.init()
            files.write(workdir.work.module / _PUSHED, content)
            await terraform.state_push(_PUSHED, run or context.identity.change)
    finally:
        remove_files(workdir.work, (_PUSHED,))
    now = read_state(await terraform.state_pull())
    if not isinstance(now, State) or not isinstance(state, State) or not _same_content(state, now):
        raise Failed(
            "HF-STATE-7",
            f"{stack.name}: the state was pushed, but the backend returns a different one",
            hint=f"Check the backend first. Show its state: holdfast state show {stack.name}",
        )
    state_continuity.record(context.store, stack.name, workdir.home, now)
    return now


def _same_content(pushed: State, now: State) -> bool:
    """Terraform gives the content a new lineage when it pushes it to an empty remote backend."""
    return now.lineage == pushed.lineage or now.outline == pushed.outline


def _resolve_unsaved(store: RunStore, stack: Stack, pushed: State) -> None:
    """Only the unsaved state itself, or a later one, resolves it."""
    content = store.errored(stack.name)
    if content is None:
        return
    unsaved = read_state(content)
    if isinstance(unsaved, State) and (unsaved.lineage != pushed.lineage or unsaved.serial > pushed.serial):
        return
    store.resolve_errored(stack.name)


def _content(store: RunStore, stack: Stack, file: Path | None) -> bytes:
    """An unencrypted state file, or the encrypted one stored after a failed save."""
    if file is None:
        unsaved = store.errored(stack.name)
        if unsaved is None:
            raise UsageError(
                "HF-STATE-6",
                f"{stack.name}: there is no unsaved state to push",
                hint=f"To push a file: holdfast state push {stack.name} FILE",
            )
        return unsaved
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError("HF-STATE-6", f"{file} cannot be read: {error.strerror}") from None


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


class Adopted(Struct, frozen=True, kw_only=True):
    source: Path
    renamed: Path
    resources: int | None
    serial: int


def adopt(store: RunStore, code: Code, stack: Stack, *, workspace: str | None, who: str) -> Adopted:
    """Adopt the state next to a module without a backend: copy, verify, rename the original."""
    source = _adoptable(code, stack, workspace)
    content = source.read_bytes()
    state = read_state(content)
    if not isinstance(state, State):
        reason = state.reason if isinstance(state, UnreadableState) else "it is empty"
        raise Refused(
            "HF-STATE-8",
            f"{source} cannot be adopted: {reason}",
            hint="Restore it from its backup first (terraform.tfstate.backup).",
        )
    _require_no_managed_state(store, stack)
    if not _store_first_version(store, stack, state, content, who) or source.read_bytes() != content:
        store.states.withdraw(stack.name, 1)
        raise Failed(
            "HF-STATE-7",
            f"{source} changed while it was copied",
            hint="Stop the process that writes it, then try again.",
        )
    renamed = source.with_name(f"{source.name}.adopted-{clock.now():%Y%m%dT%H%M%SZ}")
    try:
        source.rename(renamed)
    except OSError as error:
        store.states.withdraw(stack.name, 1)
        raise Failed("HF-STATE-7", f"{source} cannot be renamed: {error.strerror}") from None
    state_continuity.record_managed(store, stack.name, state)
    return Adopted(source=source, renamed=renamed, resources=state.managed, serial=state.serial)


def _store_first_version(store: RunStore, stack: Stack, state: State, content: bytes, who: str) -> bool:
    """Store the first version, and read it back."""
    new = StateSnapshot.of(content, state, run=None, who=who, why="adopt")
    if store.states.add(stack.name, new, after=0) is None:
        # Another process was first: its state must not be withdrawn.
        _require_no_managed_state(store, stack)
    version = store.states.current(stack.name)
    return version is not None and version.state == content


def _adoptable(code: Code, stack: Stack, workspace: str | None) -> Path:
    root = code.tree.root
    if _has_backend(code, stack):
        raise UsageError(
            "HF-STATE-9",
            f"{stack.name} has a backend, so there is no local state to adopt",
            hint=f"To push a state to it: holdfast state push {stack.name} FILE",
        )
    module = root / stack.module
    states = states_beside(module)
    if workspace is not None:
        folder = module if workspace == "default" else module / "terraform.tfstate.d" / workspace
        wanted = folder / "terraform.tfstate"
        if wanted not in states:
            raise UsageError("HF-STATE-9", f"there is no state of a workspace {workspace} in {stack.module}")
        return wanted
    if not states:
        raise UsageError("HF-STATE-9", f"there is no terraform.tfstate in {stack.module}")
    if len(states) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in states)
        raise UsageError(
            "HF-STATE-9",
            f"there are several states in {stack.module}: {names}",
            hint="Choose one: --workspace NAME for a state in terraform.tfstate.d, "
            "--workspace default for terraform.tfstate.",
        )
    return states[0]


def start_empty(store: RunStore, code: Code, stack: Stack) -> None:
    """The user declares that the state next to the module, or in an earlier backend, is not this stack's."""
    if not _has_backend(code, stack):
        _require_no_managed_state(store, stack)
    state_continuity.record_empty(store, stack.name)


def _has_backend(code: Code, stack: Stack) -> bool:
    return code_backend(code, stack.module) is not None or bool(stack.backend and stack.backend.type)


def _require_no_managed_state(store: RunStore, stack: Stack) -> None:
    version = store.states.current(stack.name)
    if version is not None:
        raise Refused(
            "HF-STATE-8",
            f"{stack.name} already has a managed state (serial {version.serial})",
            hint="Holdfast does not merge states. Move the resources with `moved` or `import` blocks.",
        )


def resources_of(state: bytes) -> tuple[str, ...] | None:
    """Addresses of the managed resources in a state; None if it cannot be read."""
    match read_state(state):
        case State(resources=resources) if resources is not None:
            return tuple(resource.address for resource in resources if resource.mode == "managed")
        case State() | UnreadableState():
            return None
        case _:
            return ()


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
            raise Refused(
                "HF-LOCK-6", f"{stack.name}: its state is managed by Holdfast; there is no lock to release"
            )
        terraform = Terraform(context, workdir)
        await terraform.init()
        with audit_trail.audited(
            context.identity, context.control.tell, stack.name, what="unlock", reason=reason, lock=lock
        ):
            await terraform.force_unlock(lock)
