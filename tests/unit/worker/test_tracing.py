"""Traces are off unless they are configured, and need no packages then."""

from __future__ import annotations

import sys

import pytest
from server_made import ListLog

from holdfast.system.environment import Environment
from holdfast.worker.tracing import open_tracing

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "true"},
        {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_they_are_off_unless_configured(variables: dict[str, str]) -> None:
    assert open_tracing(Environment(variables=variables), ListLog()) is None


def test_a_worker_without_the_packages_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such variables are often set for all programs of a machine."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    log = ListLog()
    assert open_tracing(Environment(variables=ENDPOINT), log) is None
    (line,) = log.lines
    assert (line["event"], line["hint"]) == ("no traces", "pip install 'holdfast[otel]'")
