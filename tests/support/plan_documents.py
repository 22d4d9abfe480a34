"""Plans as values, read from documents that tests write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.terraform.plan.model import Plan, read_plan

LAB = "holdfast.dev/labs/lab"


def change(
    address: str,
    *actions: str,
    after: Mapping[str, Any] | None = None,
    unknown: Mapping[str, Any] | None = None,
    provider: str = LAB,
    **more: Any,
) -> dict[str, Any]:
    kind, name = address.split(".")
    return {
        "address": address,
        "mode": "managed",
        "type": kind,
        "name": name,
        "provider_name": provider,
        "change": {
            "actions": list(actions),
            "before": None,
            "after": after,
            "after_unknown": unknown or {},
            "before_sensitive": False,
            "after_sensitive": {},
            **({"importing": more.pop("importing")} if "importing" in more else {}),
        },
        **more,
    }


def plan(changes: Iterable[dict[str, Any]], **more: Any) -> Plan:
    document = {
        "format_version": "1.2",
        "terraform_version": "1.11.4",
        "applyable": True,
        "complete": True,
        "resource_changes": list(changes),
        **more,
    }
    return read_plan(json.dumps(document).encode())
