from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backend_types import BACKEND_TYPES, MANAGED, REMOVED
from holdfast.checks.backends.backends import (
    BackendView,
    backend_of_stack,
    for_backends,
    is_alone,
    why_shared,
)
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.checks.secrets.evidence import is_sealed
from holdfast.config.problems import did_you_mean
from holdfast.config.settings import Owner


def _check_missing(stack: CheckedStack) -> Iterator[Finding]:
    why, store = why_shared(stack), stack.checkout.config.store
    if stack.backend.type != MANAGED or why is None or "://" in store:
        return
    target = stack.stack.target
    lost = target is not None and target.owner is Owner.CI
    unclear = Severity.NOTE if stack.stack.environment_unclear else None
    in_git, is_reported = _state_in_git(stack)
    if is_reported and not lost:
        return
    where = f"so the state is in the folder {store} on one machine"
    yield finding(
        stack.stack.place,
        f"no backend is configured, {f'and its state {in_git}' if in_git else where}, but {why}",
        severity=Severity.ERROR if lost else unclear,
    )


def _state_in_git(stack: CheckedStack) -> tuple[str, bool]:
    """Where the state beside the code is, if it is committed, and whether HF201 reports it."""
    path = stack.checkout.code.tree.join(stack.stack.module, "terraform.tfstate")
    if path not in (stack.checkout.tracked or ()):
        return "", False
    sealed = is_sealed(stack.checkout.content(path) or b"")
    return f"is in Git ({path}), where nothing locks{'' if sealed else ' or encrypts'} it", not sealed


HF111 = Rule(
    id="HF111",
    title="Shared stack without a backend",
    fix="Configure a shared backend in the code or in the stack's entry (`backend:`), or use a shared "
    "run store: `store: s3://bucket/prefix`.",
    severity=Severity.WARNING,
    stack=_check_missing,
)


_WHERE = {"local": "is a file on one machine", "inmem": "is lost when Terraform exits"}


def _check_local(stack: CheckedStack) -> Iterator[Finding]:
    backend = backend_of_stack(stack)
    where = _WHERE.get(backend.type)
    why = why_shared(stack)
    if where is not None and backend.written_by is None and (why is not None or backend.type == "inmem"):
        because = f", but {why}" if why is not None else ""
        unclear = backend.type == "local" and stack.stack.environment_unclear
        target = stack.stack.target
        in_ci = backend.type == "inmem" or (target is not None and target.owner is Owner.CI)
        in_git, is_reported = _state_in_git(stack) if backend.type == "local" else ("", False)
        if is_reported and not in_ci:
            return
        alone = not in_ci and is_alone(stack.checkout)
        yield finding(
            backend.where,
            f"with the {backend.type} backend the state {in_git or where}{because}",
            severity=Severity.NOTE if unclear else Severity.WARNING if alone else None,
        )


HF112 = Rule(
    id="HF112",
    title="Local backend in a shared stack",
    fix="Use a backend that locks and encrypts (`s3`, `azurerm`, `gcs` …), or none at all: Holdfast "
    "then stores the state in its run store.",
    severity=Severity.ERROR,
    stack=_check_local,
)


def _check_known(backend: BackendView) -> Iterator[Finding]:
    if backend.type in REMOVED:
        hint = f"Move the state to another backend; the closest is `{REMOVED[backend.type]}`."
        yield finding(
            backend.block or backend.place, f"Terraform 1.3 removed the {backend.type} backend", hint=hint
        )
    elif backend.type not in BACKEND_TYPES:
        near = did_you_mean(backend.type, BACKEND_TYPES)
        yield finding(backend.block or backend.place, f"unknown backend `{backend.type}`", hint=near)


HF113 = Rule(
    id="HF113",
    title="Unknown backend type",
    fix="Use a backend that Terraform supports.",
    severity=Severity.WARNING,
    **for_backends(_check_known, literals_only=True),
)
