"""Embedded OpenTofu as a user meets it, from the first plan to destroy (`make test-interop`)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines import EngineUnderTest
from lab_stacks import held, in_state, lab_module, left_behind, none_left
from program import Program

from provider.service import Fault, LabService

pytestmark = pytest.mark.parametrize("any_engine", ["embedded-tofu"], indirect=True)

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] }, prod: { match: [prod], production: true } }
    stacks:
      - { name: shop, module: shop, environment: prod, env: { LAB_URL: "%s" } }
      - name: site
        module: site
        environment: dev
        engine: { use: terraform }
        inputs: { id: { output: shop.id } }
    engine: { use: tofu }
    """
OBJECT = 'resource "lab_object" "{name}" {{\n  name = "{name}"\n  body = "{body}"\n}}\n'
OUTPUT = 'output "id" {\n  value = lab_object.one.id\n}\n'
SITE = 'variable "id" {}\nresource "terraform_data" "it" {\n  input = var.id\n}\n'


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@pytest.fixture
def tofu(with_lab: Program, any_engine: EngineUnderTest, service: LabService) -> Program:
    """A stack in production on OpenTofu, and one in development on Terraform that reads its output."""
    any_engine.install(with_lab)
    with_lab.write("holdfast.yaml", CONFIG % service.url)
    with_lab.write("site/main.tf", SITE)
    write_shop(with_lab, one="hello", two="hello")
    return with_lab


def write_shop(program: Program, **objects: str) -> None:
    code = "".join(OBJECT.format(name=name, body=body) for name, body in objects.items())
    program.write("shop/main.tf", lab_module(code + OUTPUT))


def test_two_products_in_one_change_from_the_first_plan_to_destroy(
    tofu: Program, service: LabService, tmp_path: Path
) -> None:
    """Managed states, a bundle, drift, a deletion that the guard refuses, and destroy."""
    first = tofu.results("apply", "--yes")
    engines = {name: (one["engine"]["product"], one["engine"]["kind"]) for name, one in first.items()}
    assert engines == {"shop": ("tofu", "embedded"), "site": ("terraform", "embedded")}
    assert in_state(tofu, "shop") == {"one", "two"}
    shown = tofu.ok("doctor", "--json").out
    assert {"MPL-2.0", "BUSL-1.1"} <= {one["licence"] for one in json.loads(shown)["engines"]}

    (drifted,) = [one for one in service.objects().items() if one[1]["name"] == "two"]
    service.put(drifted[0], {**drifted[1], "body": "changed by hand"})
    planned = tofu.results("plan")
    assert {name: one["status"] for name, one in planned.items()} == {"shop": "planned", "site": "unchanged"}
    (resource,) = planned["shop"]["resources"]
    assert (resource["address"], resource["actions"], resource["drift"]) == (
        "lab_object.two",
        ["update"],
        True,
    )

    write_shop(tofu, one="hello", two="goodbye")
    bundle = str(tmp_path / "bundle")
    tofu.ok("plan", "shop", "--out", bundle)
    assert tofu.results("apply", "--plan", bundle)["shop"]["status"] == "applied"
    assert service.objects()[drifted[0]]["body"] == "goodbye"

    write_shop(tofu, one="hello")
    refused = tofu.results("apply", "shop", "--yes", code=3)["shop"]
    assert [one["code"] for one in refused["guard"]["reasons"]] == ["HF-GUARD-1"]
    assert len(service.objects()) == 2

    assert tofu.results("destroy", "site", "--yes-destroy", "site")["site"]["status"] == "applied"
    everything = str(tmp_path / "everything")
    digest = tofu.results("plan", "shop", "--destroy", "--out", everything, code=3)["shop"]["digest"]
    reason = ("--override", digest, "--reason", "the shop is closed")
    assert tofu.results("apply", "--plan", everything, *reason)["shop"]["status"] == "applied"
    assert service.objects() == {}
    none_left(tofu)


def test_a_change_that_is_killed_is_recovered(tofu: Program, service: LabService) -> None:
    """SIGKILL of everything while an object is made: unknown, then imported, and nothing is made twice."""
    service.misbehave(Fault(operation="create", what="hold", name="two", before=False))
    process = tofu.start("apply", "shop", "--yes", "--json")
    held(service, process, "create", 2)
    for pid in left_behind(tofu):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=30)
    service.release()
    none_left(tofu)
    unknown = tofu.results("plan", "shop", code=6)["shop"]
    assert unknown["status"] == "unknown"
    made = {values["name"]: key for key, values in service.objects().items()}
    run = unknown["error"]["hint"].partition("reconcile ")[2].split()[0]
    tofu.ok("runs", "reconcile", run, "--yes", "--import", f"lab_object.two={made['two']}")
    assert tofu.results("apply", "--yes")["shop"]["status"] == "unchanged"
    assert {name: len(ids) for name, ids in service.made().items()} == {"one": 1, "two": 1}
    assert in_state(tofu, "shop") == {"one", "two"}
