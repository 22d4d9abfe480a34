"""Take over a state: the file beside a module, no state at all, or one that is not the recorded one."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, structs

from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Failed, Refused, UsageError
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.backend_config import states_beside
from holdfast.plans.policies import require_owner_of_state
from holdfast.plans.workdir import open_workdir
from holdfast.runs import audit_trail
from holdfast.runs.claims import hold_claim
from holdfast.runs.outcome import require_previous_finished
from holdfast.stacks.backend import code_backend
from holdfast.stacks.stack import Stack
from holdfast.states import surgery
from holdfast.states.operations import current_content
from holdfast.states.surgery import Override, StateChange
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.states import StateSnapshot
from holdfast.system import clock
from holdfast.terraform.statefile.edit import blank_state
from holdfast.terraform.statefile.model import State, UnreadableState, read_state


class Adopted(Struct, frozen=True, kw_only=True):
    source: Path
    renamed: Path
    resources: int | None
    serial: int


async def adopt(
    context: ChangeContext, stack: Stack, *, workspace: str | None, accepted: str | None = None
) -> Adopted:
    """Adopt the state next to a module without a backend: copy, verify, rename the original.

    `accepted` is why a state that is not the recorded one is accepted.
    """
    store, code, identity = context.store, context.project.code, context.identity
    require_owner_of_state(context.project, store, stack)
    await require_previous_finished(store, context.control, stack)
    with audit_trail.audited(
        identity, context.control.tell, stack.name, what="adopt", reason=accepted, break_glass=bool(accepted)
    ):
        async with hold_claim(store, context.control, identity, stack, "adopt"):
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
            record = store.last_seen(stack.name)
            if accepted is None and record is not None and record.resources != 0:
                state_continuity.require_recorded(stack, record, state)
            return _adopt(store, stack, source, content, state, identity.who)


def _adopt(store: RunStore, stack: Stack, source: Path, content: bytes, state: State, who: str) -> Adopted:
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
    if has_backend(code, stack):
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


async def preview_start_empty(context: ChangeContext, stack: Stack) -> StateChange:
    await require_previous_finished(context.store, context.control, stack)
    return _start_empty_change(context, stack)


def _start_empty_change(context: ChangeContext, stack: Stack) -> StateChange:
    """The user declares that the state next to the module, or in an earlier backend, is not this stack's.

    A file next to the module stays as it is; what the recorded state held is left behind.
    """
    if not has_backend(context.project.code, stack):
        _require_no_managed_state(context.store, stack)
    record = context.store.last_seen(stack.name)
    if record is None or record.resources == 0:
        return surgery.state_change(stack.name, "adopt", b"", blank_state())
    copy = surgery.last_known_copy(context.store, stack.name)
    change = surgery.state_change(stack.name, "adopt", copy, blank_state())
    return change if change.lost else structs.replace(change, lost=None)


async def start_empty(
    context: ChangeContext, stack: Stack, *, seen: str | None = None, override: Override | None = None
) -> None:
    """`seen` is the digest of the change that the user confirmed."""
    store, command = context.store, f"holdfast state adopt {stack.name} --start-empty"
    async with hold_claim(store, context.control, context.identity, stack, "adopt"):
        change = _start_empty_change(context, stack)
        with surgery.audited_change(context, stack, change, override, seen=seen, command=command):
            state_continuity.record_empty(store, stack.name)


class Accepted(Struct, frozen=True, kw_only=True):
    state: State
    record: StateRecord | None
    """What was recorded before."""


async def accept_older(context: ChangeContext, stack: Stack, *, reason: str) -> Accepted:
    """The state that the stack has now becomes the recorded one, although it is older or another one.

    Nothing is removed by this: it already is. So the reason is the override.
    """
    store, identity = context.store, context.identity
    require_owner_of_state(context.project, store, stack)
    await require_previous_finished(store, context.control, stack)
    async with (
        hold_claim(store, context.control, identity, stack, "adopt"),
        open_workdir(context, stack, for_state=True) as workdir,
    ):
        state_continuity.require_readable(stack, workdir.home, store.last_seen(stack.name))
        state = read_state(await current_content(context, workdir))
        if not isinstance(state, State):
            raise UsageError(
                "HF-STATE-22",
                f"{stack.name} has no state to accept",
                hint="Restore it (holdfast state versions), or start without one: "
                f"holdfast state adopt {stack.name} --start-empty",
            )
        record = store.last_seen(stack.name)
        was = f"{record.lineage} {record.serial}" if record is not None else "none"
        with audit_trail.audited(
            identity,
            context.control.tell,
            stack.name,
            what="adopt",
            reason=reason,
            break_glass=True,
            recorded=was,
            accepted=f"{state.lineage} {state.serial}",
        ):
            state_continuity.record(store, stack.name, workdir.home, state)
        return Accepted(state=state, record=record)


def has_backend(code: Code, stack: Stack) -> bool:
    return code_backend(code, stack.module) is not None or bool(stack.backend and stack.backend.type)


def _require_no_managed_state(store: RunStore, stack: Stack) -> None:
    version = store.states.current(stack.name)
    if version is not None:
        raise Refused(
            "HF-STATE-8",
            f"{stack.name} already has a managed state (serial {version.serial})",
            hint="Holdfast does not merge states. Move the resources with `moved` or `import` blocks.",
        )
