"""What Terraform does to a resource and why, in words.

`REASONS` holds every `action_reason` that Terraform (to 1.17) and OpenTofu (to 1.13) can write. The guard
refuses a plan with a reason that is missing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

_NAMED_PATHS = 3


class ChangeKind(StrEnum):
    """What happens to one resource. A replacement keeps its order: its dependents need it."""

    NO_OP = "no-op"
    CREATE = "create"
    READ = "read"
    UPDATE = "update"
    DELETE = "delete"
    DELETE_THEN_CREATE = "delete, create"
    CREATE_THEN_DELETE = "create, delete"
    FORGET = "forget"
    CREATE_THEN_FORGET = "create, forget"
    FORGET_THEN_CREATE = "forget, create"
    UNKNOWN = "unknown"


_KINDS: dict[tuple[str, ...], ChangeKind] = {
    tuple(kind.value.split(", ")): kind for kind in ChangeKind if kind is not ChangeKind.UNKNOWN
}


def change_kind(actions: tuple[str, ...]) -> ChangeKind:
    return _KINDS.get(actions, ChangeKind.UNKNOWN)


_FORGOTTEN = "created, while the old resource is removed from the state and not destroyed,"
VERBS: Mapping[ChangeKind, str] = {
    ChangeKind.NO_OP: "unchanged",
    ChangeKind.CREATE: "created",
    ChangeKind.READ: "read during apply",
    ChangeKind.UPDATE: "updated in place",
    ChangeKind.DELETE: "deleted",
    ChangeKind.DELETE_THEN_CREATE: "replaced",
    ChangeKind.CREATE_THEN_DELETE: "replaced (the new resource is created first)",
    ChangeKind.FORGET: "removed from the state (the resource itself is not destroyed)",
    ChangeKind.CREATE_THEN_FORGET: _FORGOTTEN,
    ChangeKind.FORGET_THEN_CREATE: _FORGOTTEN,
}
REASONS: Mapping[str, str] = {
    "replace_because_tainted": "it is tainted",
    "replace_because_cannot_update": "{paths}",
    "replace_by_request": "the replacement was requested",
    "replace_by_triggers": "something in its `replace_triggered_by` changes",
    "delete_because_no_resource_config": "it is no longer in the configuration",
    "delete_because_no_module": "its module is no longer in the configuration",
    "delete_because_wrong_repetition": "its use of `count` or `for_each` changed",
    "delete_because_count_index": "index {key} is outside the new `count`",
    "delete_because_each_key": "key {key} is no longer in `for_each`",
    "delete_because_no_move_target": "it was moved to an address that is not in the configuration",
    "delete_because_enabled_false": "it is disabled with `enabled = false`",
    "read_because_config_unknown": "its arguments are known only during apply",
    "read_because_dependency_pending": "a dependency changes first",
    "read_because_check_nested": "a check reads it after apply",
}


def because(reason: str, paths: tuple[str, ...], key: str) -> str:
    """The clause after "because"; `paths` are attributes that cannot be updated in place, `key` is `[0]`."""
    clause = REASONS.get(reason)
    if clause is None:
        return f"of a reason that this version of Holdfast does not support (`{reason}`)"
    return clause.replace("{paths}", _changing(paths)).replace("{key}", key)


def _changing(paths: tuple[str, ...]) -> str:
    if not paths:
        return "it cannot be updated in place"
    named = [f"`{path}`" for path in paths[:_NAMED_PATHS]]
    if len(paths) > _NAMED_PATHS:
        named.append(f"{len(paths) - _NAMED_PATHS} more")
    if len(named) == 1:
        return f"{named[0]} changes"
    return f"{', '.join(named[:-1])} and {named[-1]} change"
