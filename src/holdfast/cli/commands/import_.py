"""`holdfast import`: put an existing resource under the management of a stack."""

from __future__ import annotations

from typing import Annotated

from holdfast.cli.command import Argument, Invocation
from holdfast.cli.parameters import OneStack, Reason, Wait, Yes, wait_from
from holdfast.kernel.errors import Exit


def import_(
    invocation: Invocation,
    name: OneStack,
    address: Annotated[str, Argument(metavar="ADDR", help="Its address; the code must declare it.")],
    id_: Annotated[str, Argument(metavar="ID", help="Its import id, as the provider documents it.")],
    yes: Yes = False,
    reason: Reason = None,
    wait: Wait = None,
) -> Exit:
    """Import an existing resource into a stack's state.

    Planned, decided by the guard and confirmed like a change. Applied only if the plan imports this resource
    and changes nothing else.
    """
    from holdfast.cli.changes.change import Change
    from holdfast.cli.confirmation import require_terminal
    from holdfast.states.edits import require_address

    require_address(address)
    if not yes:
        require_terminal()
    change = Change(invocation, [name], wait=wait_from(wait, ci=invocation.environment.ci))
    return change.import_resource(change.repository.stack(name), address, id_, yes=yes, reason=reason)
