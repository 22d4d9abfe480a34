from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import UNKNOWN

_KEY_FILES: Final = {"gcs": ("credentials",)}
"""Settings that are the path of a key file or its content; HF120 reports the content."""


def _judge(backend: BackendView) -> Iterator[Finding]:
    for name in (*backend.kind.identities, *_KEY_FILES.get(backend.type, ())):
        if (
            backend.in_code(name)
            and backend.value(name) is not UNKNOWN
            and not _is_content(backend.value(name))
        ):
            yield finding(backend.place_of(name), f"`{name}` of the {backend.type} backend is hard-coded")


def _is_content(found: object) -> bool:
    return isinstance(found, str) and found.lstrip().startswith("{")


RULE = Rule(
    id="HF121",
    title="Backend identity in the code",
    why="The same code runs for several targets, each with its own account and role. A hard-coded "
    "identity is right for one of them, and a run that mixes them up writes to another target's state.",
    fix="Move it to the stack's entry in holdfast.yaml (`backend: { settings: … }` or `credentials:`); "
    "Holdfast passes it to `init`.",
    severity=Severity.WARNING,
    **for_backends(_judge, literals_only=True),
)
