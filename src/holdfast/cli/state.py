"""`holdfast state`: read a stack's state, bring one, take one over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from holdfast.cli.frame import Argument, Group, Invocation, Option, command
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit


def register(app: Group) -> None:
    group = Group("state", help="The state of a stack: list, pull, push, adopt.")
    command(group, "list")(list_)
    command(group, "pull")(pull)
    command(group, "push")(push)
    command(group, "adopt")(adopt)
    app.add_command(group)


def list_(invocation: Invocation, stack: OneStack) -> Exit:
    """List the addresses of what a stack's state holds."""
    from holdfast.cli.workshop import Workshop
    from holdfast.runs import state_ops

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    found = state_ops.resources_of(workshop.run(lambda session: state_ops.pull(session, one)))
    if invocation.as_json:
        invocation.document({"version": 1, "stack": one.name, "resources": found})
        return Exit.DONE
    if found is None:
        invocation.console.say(" the state is encrypted or cannot be read: what it holds was not looked at")
    for address in found or ():
        invocation.console.line(address)
    return Exit.DONE


def pull(invocation: Invocation, stack: OneStack) -> Exit:
    """Write a stack's state to standard output, in clear: it may hold secrets."""
    from holdfast.cli.workshop import Workshop
    from holdfast.runs import state_ops

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    content = workshop.run(lambda session: state_ops.pull(session, one))
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return Exit.DONE


def push(
    invocation: Invocation,
    stack: OneStack,
    file: Annotated[
        Path | None, Argument(metavar="[FILE]", help="A state; without it, what an apply could not save.")
    ] = None,
) -> Exit:
    """Bring a state into a stack's backend. Another lineage or an older serial is refused by Terraform."""
    from holdfast.cli.workshop import Workshop
    from holdfast.runs import state_ops

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    now = workshop.run(
        lambda session: state_ops.push(session, one, file.absolute() if file is not None else None)
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
    from holdfast.cli.workshop import Workshop
    from holdfast.runs import state_ops

    workshop = Workshop(invocation)
    one = workshop.repository.one(stack)
    if start_empty:
        state_ops.start_empty(workshop.repository.store, workshop.repository.code, one)
        invocation.console.line(f" {one.name}: begins without a state, as you said")
        if invocation.as_json:
            invocation.document({"version": 1, "stack": one.name, "adopted": None})
        return Exit.DONE
    taken = state_ops.adopt(
        workshop.repository.store,
        workshop.repository.code,
        one,
        workspace=workspace,
        who=workshop.repository.who,
    )
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
