from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, for_backends
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, finding


def _check_lock(backend: BackendView) -> Iterator[CheckResult]:
    match backend.type:
        case "s3":
            yield from _s3(backend)
        case "http":
            yield from _http(backend)
        case "consul":
            yield from _consul(backend)
        case "oss" if not backend.has("tablestore_table"):
            yield finding(
                backend.where,
                "the oss backend does not lock without `tablestore_table`",
                hint="Set `tablestore_table` and `tablestore_endpoint`.",
            )


def _s3(backend: BackendView) -> Iterator[CheckResult]:
    native = backend.flag("use_lockfile")
    if native or backend.has("dynamodb_table"):
        return
    if native is None:
        yield backend.unknown("use_lockfile")
        return
    if not backend.lockfile:
        yield finding(
            backend.where,
            "the s3 backend does not lock without `dynamodb_table`",
            hint="Set `dynamodb_table` to a table with the key `LockID`; Terraform and OpenTofu from 1.10 "
            "need only `use_lockfile = true`.",
        )
        return
    yield finding(
        backend.place_of("use_lockfile"),
        "the s3 backend does not lock without `use_lockfile = true`",
        hint="Set `use_lockfile = true` (Terraform and OpenTofu from 1.10).",
    )


def _http(backend: BackendView) -> Iterator[CheckResult]:
    if not backend.has("lock_address"):
        yield finding(
            backend.where,
            "the http backend does not lock without `lock_address`",
            hint="Set `lock_address` and `unlock_address` if the server supports locking.",
        )
    elif not backend.has("unlock_address"):
        yield finding(
            backend.place_of("lock_address"),
            "the http backend never releases its lock without `unlock_address`",
            hint="Also set `unlock_address`.",
        )


def _consul(backend: BackendView) -> Iterator[CheckResult]:
    lock = backend.flag("lock", default=True)
    if lock is None:
        yield backend.unknown("lock")
    elif not lock:
        yield finding(
            backend.place_of("lock"), "`lock = false` disables state locking", hint="Remove `lock`."
        )


HF114 = Rule(
    id="HF114",
    title="Backend without state locking",
    fix="Enable locking in the backend.",
    severity=Severity.ERROR,
    **for_backends(_check_lock),
)


_BOTH = "Once everyone uses both, remove `dynamodb_table`; delete the table when no stack uses it."
_FIRST = (
    "Also set `use_lockfile = true`, so that old and new clients see each other's locks; allow "
    "`s3:PutObject`, `s3:GetObject` and `s3:DeleteObject` on `<key>.tflock`; then remove `dynamodb_table`."
)


def _check_dynamodb(backend: BackendView) -> Iterator[Finding]:
    if backend.type != "s3" or backend.tofu or not backend.lockfile:
        return
    for name in ("dynamodb_table", "dynamodb_endpoint"):
        if backend.has(name):
            yield finding(
                backend.place_of(name),
                f"`{name}` is deprecated since Terraform 1.11",
                hint=_BOTH if backend.flag("use_lockfile") else _FIRST,
            )


HF115 = Rule(
    id="HF115",
    title="State lock in DynamoDB",
    fix=_FIRST,
    severity=Severity.NOTE,
    **for_backends(_check_dynamodb, literals_only=True),
)
