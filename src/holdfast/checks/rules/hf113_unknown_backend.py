from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backend_types import BACKEND_TYPES, REMOVED
from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.config.problems import did_you_mean


def _judge(backend: BackendView) -> Iterator[Finding]:
    if backend.type in REMOVED:
        hint = f"Move the state to another backend; the closest is `{REMOVED[backend.type]}`."
        yield finding(
            backend.block or backend.place, f"Terraform 1.3 removed the {backend.type} backend", hint=hint
        )
    elif backend.type not in BACKEND_TYPES:
        near = did_you_mean(backend.type, BACKEND_TYPES)
        yield finding(backend.block or backend.place, f"unknown backend `{backend.type}`", hint=near)


RULE = Rule(
    id="HF113",
    title="Unknown backend type",
    why="`init` fails. If the backend was removed from Terraform, the state is still in the old place "
    "and has to be moved.",
    fix="Use a backend that Terraform supports.",
    severity=Severity.ERROR,
    **for_backends(_judge, literals_only=True),
)
