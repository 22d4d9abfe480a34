"""Before a stack is destroyed: does anything that stays still need it?"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.kernel.errors import Refused
from holdfast.plans.context import Project
from holdfast.stacks.order import dependents_of
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore


def require_unneeded(project: Project, store: RunStore, stacks: Sequence[Stack]) -> None:
    """A stack that others depend on goes with them or after them. One that holds nothing needs nothing."""
    chosen = {stack.name for stack in stacks}
    for stack in stacks:
        for name in dependents_of(stack.name, project.stacks.values()):
            if name not in chosen and _holds_something(store, name):
                raise Refused(
                    "HF-DEST-1",
                    f"{stack.name}: {name} depends on it and still has resources",
                    hint=f"Destroy both: holdfast destroy {name} {stack.name}",
                )


def _holds_something(store: RunStore, name: str) -> bool:
    """As far as it was seen; a stack that was never seen has nothing that we know of."""
    seen = store.last_seen(name)
    return seen is not None and seen.resources != 0
