from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backend_types import MANAGED
from holdfast.checks.backends.backends import why_shared
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.config.settings import Owner


def _check(stack: CheckedStack) -> Iterator[Finding]:
    why, store = why_shared(stack), stack.checkout.config.store
    if stack.backend.type != MANAGED or why is None or store.startswith("s3://"):
        return
    target = stack.stack.target
    lost = target is not None and target.owner is Owner.CI
    yield finding(
        stack.stack.place,
        f"no backend is configured, so the state is in the folder {store} on one machine, but {why}",
        severity=Severity.ERROR if lost else None,
    )


RULE = Rule(
    id="HF111",
    title="Shared stack without a backend",
    why="Holdfast stores the state locked and encrypted, but in a local folder. On another machine, or on a "
    "CI runner that is discarded after the job, the stack looks as if nothing had ever been created.",
    fix="Configure a shared backend in the code or in the stack's entry (`backend:`), or use a shared "
    "run store: `store: s3://bucket/prefix`.",
    severity=Severity.WARNING,
    stack=_check,
)
