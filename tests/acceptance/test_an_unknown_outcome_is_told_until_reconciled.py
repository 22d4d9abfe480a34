"""An apply that is killed is told at once, with the command that goes on; reconciling ends the alert."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from channel_servers import ROUTING_KEY, PagerDuty
from lab_stacks import held, none_left, one_stack, warm_processes
from program import Program, eventually

from provider.service import Fault, LabService

KEY = base64.b64encode(bytes(range(32))).decode()
CANARY = "canary-4711-of-the-module"
BODY = f"""
variable "password" {{
  default   = "{CANARY}"
  sensitive = true
}}

resource "lab_object" "two" {{
  name = "two"
  body = var.password
}}
"""


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@pytest.fixture
def pager() -> Iterator[PagerDuty]:
    with (service := PagerDuty()).http:
        yield service


@pytest.mark.long
def test_an_unknown_outcome_is_told_until_it_is_reconciled(
    with_lab: Program, service: LabService, pager: PagerDuty, tmp_path: Path
) -> None:
    """Also if a person reconciles on their own machine; neither output nor message has a secret."""
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url}, body=BODY)
    document = json.loads((with_lab.folder / "holdfast.yaml").read_text())
    document["store"] = str(tmp_path / "store")
    channel = {"pagerduty": {"routing_key": {"secret": "env:PAGER"}, "url": pager.url}}
    document["notify"] = {"channels": {"pager": channel}, "routes": [{"channel": "pager"}]}
    with_lab.write("holdfast.yaml", json.dumps(document))
    with_lab.environment |= {"CI": "true", "PAGER": ROUTING_KEY, "HOLDFAST_KEY": KEY}
    service.misbehave(Fault(operation="create", what="hold", name="two"))
    process = with_lab.start("apply", "--yes")
    held(service, process, "create", 1)
    eventually(lambda: service.held("create", "two"), what="two is made, and nobody knows")
    (victim,) = warm_processes(with_lab)
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 6
    service.release()
    none_left(with_lab)

    (open_,) = pager.open
    (text,) = pager.items[open_].texts
    assert "a: the outcome of the last apply is unknown" in text
    run = text.partition("holdfast runs reconcile ")[2].split()[0].strip(".,`\"'")
    status = with_lab.ok("notify", "status").text
    assert "critical" in status

    (id_,) = service.objects()
    imports = ("--import", f"lab_object.two={id_}")
    done = with_lab.ok("runs", "reconcile", run, "--yes", *imports, env={"CI": None, "PAGER": None})
    assert len(pager.open) == 1, "a person's machine sends nothing"
    planned = with_lab.ok("plan")
    assert pager.open == [], "the next command in CI tells the end"
    shown = out + err + status + done.text + planned.text
    for secret in (CANARY, ROUTING_KEY, KEY):
        assert secret not in shown
    assert CANARY not in pager.raw
    assert KEY not in pager.raw
