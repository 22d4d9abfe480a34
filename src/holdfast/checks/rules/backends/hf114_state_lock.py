from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.backends.backends import BackendView, backend_of_stack, for_backends, is_alone
from holdfast.checks.code.pins import is_elsewhere
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack, value
from holdfast.hcl.eval.code import is_code, is_downloaded
from holdfast.hcl.nodes import OLD_SYNTAX
from holdfast.kernel.patterns import pattern

_FILE = ("use_lockfile = true", "Set `use_lockfile = true` (Terraform and OpenTofu from 1.10).")
_TABLE = ("dynamodb_table", "Set `dynamodb_table` to a table with the key `LockID`, or upgrade to 1.10.")

_ABOUT_LOCKS = pattern(r"(?i)(?:#|//|/\*).*(?:\block(?:s|ing|ed)?\b|dynamodb_table|use_lockfile)")


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
    if (locks := _locks(backend)) is None:
        yield backend.unknown("use_lockfile")
    elif not locks:
        unlocked = _unlocked_everywhere(backend.stack) if backend.stack is not None else None
        first = unlocked or backend
        setting, hint = _FILE if first.lockfile else _TABLE
        more = "; no stack of this repository locks its state" if unlocked is not None else ""
        message = f"the s3 backend does not lock without `{setting}`{more}"
        where, severity = first.place_of("use_lockfile"), _severity(backend)
        yield finding(where, message, hint=hint, severity=severity, group=setting)


def _locks(backend: BackendView) -> bool | None:
    return True if backend.has("dynamodb_table") else backend.flag("use_lockfile")


def _never_locks(backend: BackendView) -> bool:
    return backend.has("key") and _locks(backend) is False


def _unlocked_everywhere(stack: CheckedStack) -> BackendView | None:
    """The first of several backends if none locks: this is one decision about the repository."""
    checkout = stack.checkout

    def find() -> BackendView | None:
        stacks = (CheckedStack(checkout=checkout, stack=stack_) for stack_ in checkout.all_stacks)
        views = [backend for backend in map(backend_of_stack, stacks) if backend.type == "s3"]
        views.sort(key=lambda view: view.stack is None or not view.stack.stack.production)
        return views[0] if len(views) > 1 and all(map(_never_locks, views)) else None

    return checkout.code.once(("unlocked backends", id(checkout)), find)


def _severity(backend: BackendView) -> Severity | None:
    """An error where two runs may really meet: S3-compatible stores often cannot lock at all.

    What Terraform cannot load has no runs.
    """
    if backend.is_other_store or (backend.checkout is not None and is_alone(backend.checkout)):
        return Severity.NOTE
    stack = backend.stack
    live = stack is None or (stack.stack.production and _loads(stack))
    return None if live and not _is_decided(backend) else Severity.WARNING


def _is_decided(backend: BackendView) -> bool:
    """Whether a comment in the block is about locking: someone thought of it."""
    block, checkout = backend.block, backend.checkout
    if block is None or checkout is None:
        return False
    inside = checkout.lines(block.place.file)[block.place.line : block.end_line]
    return any(map(_ABOUT_LOCKS.search, inside))


def _loads(stack: CheckedStack) -> bool:
    """Whether its code can be read, and the local modules that it calls are there."""
    module, tree = stack.checkout.module(stack.stack.module), stack.checkout.code.tree
    problems = (problem for file in module.files for problem in file.problems)
    sources = (value(block.body, "source") for block in module.blocks("module"))
    local = (source for source in sources if isinstance(source, str) and not is_elsewhere(source))
    folders = {tree.inside(module.folder, source) for source in local}
    there = (
        folder is None or is_downloaded(folder) or any(map(is_code, tree.names(folder))) for folder in folders
    )
    is_whole = ".gitmodules" in stack.checkout.listed or all(there)  # A submodule may not be checked out.
    return is_whole and all(problem.code == OLD_SYNTAX for problem in problems)


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
