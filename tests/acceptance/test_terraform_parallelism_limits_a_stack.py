"""`terraform_parallelism` reaches Terraform: an API that takes one change at a time gets one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from program import Program, eventually

from provider.service import Fault, LabService

OBJECTS = """
terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}
variable "url" {}
provider "lab" {
  url = var.url
}
resource "lab_object" "it" {
  for_each = toset(["a", "b", "c"])
  name     = each.key
}
"""


@pytest.fixture
def service(with_lab: Program) -> Iterator[LabService]:
    with LabService() as running:
        with_lab.environment["TF_VAR_url"] = running.url
        yield running


def configure(program: Program, **keys: object) -> None:
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "defaults": keys,
        "stacks": [{"name": "site", "module": "module", "environment": "dev"}],
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("module/main.tf", OBJECTS)


def test_as_many_changes_at_the_same_time_as_the_stack_allows(with_lab: Program, service: LabService) -> None:
    """Each change is slow: without the key, all of them run at the same time."""
    service.misbehave(Fault(operation="create", what="delay", seconds=0.3, before=True, count=3))
    configure(with_lab, terraform_parallelism=1)
    with_lab.ok("apply", "site", "--yes")
    calls = sorted(service.calls("create"), key=lambda call: call.started)
    assert len(calls) == 3
    assert all((before.ended or after.started) < after.started for before, after in pairwise(calls))
    configure(with_lab)
    service.misbehave(Fault(operation="delete", what="hold", count=3))
    process = with_lab.start("destroy", "site", "--yes-destroy", "site")
    eventually(lambda: len(service.calls("delete")) == 3, what="three deletes at the same time")
    service.release()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
