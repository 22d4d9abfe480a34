"""`holdfast state`: read a state and its versions, push one, roll back to one, edit one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import OneStack, Reason, Yes
from holdfast.cli.states import adopt as adopting
from holdfast.cli.states import server_commands
from holdfast.cli.states.adopt import AcceptLoss
from holdfast.cli.states.server_commands import StateName, no_more, require_argument, require_stack
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import ChangeContext
    from holdfast.stacks.stack import Stack
    from holdfast.states.server_states import ServerState
    from holdfast.states.versions import LoadedVersion, VersionInfo
    from holdfast.terraform.statefile.diff import StateDiff

T = TypeVar("T")
_LOCK_HINT = "The error of the locked command names it. On the server: holdfast state unlock --state NAME"
AnyVersion = Annotated[
    str | None,
    Argument(metavar="VERSION", help="A name from `state versions`, or serial:N. Default: the current one."),
]
MaybeStack = Annotated[str | None, Argument(metavar="STACK", help="Name of the stack.")]
Unsaved = Annotated[
    bool,
    Option(
        "--unsaved", help="A state that Terraform could not save; VERSION is a name from `state versions`."
    ),
]
HELP = "Read, compare, edit, restore, move and unlock states."
COMMANDS = (
    "list", "versions", "show", "diff", "pull", "unlock", "push", "mv", "rm", "backup", "rollback", "adopt",
    "rename", "retire", "locks", "set", "pin", "purge", "scan", "export", "import",
)  # fmt: skip

locks, set_, pin, purge = (
    server_commands.locks,
    server_commands.set_,
    server_commands.pin,
    server_commands.purge,
)
scan, export, import_ = server_commands.scan, server_commands.export, server_commands.import_
adopt, rename, retire = adopting.adopt, adopting.rename, adopting.retire


def _on_stack(
    invocation: Invocation, name: str | None, work: Callable[[ChangeContext, Stack], Awaitable[T]]
) -> tuple[Stack, T]:
    from holdfast.cli.context import run_on_stack

    return run_on_stack(invocation, require_stack(name), work)


def _on_server(invocation: Invocation, state: str, *unexpected: object) -> ServerState:
    from holdfast.cli.states.on_server import open_state

    no_more(*unexpected)
    return open_state(invocation, state)


def list_(invocation: Invocation, name: MaybeStack = None, state: StateName = None) -> Exit:
    """List the resource addresses in a state. Without arguments: the states on the server."""
    from holdfast.states import operations

    if name is None and state is None:
        from holdfast.cli.states.on_server import run_list

        return run_list(invocation)
    from holdfast.cli.views.state import named

    subject: Stack | ServerState
    if state is not None:
        subject = _on_server(invocation, state, name)
        hint = f"Save it (holdfast state pull --state {state}) and list it with OpenTofu, which has its key."
        resources = operations.require_resources(subject.load(None).content, state, hint=hint)
    else:
        subject, resources = _on_stack(invocation, name, operations.list_resources)
    document = {"version": 1, **named(subject), "resources": resources}
    return invocation.answer(document, *resources)


def versions(invocation: Invocation, name: MaybeStack = None, state: StateName = None) -> Exit:
    """List the versions or backups of a state. A managed state has versions, any other backups."""
    from holdfast.cli.views.state import show_versions, versions_document
    from holdfast.states import versions as state_versions

    stack: Stack | ServerState
    if state is not None:
        stack = _on_server(invocation, state, name)
        listed = stack.versions()
    else:
        stack, listed = _on_stack(invocation, name, state_versions.versions)
    document = versions_document(stack, listed)
    return invocation.answer(document, lambda: show_versions(invocation.console, stack, listed))


def show(
    invocation: Invocation,
    name: MaybeStack = None,
    version: AnyVersion = None,
    unsaved: Unsaved = False,
    state: StateName = None,
) -> Exit:
    """Show the resource addresses and outputs in a state. Sensitive values are masked."""
    from holdfast.cli.states.on_server import register_secrets
    from holdfast.cli.views.state import content_document, show_content
    from holdfast.states.versions import CURRENT, load, load_unsaved

    async def work(change_context: ChangeContext, stack: Stack) -> LoadedVersion:
        if unsaved:
            return load_unsaved(change_context, stack, version)
        return await load(change_context, stack, version or CURRENT)

    stack: Stack | ServerState
    if state is not None:
        stack = _on_server(invocation, state, version, unsaved)
        loaded = stack.load(name)
        register_secrets(invocation, loaded.content)
    else:
        stack, loaded = _on_stack(invocation, name, work)
    document = content_document(stack, loaded)
    return invocation.answer(document, lambda: show_content(invocation.console, stack, loaded))


def diff(
    invocation: Invocation,
    name: MaybeStack = None,
    before: Annotated[
        str | None, Argument(metavar="FROM", help="A version. Default: the previous one.")
    ] = None,
    after: Annotated[str | None, Argument(metavar="TO", help="A version. Default: the current one.")] = None,
    state: StateName = None,
) -> Exit:
    """Compare two versions of a state. Sensitive values are named, not shown."""
    from holdfast.cli.views.state import diff_document, show_diff
    from holdfast.states.rollback import compare
    from holdfast.states.versions import load_pair

    async def work(
        change_context: ChangeContext, stack: Stack
    ) -> tuple[VersionInfo, VersionInfo, StateDiff | None]:
        old, new = await load_pair(change_context, stack, before, after)
        difference = compare(change_context.engines, change_context.redactor, stack, old.content, new.content)
        return old.entry, new.entry, difference

    stack: Stack | ServerState
    if state is not None:
        stack = _on_server(invocation, state, after)
        difference: StateDiff | None
        old, new, difference = stack.diff(name, before)
    else:
        stack, (old, new, difference) = _on_stack(invocation, name, work)
    document = diff_document(stack, old, new, difference)
    return invocation.answer(document, lambda: show_diff(invocation.console, stack, old, new, difference))


def unlock(
    invocation: Invocation,
    name: MaybeStack = None,
    lock: Annotated[str | None, Argument(metavar="ID", help="The lock's id, from the error message.")] = None,
    reason: Annotated[
        str | None, Option("--reason", metavar="TEXT", help="How you know that the lock holder is gone.")
    ] = None,
    state: StateName = None,
) -> Exit:
    """Force-unlock a state. Use it only if you are sure that the lock holder is gone.

    With --state, ID may be left out: the lock that is held now is released.
    """
    from holdfast.states.operations import unlock as force_unlock

    if not reason:
        raise UsageError(
            "HF-USE-16",
            "state unlock needs --reason",
            hint="Add --reason TEXT: how you know that the lock holder is gone.",
        )
    if state is not None:
        from holdfast.cli.states.on_server import run_unlock

        return run_unlock(invocation, _on_server(invocation, state, lock), name, reason)
    stack, _ = _on_stack(
        invocation,
        name,
        lambda change_context, stack: force_unlock(
            change_context, stack, require_argument(lock, "ID", _LOCK_HINT), reason=reason
        ),
    )
    document = {"version": 1, "stack": stack.name, "lock": lock, "reason": reason}
    return invocation.answer(document, f" {stack.name}: unlocked ({lock})")


def pull(
    invocation: Invocation,
    name: MaybeStack = None,
    version: AnyVersion = None,
    unsaved: Unsaved = False,
    state: StateName = None,
    source: Annotated[
        Path | None, Option("--from", metavar="DIR", help="Read --state from an export, without the server.")
    ] = None,
) -> Exit:
    """Print a state, unencrypted and with its secrets."""
    from holdfast.runs import audit_trail
    from holdfast.states import operations
    from holdfast.states.versions import load, load_unsaved

    async def work(change_context: ChangeContext, stack: Stack) -> bytes:
        if unsaved:
            content = load_unsaved(change_context, stack, version).content
        elif version is None:
            content = await operations.pull(change_context, stack)
        else:
            content = (await load(change_context, stack, version)).content
        audit_trail.record(
            change_context.identity,
            change_context.control.tell,
            stack.name,
            what="pull",
            version=version or ("unsaved" if unsaved else "current"),
        )
        return content

    if state is not None and source is not None:
        from holdfast.cli.states.transfer import exported_content

        no_more(version, unsaved)
        content = exported_content(invocation, source, state, name)
    elif state is not None:
        content = _on_server(invocation, state, version, unsaved).load(name).content
    else:
        no_more(source)
        _, content = _on_stack(invocation, name, work)
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return Exit.DONE


def backup(invocation: Invocation, name: OneStack) -> Exit:
    """Copy a stack's state into the run store. A managed state needs no backup: it has versions."""
    from holdfast.cli.views.state import entry_document
    from holdfast.states.versions import backup as back_up

    stack, entry = _on_stack(invocation, name, back_up)
    return invocation.answer(
        {"version": 1, "stack": stack.name, **entry_document(entry)},
        f" {stack.name}: stored as {entry.shown}",
        f"   Go back to it with: holdfast state rollback {stack.name} {entry.name}",
    )


def rollback(
    invocation: Invocation,
    name: MaybeStack = None,
    version: Annotated[
        str | None, Argument(metavar="VERSION", help="A name from `state versions`, or serial:N.")
    ] = None,
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
    state: StateName = None,
) -> Exit:
    """Restore an earlier version of a state under a new serial. Of a stack, show the plan then.

    Changes only the state, no real resource. With --state, it needs --reason.
    """
    from holdfast.cli.states.changes import override_from
    from holdfast.cli.states.rollback import run_rollback

    if state is not None:
        from holdfast.cli.states import on_server

        wanted = require_argument(name, "VERSION")
        subject = _on_server(invocation, state, version, override)
        return on_server.run_rollback(invocation, subject, wanted, reason, yes=yes)
    stack, wanted = require_stack(name), require_argument(version, "VERSION")
    return run_rollback(invocation, stack, wanted, yes=yes, override=override_from(override, reason))


def push(
    invocation: Invocation,
    name: MaybeStack = None,
    file: Annotated[
        Path | None,
        Argument(metavar="FILE", help="A state file. Default: the state an apply could not save."),
    ] = None,
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
    state: StateName = None,
) -> Exit:
    """Push a state to a stack's backend or to the server. Another lineage or an older serial is refused."""
    from holdfast.cli.states.changes import override_from, run_push

    if state is not None:
        from holdfast.cli.states.transfer import run_push_to_server

        given = Path(require_argument(name, "FILE"))
        subject = _on_server(invocation, state, file, override, reason)
        return run_push_to_server(invocation, subject, given, yes=yes)
    source = file.absolute() if file is not None else None
    return run_push(
        invocation, require_stack(name), source, override=override_from(override, reason), yes=yes
    )


def mv(
    invocation: Invocation,
    name: OneStack,
    address: Annotated[str, Argument(metavar="FROM", help="Address of a resource, an instance or a module.")],
    target: Annotated[str, Argument(metavar="TO", help="Its new address.")],
    to: Annotated[
        str | None, Option("--to", metavar="STACK", help="Move it to the state of this stack.")
    ] = None,
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
) -> Exit:
    """Move resources to another address, or to another stack's state.

    Changes only states, no real resource. Afterwards the code must declare the new address.
    """
    from holdfast.cli.states.edits import Decisions, run_mv

    return run_mv(invocation, name, to or name, address, target, Decisions(override, reason, yes=yes))


def rm(
    invocation: Invocation,
    name: OneStack,
    addresses: Annotated[
        list[str],
        Argument(metavar="ADDR...", help="Addresses of resources, instances or modules."),
    ],
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
) -> Exit:
    """Remove resources from a state without destroying them. Nothing manages them any more."""
    from holdfast.cli.states.edits import Decisions, run_rm

    return run_rm(invocation, name, tuple(addresses), Decisions(override, reason, yes=yes))
