from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import Finding, Rule, Severity, finding

_BOTH = "Once everyone uses both, remove `dynamodb_table`; delete the table when no stack uses it."
_FIRST = (
    "Also set `use_lockfile = true`, so that old and new clients see each other's locks; allow "
    "`s3:PutObject`, `s3:GetObject` and `s3:DeleteObject` on `<key>.tflock`; then remove `dynamodb_table`."
)


def _judge(backend: BackendView) -> Iterator[Finding]:
    if backend.type != "s3" or backend.tofu:
        return
    for name in ("dynamodb_table", "dynamodb_endpoint"):
        if backend.has(name):
            yield finding(
                backend.place_of(name),
                f"`{name}` is deprecated since Terraform 1.11",
                hint=_BOTH if backend.flag("use_lockfile") else _FIRST,
            )


RULE = Rule(
    id="HF115",
    title="State lock in DynamoDB",
    why="Since 1.10 Terraform can lock in the bucket itself, and the DynamoDB lock is deprecated. "
    "Without it there is no table to pay for, grant access to and name.",
    fix=_FIRST,
    severity=Severity.NOTE,
    **for_backends(_judge, literals_only=True),
)
