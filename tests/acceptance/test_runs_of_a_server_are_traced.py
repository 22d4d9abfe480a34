"""OpenTelemetry: one trace per change, also if several workers run it, and nothing secret in it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from otlp_made import Collector, attributes, made_collector
from program import Program, eventually
from served import serving
from server_runs_made import ServerRuns, server_runs, worker

from holdfast.identity.roles import Role
from holdfast.store.approvals import ApprovalKind

CONFIGURATION = """\
version: 1
guard:
  environments:
    prod: {approvals: 1}
stacks:
  - {name: prod, module: prod, environment: prod, variables: {password: hunter2-and-more}}
"""
CODE = """\
variable "password" {}
resource "terraform_data" "x" {
  input = var.password
}
"""
PHASES = {"queued", "init", "plan", "checks", "guard", "waiting", "apply", "change"}


def names(collector: Collector) -> set[str]:
    return {span.name for span in collector.spans}


def wait_for(runs: ServerRuns, change: str, phase: str) -> None:
    runs.wait(change, lambda now: now.phase.value == phase)


def test_a_change_is_one_trace_on_all_its_workers(holdfast: Program, tmp_path: Path) -> None:
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write("prod/main.tf", CODE)
    with made_collector() as collector, serving(holdfast, data), server_runs(holdfast, data) as runs:
        holdfast.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
        holdfast.environment["OTEL_BSP_SCHEDULE_DELAY"] = "100"
        change = runs.submit("apply", "prod")
        with worker(holdfast, data):
            wait_for(runs, change, "waiting")
            eventually(lambda: {"plan", "guard"} <= names(collector), what="spans of the plan")
        assert not {"change", "apply"} & names(collector)
        run = runs.run_of(change, "prod")
        with worker(holdfast, data):
            runs.decide(run, ApprovalKind.APPROVAL, runs.person("bob", Role.APPROVER))
            wait_for(runs, change, "done")
            eventually(lambda: names(collector) >= PHASES, what="all spans")
        assert runs.run_of(change, "prod").status == "applied"
        spans = collector.spans
        (root,) = (span for span in spans if span.name == "change")
        assert not root.parent_span_id
        assert {span.trace_id for span in spans} == {root.trace_id}
        assert {span.parent_span_id for span in spans if span.name != "change"} == {root.span_id}
        (applied,) = (span for span in spans if span.name == "apply")
        assert attributes(applied) == {
            "holdfast.change": change,
            "holdfast.stack": "prod",
            "holdfast.run": run.id,
            "holdfast.status": "applied",
        }
        (waited,) = (span for span in spans if span.name == "waiting")
        assert root.start_time_unix_nano < waited.start_time_unix_nano < waited.end_time_unix_nano
        assert waited.end_time_unix_nano <= applied.start_time_unix_nano < root.end_time_unix_nano
        assert collector.resources()["service.name"] == "holdfast"
        assert not any(b"hunter2" in body for body in collector.bodies)


@pytest.mark.long
def test_a_collector_that_is_away_delays_nothing(holdfast: Program, tmp_path: Path) -> None:
    """Nor does it keep a worker from ending."""
    data = tmp_path / "data"
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write("prod/main.tf", CODE)
    holdfast.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    with serving(holdfast, data), server_runs(holdfast, data) as runs, worker(holdfast, data) as pid:
        assert runs.statuses(runs.submit("plan", "prod")) == {"prod": "waiting"}
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: runs.workers() == {"gone"}, what="the end of the worker")
