"""`state rm` and `state mv` inside one stack: Terraform edits a copy of the state, and Holdfast writes it."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from holdfast.kernel.errors import Failed, Refused, UsageError
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import TerraformFailed
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs import lanes
from holdfast.runs.claims import hold_claim
from holdfast.runs.outcome import require_previous_finished
from holdfast.runs.run import new_run, recorded
from holdfast.stacks.stack import Stack
from holdfast.states import surgery
from holdfast.states.operations import current_content, push_content
from holdfast.states.surgery import Override, StateChange
from holdfast.states.versions import add_backup, no_state
from holdfast.store.retention import prune_states
from holdfast.terraform import argv
from holdfast.terraform.addresses import covers, is_address
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

COPY = "state.tfstate"


class Request(Struct, frozen=True, kw_only=True):
    """What the user asked for, and decided about it."""

    command: str
    """Repeats the operation, for hints."""
    override: Override | None = None
    reason: str | None = None


class Written(Struct, frozen=True, kw_only=True):
    stack: str
    run: str
    lineage: str
    serial: int
    resources: int | None
    backup: str | None
    """The version or backup of the state before; None: there was none."""


Compute = Callable[[StackWorkdir], Awaitable[StateChange]]


async def preview_removal(context: ChangeContext, stack: Stack, addresses: tuple[str, ...]) -> StateChange:
    await require_previous_finished(context.store, context.control, stack)
    async with open_workdir(context, stack) as workdir:
        return await _removal(context, workdir, addresses)


async def remove(
    context: ChangeContext, stack: Stack, addresses: tuple[str, ...], seen: StateChange, request: Request
) -> Written:
    """Remove resources from the state; they still exist, and nothing manages them any more."""
    return await edit_one(
        context, stack, lambda workdir: _removal(context, workdir, addresses), seen, request
    )


async def _removal(context: ChangeContext, workdir: StackWorkdir, addresses: tuple[str, ...]) -> StateChange:
    before = await content_to_edit(context, workdir)
    for address in addresses:
        require_present(workdir.stack, before, address)
    after = await edit_copies(context, workdir, argv.state_rm(COPY, addresses), {COPY: before})
    return surgery.state_change(workdir.stack.name, "rm", before, after[COPY])


async def edit_one(
    context: ChangeContext,
    stack: Stack,
    compute: Compute,
    seen: StateChange,
    request: Request,
    details: Mapping[str, str] | None = None,
) -> Written:
    """Compute the change again under the claim, and write it if it is still the one that was `seen`."""
    store, control, identity, what = context.store, context.control, context.identity, seen.operation
    await require_previous_finished(store, control, stack)
    run = new_run(stack.name, what, identity, run=identity.change).to(Status.APPLYING)
    async with (
        lanes.hold_lanes(store, control, identity, (stack,), operation=f"state {what}"),
        hold_claim(store, control, identity, stack, what),
        open_workdir(context, stack) as workdir,
    ):
        with recorded(store, run):
            change = await compute(workdir)
            with audited_edit(context, stack, change, seen, request, details or {}):
                written = await write_edited(context, workdir, change, run=run.id)
    prune_states(store, stack.name, context.project.config.backups)
    return written


def audited_edit(
    context: ChangeContext,
    stack: Stack,
    change: StateChange,
    seen: StateChange,
    request: Request,
    details: Mapping[str, str],
) -> contextlib.AbstractContextManager[None]:
    return surgery.audited_change(
        context,
        stack,
        change,
        request.override,
        seen=seen.digest,
        command=request.command,
        reason=request.reason,
        **details,
    )


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
    match state:
        case State(encrypted=False):
            return content
        case State():
            raise Refused(
                "HF-STATE-26",
                f"{stack.name}: OpenTofu encrypted its state, so Holdfast cannot edit it",
                hint="Use `moved` and `removed` blocks in the code, then: holdfast plan " + stack.name,
            )
        case _ if not content and may_be_new:
            return b""
        case _ if not content:
            raise no_state(stack)
        case _:
            raise Failed("HF-STATE-24", f"{stack.name}: its backend does not contain a valid state")


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
