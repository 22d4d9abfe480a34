"""Plans, policies and situations for the guard, as values that tests write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from holdfast.guard.decision import Allow, Decision, Deny, NeedApproval
from holdfast.guard.plan_context import PlanContext
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.model import Plan, read_plan

RANK: dict[type[Decision], int] = {Allow: 0, NeedApproval: 1, Deny: 2}
NOON = datetime(2026, 9, 2, 12, 0, tzinfo=UTC)
"""A Wednesday."""

ALL_LOSING: tuple[tuple[str, ...], ...] = (
    ("delete",),
    ("delete", "create"),
    ("create", "delete"),
    ("forget",),
    ("create", "forget"),
    ("forget", "create"),
)


def resource(address: str, *actions: str, **more: Any) -> dict[str, Any]:
    """`before`, `type` and `mode` are parts of it; what else is given stands beside them."""
    plain = without_keys(address).split(".")
    found = {
        "address": address,
        "mode": more.pop("mode", "managed"),
        "type": more.pop("type", plain[-2] if len(plain) > 1 else "x"),
        "name": plain[-1],
        "provider_name": "registry.terraform.io/hashicorp/lab",
        "change": {
            "actions": list(actions),
            "before": more.pop("before", {"id": "1"}),
            "after": None,
            **({"importing": more.pop("importing")} if "importing" in more else {}),
            **({"replace_paths": more.pop("replace_paths")} if "replace_paths" in more else {}),
        },
    }
    return found | more


def plan(*resources: dict[str, Any], prior: int | None = None, **more: Any) -> Plan:
    """With `prior` objects in the state before; without it, those that the plan does not create."""
    number = prior if prior is not None else sum(one["change"]["actions"] != ["create"] for one in resources)
    document = {
        "format_version": "1.2",
        "terraform_version": "1.15.5",
        "resource_changes": list(resources),
        "prior_state": {"values": {"root_module": {"resources": [{"mode": "managed"}] * number}}},
        **more,
    }
    return read_plan(json.dumps(document).encode())


def situation(*, production: bool = True, **more: Any) -> PlanContext:
    given: dict[str, Any] = {
        "stack": "prod/db" if production else "dev/db",
        "environment": "prod" if production else "dev",
        "now": NOON,
    }
    return PlanContext(production=production, **(given | more))


def codes(decision: Decision) -> list[str]:
    return [one.code for one in decision.reasons]


def with_code(decision: Decision, code: str) -> list[str | None]:
    """The addresses of the reasons with this code."""
    return [one.address for one in decision.reasons if one.code == code]


def provisioned(*addresses: str) -> dict[str, Any]:
    """A configuration in which these resources of the root module have provisioners."""
    return _module({"address": one, "provisioners": [{"type": "local-exec"}]} for one in addresses)


def _module(resources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"root_module": {"resources": list(resources)}}
