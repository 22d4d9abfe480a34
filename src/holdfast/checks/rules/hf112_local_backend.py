"""HF112: a local backend where the state is shared."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import home_of, shared_because
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack

_WHERE = {"local": "lies in a file of one machine", "inmem": "is gone when Terraform ends"}


def _look(stack: CheckedStack) -> Iterator[Finding]:
    home = home_of(stack)
    where = _WHERE.get(home.type)
    why = shared_because(stack)
    if where is not None and (why is not None or home.type == "inmem"):
        because = f", and {why}" if why is not None else ""
        yield finding(home.where, f"with the {home.type} backend the state {where}{because}")


RULE = Rule(
    id="HF112",
    title="A local state where it is shared",
    why="The second machine that runs the stack has no state: it makes everything a second time, or fails on "
    "names that are taken. There is no lock between machines, and the file holds every secret in clear.",
    fix="Name a backend that locks and encrypts (`s3`, `azurerm`, `gcs` …), or none at all: Holdfast then "
    "keeps the state in its run store.",
    severity=Severity.ERROR,
    stack=_look,
    bad='terraform {\n  backend "local" {}\n}\n',
    good='terraform {\n  backend "s3" {}\n}\n',
    more="Shared is what is production, what cannot be told, and what CI owns (`targets.*.owner: ci`).",
)
