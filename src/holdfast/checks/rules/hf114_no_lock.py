from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, for_backends, s3_example
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding


def _judge(home: BackendView) -> Iterator[CheckResult]:
    match home.type:
        case "s3":
            yield from _s3(home)
        case "http":
            yield from _http(home)
        case "consul":
            yield from _consul(home)
        case "oss" if not home.has("tablestore_table"):
            yield finding(
                home.where,
                "the oss backend does not lock without `tablestore_table`",
                hint="Set `tablestore_table` and `tablestore_endpoint`.",
            )


def _s3(home: BackendView) -> Iterator[CheckResult]:
    native = home.flag("use_lockfile")
    if native or home.has("dynamodb_table"):
        return
    if native is None:
        yield home.unknown("use_lockfile")
        return
    yield finding(
        home.place_of("use_lockfile"),
        "the s3 backend does not lock without `use_lockfile = true`",
        hint="Set `use_lockfile = true` (Terraform and OpenTofu from 1.10).",
    )


def _http(home: BackendView) -> Iterator[CheckResult]:
    if not home.has("lock_address"):
        yield finding(
            home.where,
            "the http backend does not lock without `lock_address`",
            hint="Set `lock_address` and `unlock_address` if the server supports locking.",
        )
    elif not home.has("unlock_address"):
        yield finding(
            home.place_of("lock_address"),
            "the http backend never releases its lock without `unlock_address`",
            hint="Also set `unlock_address`.",
        )


def _consul(home: BackendView) -> Iterator[CheckResult]:
    lock = home.flag("lock", default=True)
    if lock is None:
        yield home.unknown("lock")
    elif not lock:
        yield finding(home.place_of("lock"), "`lock = false` disables state locking", hint="Remove `lock`.")


RULE = Rule(
    id="HF114",
    title="Backend without state locking",
    why="Two concurrent runs overwrite each other's state, and Terraform loses track of what the first "
    "one created.",
    fix="Enable locking in the backend.",
    severity=Severity.ERROR,
    **for_backends(_judge),
    bad=s3_example(),
    good=s3_example(use_lockfile="true"),
    more="`s3` locks with `use_lockfile` or a DynamoDB table ([HF115](HF115.md)), `http` with `lock_address` "
    "and `unlock_address`, `oss` with `tablestore_table`, `consul` unless `lock = false`. `azurerm`, "
    "`cos`, `gcs`, `kubernetes`, `oci`, `pg`, `remote` and `cloud` always lock.",
)
