from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import backend_of_stack, why_shared
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack

_WHERE = {"local": "is a file on one machine", "inmem": "is lost when Terraform exits"}


def _check(stack: CheckedStack) -> Iterator[Finding]:
    backend = backend_of_stack(stack)
    where = _WHERE.get(backend.type)
    why = why_shared(stack)
    if where is not None and (why is not None or backend.type == "inmem"):
        because = f", but {why}" if why is not None else ""
        yield finding(backend.where, f"with the {backend.type} backend the state {where}{because}")


RULE = Rule(
    id="HF112",
    title="Local backend in a shared stack",
    why="A second machine that runs the stack has no state: it creates everything again, or fails on names "
    "that are taken. Machines do not lock against each other, and the file contains secrets in plain text.",
    fix="Use a backend that locks and encrypts (`s3`, `azurerm`, `gcs` …), or none at all: Holdfast "
    "then stores the state in its run store.",
    severity=Severity.ERROR,
    stack=_check,
)
