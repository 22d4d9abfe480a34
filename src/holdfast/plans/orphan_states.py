"""States that lie where a run must not pass them over: beside the code, unsaved by a killed run, damaged."""

from __future__ import annotations

from pathlib import Path

from holdfast.kernel.errors import Refused, UnknownOutcome
from holdfast.plans.backend_config import StateHome, states_beside
from holdfast.plans.context import Project
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.terraform.workdirs.workdir import hold_unsaved_states


def refuse_leftovers(root: Path, store: RunStore, stack: Stack, home: StateHome) -> None:
    """A stack whose state Holdfast keeps does not begin with an empty one while another lies about."""
    if not home.managed:
        return
    # A version that cannot be read is said here, at once: behind the door Terraform would ask for it again.
    if store.states.current(stack.name) is not None:
        return
    if store.last_seen(stack.name) is not None:
        return
    found = states_beside(root / stack.module)
    if found:
        shown = ", ".join(str(path.relative_to(root)) for path in found[:3])
        raise Refused(
            "HF-STATE-1",
            f"{stack.name}: its code names no backend, but there is a state next to it: {shown}",
            hint=f"Take it over: holdfast state adopt {stack.name} (the original is renamed, never deleted).",
        )


def strangers(root: Path, stack: Stack, home: StateHome) -> tuple[str, ...]:
    """States beside a module whose stack has one of its own: not used, and never passed over in silence."""
    found = states_beside(root / stack.module) if home.managed else ()
    return tuple(
        f"{path.relative_to(root)} is next to the code but is not the state of this stack" for path in found
    )


def keep_forgotten(project: Project, store: RunStore, stack: Stack) -> None:
    """A killed run could not keep what Terraform had failed to save: it still lies where that run worked."""
    with hold_unsaved_states(project.environment.home, project.root, stack.name) as found:
        for file in found:
            keep_unsaved(store, stack, file)


def keep_unsaved(store: RunStore, stack: Stack, file: Path) -> None:
    """Seal a state that could not be saved, and only then take the clear copy away."""
    store.keep_errored(stack.name, file.read_bytes())
    file.unlink()


def refuse_unsaved(store: RunStore, stack: Stack) -> None:
    """Nothing is planned before the state that could not be saved is."""
    if store.errored(stack.name) is not None:
        raise UnknownOutcome(
            "HF-STATE-5",
            f"{stack.name}: the last apply could not save its state; Holdfast stored it encrypted",
            hint=f"Save it first: holdfast state push {stack.name}",
        )
