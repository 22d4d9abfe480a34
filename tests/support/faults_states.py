"""The objects of a scenario as code and as a state, before the change and with it. Pure."""

from __future__ import annotations

import json
from typing import Any

from faults_scenarios import Operation

CANARY = "canary-that-must-not-be-seen"
_HEAD = """
variable "canary" {
  sensitive = true
}
"""
_Z = """
resource "lab_object" "z" {
  name   = "z"
  secret = var.canary
}
"""
_X_AND_Y = """
resource "lab_object" "x" {
  name    = "x"
  body    = "%(body)s"
  replace = "%(replace)s"
  secret  = var.canary
  lifecycle {
    create_before_destroy = %(swap)s
  }
}
resource "lab_object" "y" {
  name = "y"
  body = "%(body)s ${lab_object.x.id}"
}
"""


def objects(operation: Operation, *, changed: bool) -> str:
    """The code. z stands beside what changes; where there was nothing before, z is not there either."""
    alone = "" if operation is Operation.FIRST else _Z
    made = operation in (Operation.FIRST, Operation.CREATE)
    if (made and not changed) or (operation is Operation.DELETE and changed):
        return _HEAD + alone
    both = _X_AND_Y % {
        "body": "2" if changed and operation is Operation.UPDATE else "1",
        "replace": "2" if changed and operation in (Operation.REPLACE, Operation.SWAP) else "1",
        "swap": "true" if operation is Operation.SWAP else "false",
    }
    return _HEAD + alone + both


def there_before(name: str) -> dict[str, Any]:
    """One object as the lab keeps it, and the state too."""
    return {
        "id": f"obj-{name}-of-before",
        "name": name,
        "body": {"x": "1", "y": "1 obj-x-of-before", "z": None}[name],
        "kind": None,
        "replace": "1" if name == "x" else None,
        "secret": None if name == "y" else CANARY,
    }


def state_of(objects: list[dict[str, Any]], *, swap: bool) -> bytes:
    """A state as Terraform writes it."""
    document = {
        "version": 4,
        "terraform_version": "1.9.0",
        "serial": 3,
        "lineage": "4f7d0c1e-5b7a-4c7e-9d55-0d9a1b6f2e11",
        "outputs": {},
        "resources": [_resource(one, swap=swap and one["name"] == "x") for one in objects],
        "check_results": None,
    }
    return json.dumps(document).encode()


def _resource(values: dict[str, Any], *, swap: bool) -> dict[str, Any]:
    instance = {
        "schema_version": 1,
        "attributes": values,
        "sensitive_attributes": [[{"type": "get_attr", "value": "secret"}]],
        **({"dependencies": ["lab_object.x"]} if values["name"] == "y" else {}),
        **({"create_before_destroy": True} if swap else {}),
    }
    return {
        "mode": "managed",
        "type": "lab_object",
        "name": values["name"],
        "provider": 'provider["holdfast.dev/labs/lab"]',
        "instances": [instance],
    }
