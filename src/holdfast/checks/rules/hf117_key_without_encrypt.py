from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding


def _judge(backend: BackendView) -> Iterator[CheckResult]:
    if backend.type != "s3":
        return
    for name in ("kms_key_id", "sse_customer_key"):
        if not backend.has(name):
            continue
        encrypt = backend.flag("encrypt")
        if encrypt is None:
            yield backend.unknown("encrypt")
        elif not encrypt:
            yield finding(backend.place_of(name), f"`{name}` has no effect without `encrypt = true`")


RULE = Rule(
    id="HF117",
    title="Encryption key that is not used",
    why="The s3 backend ignores the key unless `encrypt` is true. The state is then stored with the "
    "bucket's default while everyone assumes that the key protects it.",
    fix="Set `encrypt = true` next to the key; the next write encrypts the state with it.",
    severity=Severity.ERROR,
    **for_backends(_judge),
)
