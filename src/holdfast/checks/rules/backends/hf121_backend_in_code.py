from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import UNKNOWN

_CONVENTION: Final[dict[str, Any]] = {
    "needs": "a severity in `checks.rules`",
    "configured": lambda _: False,
}
_KEY_FILES: Final = {"gcs": ("credentials",)}
"""Settings that are the path of a key file or its content; HF120 reports the content."""


def _check_identity(backend: BackendView) -> Iterator[Finding]:
    for name in (*backend.kind.identities, *_KEY_FILES.get(backend.type, ())):
        setting = backend.value(name)
        is_content = isinstance(setting, str) and setting.lstrip().startswith("{")
        if backend.in_code(name) and setting is not UNKNOWN and not is_content:
            yield finding(backend.place_of(name), f"`{name}` of the {backend.type} backend is hard-coded")


HF121 = Rule(
    id="HF121",
    title="Backend identity in the code",
    fix="Move it to the stack's entry in holdfast.yaml (`backend: { settings: … }` or `credentials:`); "
    "Holdfast passes it to `init`.",
    severity=Severity.NOTE,
    **_CONVENTION,
    **for_backends(_check_identity, literals_only=True),
)


def _check_location(backend: BackendView) -> Iterator[Finding]:
    if backend.type == "local" or backend.block is None:
        return
    fixed = [
        name for name in backend.kind.places if backend.in_code(name) and backend.value(name) is not UNKNOWN
    ]
    if fixed:
        names = ", ".join(f"`{name}`" for name in fixed)
        yield finding(backend.block, f"the location of the state is hard-coded: {names}")


HF122 = Rule(
    id="HF122",
    title="State location in the code",
    fix="Copy the settings to the stack's entry in holdfast.yaml (`backend: { settings: … }`), check "
    'that the plan has no changes, then empty the block: `backend "s3" {}`.',
    severity=Severity.NOTE,
    **_CONVENTION,
    **for_backends(_check_location, literals_only=True),
)
