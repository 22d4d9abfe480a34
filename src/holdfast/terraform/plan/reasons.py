"""Why Terraform does what it plans, in words a person reads once.

`REASONS` holds every `action_reason` that Terraform (to 1.17) and OpenTofu (to 1.13) can write. One that is
missing here is not understood, and what is not understood is refused by the guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NAMED_PATHS = 3

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "replace_because_tainted": "an earlier run left it marked as damaged (tainted)",
        "replace_because_cannot_update": "{paths}",
        "replace_by_request": "the replacement was asked for",
        "replace_by_triggers": "something in its `replace_triggered_by` changes",
        "delete_because_no_resource_config": "it is no longer in the configuration",
        "delete_because_no_module": "its module is no longer in the configuration",
        "delete_because_wrong_repetition": "its use of `count` or `for_each` was changed",
        "delete_because_count_index": "its number is beyond `count`",
        "delete_because_each_key": "its key is no longer in `for_each`",
        "delete_because_no_move_target": "it was moved to a place that is not in the configuration",
        "delete_because_enabled_false": "it was switched off with `enabled = false`",
        "read_because_config_unknown": "what it asks for is known only during apply",
        "read_because_dependency_pending": "something that it depends on changes first",
        "read_because_check_nested": "a check looks at it after apply",
    }
)


def because(reason: str, paths: tuple[str, ...]) -> str:
    """The clause after "because"; `paths` are the attributes that cannot be changed in place."""
    clause = REASONS.get(reason)
    if clause is None:
        return f"of a reason that this version of Holdfast does not know (`{reason}`)"
    return clause.replace("{paths}", _changing(paths))


def _changing(paths: tuple[str, ...]) -> str:
    if not paths:
        return "it cannot be changed in place"
    named = [f"`{path}`" for path in paths[:_NAMED_PATHS]]
    if len(paths) > _NAMED_PATHS:
        named.append(f"{len(paths) - _NAMED_PATHS} more")
    if len(named) == 1:
        return f"{named[0]} changes"
    return f"{', '.join(named[:-1])} and {named[-1]} change"
