"""HF111: no backend, and the state of a shared stack lies on one machine."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backend_types import KEPT
from holdfast.checks.backends.backends import shared_because
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.config.valid import Owner


def _look(stack: CheckedStack) -> Iterator[Finding]:
    why, store = shared_because(stack), stack.checkout.config.store
    if stack.backend.type != KEPT or why is None or store.startswith("s3://"):
        return
    target = stack.stack.target
    lost = target is not None and target.owner is Owner.CI
    yield finding(
        stack.stack.place,
        f"there is no backend, so the state is in the folder {store} of one machine, and {why}",
        severity=Severity.ERROR if lost else None,
    )


RULE = Rule(
    id="HF111",
    title="No backend for a state that is shared",
    why="Holdfast keeps the state, locked and encrypted, but in a folder: on another machine, or on a CI "
    "runner that is thrown away, the stack looks as if nothing had ever been made.",
    fix="Name a shared backend in the code or in the entry (`backend:`), or give the run store a shared "
    "place: `store: s3://bucket/prefix`.",
    severity=Severity.WARNING,
    stack=_look,
    more="Shared is what is production, what cannot be told, and what CI owns (`targets.*.owner: ci`); for "
    "the last it is an error. With a run store in S3 nothing is found: the state is there too.",
)
