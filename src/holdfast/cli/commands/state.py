"""`holdfast state`: read a stack's state and its versions, bring one, go back to one, take one over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Group, Invocation, Option, command
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import Session
    from holdfast.states.operations import Adopted
    from holdfast.terraform.statefile.diff import StateDiff

AnyVersion = Annotated[
    str | None,
    Argument(
        metavar="VERSION", help="As `state versions` calls it, or serial:N; without it, the current one."
    ),
]


def register(app: Group) -> None:
    group = Group("state", help="The state of a stack and its versions.")
    command(group, "list")(list_)
    command(group, "versions")(versions)
    command(group, "show")(show)
    command(group, "diff")(diff)
    command(group, "pull")(pull)
    command(group, "unlock")(unlock)
    command(group, "push")(push)
    command(group, "backup")(backup)
    command(group, "rollback")(rollback)
    command(group, "adopt")(adopt)
    app.add_command(group)


def list_(invocation: Invocation, stack: OneStack) -> Exit:
    """List the addresses of what a stack's state holds."""
    from holdfast.cli.context import Workshop
    from holdfast.states import operations

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    found = operations.resources_of(workshop.run(lambda session: operations.pull(session, one)))
    if invocation.as_json:
        invocation.document({"version": 1, "stack": one.name, "resources": found})
        return Exit.DONE
    if found is None:
        invocation.console.say(" the state is encrypted or cannot be read: what it holds was not looked at")
    for address in found or ():
        invocation.console.line(address)
    return Exit.DONE


def versions(invocation: Invocation, stack: OneStack) -> Exit:
    """List the versions of a state that Holdfast keeps, or the copies of one that lies elsewhere."""
    from holdfast.cli.context import Workshop
    from holdfast.cli.views.state import show_versions, versions_document
    from holdfast.states import versions as state_versions

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    found = workshop.run(lambda session: state_versions.versions(session, one))
    if invocation.as_json:
        invocation.document(versions_document(one, found))
    else:
        show_versions(invocation.console, one, found)
    return Exit.DONE


def show(invocation: Invocation, stack: OneStack, version: AnyVersion = None) -> Exit:
    """Show what a version of a state holds: addresses and outputs, and nothing that is secret."""
    from holdfast.cli.context import Workshop
    from holdfast.cli.views.state import content_document, show_content
    from holdfast.states import versions as state_versions

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    wanted = version or state_versions.CURRENT
    found = workshop.run(lambda session: state_versions.load(session, one, wanted))
    if invocation.as_json:
        invocation.document(content_document(one, found))
    else:
        show_content(invocation.console, one, found)
    return Exit.DONE


def diff(
    invocation: Invocation,
    stack: OneStack,
    before: Annotated[
        str | None, Argument(metavar="FROM", help="A version; without it, the one before.")
    ] = None,
    after: Annotated[
        str | None, Argument(metavar="TO", help="A version; without it, the current one.")
    ] = None,
) -> Exit:
    """Show what differs between two versions of a state. What is sensitive is named and not shown."""
    from holdfast.cli.context import Workshop
    from holdfast.cli.views.state import diff_document, show_diff
    from holdfast.states import versions as state_versions
    from holdfast.states.rollback import compare

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)

    async def work(session: Session) -> tuple[state_versions.Loaded, state_versions.Loaded, StateDiff | None]:
        old, new = await state_versions.load_pair(session, one, before, after)
        return old, new, compare(session, one, old.content, new.content)

    old, new, found = workshop.run(work)
    if invocation.as_json:
        invocation.document(diff_document(one, old, new, found))
    else:
        show_diff(invocation.console, one, old, new, found)
    return Exit.DONE


def unlock(
    invocation: Invocation,
    stack: OneStack,
    lock: Annotated[str, Argument(metavar="ID", help="The lock's id, as the error names it.")],
    reason: Annotated[str | None, Option("--reason", metavar="TEXT", help="Why its holder is gone.")] = None,
) -> Exit:
    """Release a lock in a stack's backend, when its holder is gone for certain."""
    from holdfast.cli.context import Workshop
    from holdfast.states.force_unlock import unlock as release

    if not reason:
        raise UsageError("HF-USE-16", "--reason is missing", hint="Say how you know that the holder is gone.")
    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    workshop.run(lambda session: release(session, one, lock, reason=reason))
    if invocation.as_json:
        invocation.document({"version": 1, "stack": one.name, "lock": lock, "reason": reason})
    else:
        invocation.console.line(f" {one.name}: the lock {lock} is released")
    return Exit.DONE


def pull(invocation: Invocation, stack: OneStack, version: AnyVersion = None) -> Exit:
    """Write a stack's state to standard output, in clear: it may hold secrets."""
    from holdfast.cli.context import Workshop
    from holdfast.runs import audit_trail
    from holdfast.states import operations
    from holdfast.states import versions as state_versions

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)

    async def work(session: Session) -> bytes:
        if version is None:
            content = await operations.pull(session, one)
        else:
            content = (await state_versions.load(session, one, version)).content
        audit_trail.done(session, one.name, what="pull", version=version or "current")
        return content

    content = workshop.run(work)
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return Exit.DONE


def backup(invocation: Invocation, stack: OneStack) -> Exit:
    """Copy a stack's state into the run store, now. A state that Holdfast keeps is a version already."""
    from holdfast.cli.context import Workshop
    from holdfast.cli.views.state import entry_document
    from holdfast.states import versions as state_versions

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    made = workshop.run(lambda session: state_versions.backup(session, one))
    if invocation.as_json:
        invocation.document({"version": 1, "stack": one.name, **entry_document(made)})
        return Exit.DONE
    invocation.console.line(f" {one.name}: {made.shown} is kept")
    invocation.console.say(f"   to go back to it one day: holdfast state rollback {one.name} {made.name}")
    return Exit.DONE


def rollback(
    invocation: Invocation,
    stack: OneStack,
    version: Annotated[str, Argument(metavar="VERSION", help="As `state versions` calls it, or serial:N.")],
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
) -> Exit:
    """Bring an earlier version of a state back, under a greater serial, and show the plan that follows.

    Only the record moves: no real object is touched.
    """
    from holdfast.cli.commands.rollback import Rollback

    return Rollback(invocation, stack, version).run(yes=yes)


def push(
    invocation: Invocation,
    stack: OneStack,
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="A state; without it, what an apply could not save.")
    ] = None,
) -> Exit:
    """Bring a state into a stack's backend. Another lineage or an older serial is refused by Terraform."""
    from holdfast.cli.context import Workshop
    from holdfast.states import operations

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    now = workshop.run(
        lambda session: operations.push(session, one, file.absolute() if file is not None else None)
    )
    if invocation.as_json:
        invocation.document(
            {
                "version": 1,
                "stack": one.name,
                "lineage": now.lineage,
                "serial": now.serial,
                "resources": now.managed,
            }
        )
    else:
        invocation.console.line(
            f" {one.name}: the state is there, serial {now.serial}. Next: holdfast plan {one.name}"
        )
    return Exit.DONE


def adopt(
    invocation: Invocation,
    stack: OneStack,
    workspace: Annotated[
        str | None, Option("--workspace", metavar="NAME", help="One of terraform.tfstate.d.")
    ] = None,
    start_empty: Annotated[
        bool,
        Option("--start-empty", help="What lies there is not this stack's: begin without a state."),
    ] = False,
) -> Exit:
    """Take over a state beside a module without a backend. The original is renamed, never deleted."""
    from holdfast.cli.context import Workshop
    from holdfast.runs import audit_trail
    from holdfast.states import operations

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    store, code, who = workshop.repository.store, workshop.repository.code, workshop.repository.who

    async def begin_empty(session: Session) -> None:
        with audit_trail.act(session, one.name, what="adopt", begins="empty"):
            operations.start_empty(store, code, one)

    async def take_over(session: Session) -> Adopted:
        with audit_trail.act(session, one.name, what="adopt"):
            return operations.adopt(store, code, one, workspace=workspace, who=who)

    if start_empty:
        workshop.run(begin_empty)
        invocation.console.line(f" {one.name}: begins without a state, as you said")
        if invocation.as_json:
            invocation.document({"version": 1, "stack": one.name, "adopted": None})
        return Exit.DONE
    taken = workshop.run(take_over)
    if invocation.as_json:
        invocation.document(
            {
                "version": 1,
                "stack": one.name,
                "adopted": str(taken.source),
                "renamed": str(taken.renamed),
                "serial": taken.serial,
                "resources": taken.resources,
            }
        )
        return Exit.DONE
    invocation.console.line(
        f" {one.name}: took over {taken.source} (serial {taken.serial}, {taken.resources} resources)"
    )
    invocation.console.line(f"   the original is now {taken.renamed}")
    invocation.console.line(f"   next: holdfast plan {one.name}")
    return Exit.DONE
