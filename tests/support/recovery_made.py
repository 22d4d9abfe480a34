"""Journals, states and intents as tests write them: small, and as the engine would have written them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.runs.intent import PlanIntent, PlannedChange

LAB = "holdfast.dev/labs/lab"
LINEAGE = "8c1f"
SERIAL = 7


def line(
    kind: str, address: str, action: str, *, id_: str | None = None, key: str = "id", at: str = ""
) -> bytes:
    hook: dict[str, Any] = {"resource": {"addr": address}, "action": action}
    if id_ is not None:
        hook |= {"id_key": key, "id_value": id_}
    return (
        json.dumps({"type": kind, "@message": "…", "@timestamp": at or None, "hook": hook}).encode() + b"\n"
    )


def start(address: str, action: str, id_: str | None = None, at: str = "") -> bytes:
    return line("apply_start", address, action, id_=id_, at=at)


def complete(address: str, action: str, id_: str | None = None, *, key: str = "id", at: str = "") -> bytes:
    return line("apply_complete", address, action, id_=id_, key=key, at=at)


def errored(address: str, action: str, at: str = "") -> bytes:
    return line("apply_errored", address, action, at=at)


def created(address: str, id_: str | None, at: str = "") -> tuple[bytes, bytes]:
    return start(address, "create"), complete(address, "create", id_, at=at)


def deleted(address: str, id_: str | None) -> tuple[bytes, bytes]:
    return start(address, "delete", id_), complete(address, "delete")


def provisioning(address: str) -> bytes:
    return json.dumps({"type": "provision_start", "hook": {"resource": {"addr": address}}}).encode()


def diagnosed(address: str, summary: str, detail: str = "") -> bytes:
    said = {"severity": "error", "summary": summary, "detail": detail, "address": address}
    return json.dumps({"type": "diagnostic", "@message": summary, "diagnostic": said}).encode()


def body(
    id_: str | None, *, deposed: str | None = None, key: Any = None, **attributes: Any
) -> dict[str, Any]:
    tainted = attributes.pop("tainted", False)
    made: dict[str, Any] = {} if key is None else {"index_key": key}
    made |= {"status": "tainted"} if tainted else {}
    made |= {"deposed": deposed} if deposed is not None else {}
    named = {} if id_ is None else {"id": id_}
    return {**made, "schema_version": 0, "attributes": {**named, **attributes}, "private": "bnVsbA=="}


def state(
    held: Mapping[str, Iterable[dict[str, Any]]], *, serial: int = SERIAL, lineage: str = LINEAGE, **more: Any
) -> bytes:
    """A state file; the keys are `type.name`, or `module.m.type.name`."""
    resources = []
    for address, instances in held.items():
        module, _, rest = address.rpartition(".lab")
        type_, name = f"lab{rest}".split(".") if module else address.split(".")
        resources.append(
            {
                **({"module": module} if module else {}),
                "mode": "managed",
                "type": type_,
                "name": name,
                "provider": f'provider["{LAB}"]',
                "instances": list(instances),
            }
        )
    document = {
        "version": 4,
        "terraform_version": "1.15.5",
        "serial": serial,
        "lineage": lineage,
        "outputs": {},
        "resources": resources,
        "check_results": None,
        **more,
    }
    return json.dumps(document, indent=2).encode()


def planned(address: str, *actions: str, before_id: str | None = None, **more: Any) -> PlannedChange:
    return PlannedChange(
        address=address,
        actions=actions,
        mode=more.pop("mode", "managed"),
        type=more.pop("type", "lab_object"),
        provider=more.pop("provider", LAB),
        before_id=before_id,
        **more,
    )


def intent(*changes: PlannedChange, serial: int = SERIAL, lineage: str = LINEAGE) -> PlanIntent:
    return PlanIntent(
        digest="d1",
        lineage=lineage,
        serial=serial,
        place="local:x",
        engine={"kind": "embedded", "product": "terraform", "version": "1.15.5"},
        work="/w/1",
        backup="b-1",
        changes=changes,
    )
