"""`holdfast state`: read a stack's state and its versions, push one, roll back to one, adopt one."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from holdfast.cli.command import Argument, Invocation, Option, fields
from holdfast.cli.parameters import OneStack, Yes
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import ChangeContext
    from holdfast.stacks.stack import Stack
    from holdfast.states.operations import Adopted
    from holdfast.states.versions import LoadedVersion
    from holdfast.terraform.statefile.diff import StateDiff

T = TypeVar("T")
AnyVersion = Annotated[
    str | None,
    Argument(metavar="VERSION", help="A name from `state versions`, or serial:N. Default: the current one."),
]
HELP = "Read, compare, push, roll back, adopt and unlock states."
COMMANDS = ("list", "versions", "show", "diff", "pull", "unlock", "push", "backup", "rollback", "adopt")


def _on_stack(
    invocation: Invocation, name: str, work: Callable[[ChangeContext, Stack], Awaitable[T]]
) -> tuple[Stack, T]:
    from holdfast.cli.context import run_on_stack

    return run_on_stack(invocation, name, work)


def list_(invocation: Invocation, name: OneStack) -> Exit:
    """List the resource addresses in a stack's state."""
    from holdfast.states import operations

    stack, content = _on_stack(invocation, name, operations.pull)
    resources = operations.resources_of(content)
    if resources is None and not invocation.as_json:
        invocation.console.say(" The state is encrypted or cannot be read.")
    document = {"version": 1, "stack": stack.name, "resources": resources}
    return invocation.answer(document, *(resources or ()))


def versions(invocation: Invocation, name: OneStack) -> Exit:
    """List the versions or backups of a stack's state. A managed state has versions, any other backups."""
    from holdfast.cli.views.state import show_versions, versions_document
    from holdfast.states import versions as state_versions

    stack, listed = _on_stack(invocation, name, state_versions.versions)
    document = versions_document(stack, listed)
    return invocation.answer(document, lambda: show_versions(invocation.console, stack, listed))


def show(invocation: Invocation, name: OneStack, version: AnyVersion = None) -> Exit:
    """Show the resource addresses and outputs in a state. Sensitive values are masked."""
    from holdfast.cli.views.state import content_document, show_content
    from holdfast.states.versions import CURRENT, load

    stack, loaded = _on_stack(
        invocation, name, lambda change_context, stack: load(change_context, stack, version or CURRENT)
    )
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


def pull(invocation: Invocation, name: OneStack, version: AnyVersion = None) -> Exit:
    """Print a stack's state, unencrypted and with its secrets."""
    from holdfast.runs import audit_trail
    from holdfast.states import operations
    from holdfast.states.versions import load

    async def work(change_context: ChangeContext, stack: Stack) -> bytes:
        if version is None:
            content = await operations.pull(change_context, stack)
        else:
            content = (await load(change_context, stack, version)).content
        audit_trail.record(
            change_context.identity,
            change_context.control.tell,
            stack.name,
            what="pull",
            version=version or "current",
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
) -> Exit:
    """Restore an earlier version of a state under a new serial. Then show the plan.

    Changes only the state, no real resource.
    """
    from holdfast.cli.commands.rollback import run_rollback

    return run_rollback(invocation, name, version, yes=yes)


def push(
    invocation: Invocation,
    name: OneStack,
    file: Annotated[
        Path | None,
        Argument(metavar="FILE", help="A state file. Default: the state an apply could not save."),
    ] = None,
) -> Exit:
    """Push a state to a stack's backend. Terraform refuses another lineage or an older serial."""
    from holdfast.states import operations

    source = file.absolute() if file is not None else None
    stack, state = _on_stack(
        invocation, name, lambda change_context, stack: operations.push(change_context, stack, source)
    )
    return invocation.answer(
        {
            "version": 1,
            "stack": stack.name,
            **fields(state, "lineage", "serial"),
            "resources": state.managed,
        },
        f" {stack.name}: pushed the state, serial {state.serial}. Next: holdfast plan {stack.name}",
    )


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
) -> Exit:
    """Take over the local state file of a module as its managed state. The file is renamed, never deleted."""
    from holdfast.cli.views.state import resources_text
    from holdfast.runs import audit_trail
    from holdfast.runs.claims import hold_claim
    from holdfast.runs.outcome import require_previous_finished
    from holdfast.states import operations

    async def work(change_context: ChangeContext, stack: Stack) -> Adopted | None:
        store, code, identity = change_context.store, change_context.project.code, change_context.identity
        details = {"begins": "empty"} if start_empty else {}
        control = change_context.control
        await require_previous_finished(store, control, stack)
        async with hold_claim(store, control, identity, stack, "adopt"):
            with audit_trail.audited(identity, control.tell, stack.name, what="adopt", **details):
                if not start_empty:
                    return operations.adopt(store, code, stack, workspace=workspace, who=identity.who)
                operations.start_empty(store, code, stack)
                return None

    stack, adopted = _on_stack(invocation, name, work)
    if adopted is None:
        document: dict[str, object] = {"version": 1, "stack": stack.name, "adopted": None}
        return invocation.answer(document, f" {stack.name}: starts without a state")
    contents = f"serial {adopted.serial}, {resources_text(adopted.resources)}"
    return invocation.answer(
        {
            "version": 1,
            "stack": stack.name,
            "adopted": str(adopted.source),
            "renamed": str(adopted.renamed),
            **fields(adopted, "serial", "resources"),
        },
        f" {stack.name}: adopted {adopted.source} ({contents})",
        f"   The original is now {adopted.renamed}.",
        f"   Next: holdfast plan {stack.name}",
    )
