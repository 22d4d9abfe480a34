"""`holdfast state`: read a stack's state and its versions, push one, roll back to one, adopt one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import OneStack, Reason, Yes
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import ChangeContext
    from holdfast.stacks.stack import Stack
    from holdfast.states.versions import LoadedVersion
    from holdfast.terraform.statefile.diff import StateDiff

T = TypeVar("T")
AnyVersion = Annotated[
    str | None,
    Argument(metavar="VERSION", help="A name from `state versions`, or serial:N. Default: the current one."),
]
AcceptLoss = Annotated[
    str | None,
    Option(
        "--override",
        metavar="DIGEST",
        help="Override the guard's denial of exactly this change of the state. Needs --reason.",
    ),
]
Unsaved = Annotated[
    bool,
    Option(
        "--unsaved", help="A state that Terraform could not save; VERSION is a name from `state versions`."
    ),
]
HELP = "Read, compare, edit, restore, move and unlock states."
COMMANDS = (
    "list", "versions", "show", "diff", "pull", "unlock", "push", "mv", "rm", "backup", "rollback", "adopt",
    "rename", "retire",
)  # fmt: skip


def _on_stack(
    invocation: Invocation, name: str, work: Callable[[ChangeContext, Stack], Awaitable[T]]
) -> tuple[Stack, T]:
    from holdfast.cli.context import run_on_stack

    return run_on_stack(invocation, name, work)


def list_(invocation: Invocation, name: OneStack) -> Exit:
    """List the resource addresses in a stack's state."""
    from holdfast.states import operations

    stack, resources = _on_stack(invocation, name, operations.list_resources)
    document = {"version": 1, "stack": stack.name, "resources": resources}
    return invocation.answer(document, *resources)


def versions(invocation: Invocation, name: OneStack) -> Exit:
    """List the versions or backups of a stack's state. A managed state has versions, any other backups."""
    from holdfast.cli.views.state import show_versions, versions_document
    from holdfast.states import versions as state_versions

    stack, listed = _on_stack(invocation, name, state_versions.versions)
    document = versions_document(stack, listed)
    return invocation.answer(document, lambda: show_versions(invocation.console, stack, listed))


def show(
    invocation: Invocation, name: OneStack, version: AnyVersion = None, unsaved: Unsaved = False
) -> Exit:
    """Show the resource addresses and outputs in a state. Sensitive values are masked."""
    from holdfast.cli.views.state import content_document, show_content
    from holdfast.states.versions import CURRENT, load, load_unsaved

    async def work(change_context: ChangeContext, stack: Stack) -> LoadedVersion:
        if unsaved:
            return load_unsaved(change_context, stack, version)
        return await load(change_context, stack, version or CURRENT)

    stack, loaded = _on_stack(invocation, name, work)
    document = content_document(stack, loaded)
    return invocation.answer(document, lambda: show_content(invocation.console, stack, loaded))


def diff(
    invocation: Invocation,
    name: OneStack,
    before: Annotated[
        str | None, Argument(metavar="FROM", help="A version. Default: the previous one.")
    ] = None,
    after: Annotated[str | None, Argument(metavar="TO", help="A version. Default: the current one.")] = None,
) -> Exit:
    """Compare two versions of a state. Sensitive values are named, not shown."""
    from holdfast.cli.views.state import diff_document, show_diff
    from holdfast.states.rollback import compare
    from holdfast.states.versions import load_pair

    async def work(
        change_context: ChangeContext, stack: Stack
    ) -> tuple[LoadedVersion, LoadedVersion, StateDiff | None]:
        old, new = await load_pair(change_context, stack, before, after)
        return (
            old,
            new,
            compare(change_context.engines, change_context.redactor, stack, old.content, new.content),
        )

    stack, (old, new, difference) = _on_stack(invocation, name, work)
    document = diff_document(stack, old, new, difference)
    return invocation.answer(document, lambda: show_diff(invocation.console, stack, old, new, difference))


def unlock(
    invocation: Invocation,
    name: OneStack,
    lock: Annotated[str, Argument(metavar="ID", help="The lock's id, from the error message.")],
    reason: Annotated[
        str | None, Option("--reason", metavar="TEXT", help="How you know that the lock holder is gone.")
    ] = None,
) -> Exit:
    """Force-unlock a stack's state. Use it only if you are sure that the lock holder is gone."""
    from holdfast.states.operations import unlock as force_unlock

    if not reason:
        raise UsageError(
            "HF-USE-16",
            "state unlock needs --reason",
            hint="Add --reason TEXT: how you know that the lock holder is gone.",
        )
    stack, _ = _on_stack(
        invocation,
        name,
        lambda change_context, stack: force_unlock(change_context, stack, lock, reason=reason),
    )
    document = {"version": 1, "stack": stack.name, "lock": lock, "reason": reason}
    return invocation.answer(document, f" {stack.name}: unlocked ({lock})")


def pull(
    invocation: Invocation, name: OneStack, version: AnyVersion = None, unsaved: Unsaved = False
) -> Exit:
    """Print a stack's state, unencrypted and with its secrets."""
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
    name: OneStack,
    version: Annotated[str, Argument(metavar="VERSION", help="A name from `state versions`, or serial:N.")],
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
) -> Exit:
    """Restore an earlier version of a state under a new serial. Then show the plan.

    Changes only the state, no real resource.
    """
    from holdfast.cli.states.changes import override_from
    from holdfast.cli.states.rollback import run_rollback

    return run_rollback(invocation, name, version, yes=yes, override=override_from(override, reason))


def push(
    invocation: Invocation,
    name: OneStack,
    file: Annotated[
        Path | None,
        Argument(metavar="FILE", help="A state file. Default: the state an apply could not save."),
    ] = None,
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
) -> Exit:
    """Push a state to a stack's backend. Terraform refuses another lineage or an older serial."""
    from holdfast.cli.states.changes import override_from, run_push

    source = file.absolute() if file is not None else None
    return run_push(invocation, name, source, override=override_from(override, reason), yes=yes)


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


def adopt(
    invocation: Invocation,
    name: OneStack,
    workspace: Annotated[
        str | None, Option("--workspace", metavar="NAME", help="A workspace in terraform.tfstate.d.")
    ] = None,
    start_empty: Annotated[
        bool,
        Option(
            "--start-empty", help="Start without a state: the old one is not this stack's, or stays behind."
        ),
    ] = False,
    accept_older: Annotated[
        bool,
        Option(
            "--accept-older",
            help="Accept the current state although it is older than the recorded one, or another one.",
        ),
    ] = False,
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
) -> Exit:
    """Take over the local state file of a module as its managed state. The file is renamed, never deleted."""
    from holdfast.cli.states import changes

    if accept_older:
        if start_empty or override or not (reason or "").strip():
            raise UsageError(
                "HF-USE-19",
                "--accept-older needs --reason, and neither --start-empty nor --override",
                hint="The reason is recorded in the audit log.",
            )
        return changes.run_accept_older(invocation, name, workspace=workspace, reason=str(reason))
    accepted = changes.override_from(override, reason)
    if start_empty:
        return changes.run_start_empty(invocation, name, override=accepted, yes=yes)
    if accepted is not None:
        raise UsageError(
            "HF-USE-19",
            "--override needs --start-empty",
            hint="Adopting a file removes nothing from a state.",
        )
    return changes.run_adopt(invocation, name, workspace=workspace)


def rename(
    invocation: Invocation,
    old: Annotated[str, Argument(metavar="OLD", help="The name that the stack had.")],
    new: Annotated[str, Argument(metavar="NEW", help="The name that it has now.")],
) -> Exit:
    """Move the state, versions and backups of a stack to its new name."""
    from holdfast.cli.states.changes import run_rename

    return run_rename(invocation, old, new)


def retire(
    invocation: Invocation,
    old: Annotated[str, Argument(metavar="OLD", help="The name of a stack that is no longer in the code.")],
    reason: Reason = None,
) -> Exit:
    """Stop comparing new stacks with the state of a stack that is gone. Its resources stay as they are."""
    from holdfast.cli.states.changes import run_retire

    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-19", "state retire needs --reason", hint="The reason is recorded in the audit log."
        )
    return run_retire(invocation, old, str(reason))
