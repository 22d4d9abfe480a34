"""OpenTelemetry traces of the changes that a worker runs: one trace per change, on however many workers.

Off unless an OTEL_* variable names a collector. Spans have ids, names of stacks, times and statuses, and
codes of errors; never a message, a variable or a value of a plan. They are sent in the background, so a
collector that does not answer delays nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from holdfast import __version__
from holdfast.plans.events import Event, PhaseStarted, StackFinished
from holdfast.plans.status import Status
from holdfast.server.edge import Log
from holdfast.store.server_runs.phases import RunPhase
from holdfast.store.server_runs.rows import Change
from holdfast.system import clock
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NAMES: Final = {"waiting": "waiting for another run"}
"""Of phases: `waiting` is for a decision."""
_FAILED: Final = frozenset({Status.FAILED, Status.UNKNOWN})
_FLUSH_MILLISECONDS: Final = 2000
_NANOSECONDS: Final = 1_000_000_000


def open_tracing(environment: Environment, log: Log) -> Tracing | None:
    """None: it is not configured, or its packages are missing, which the log says."""
    disabled = (environment.get("OTEL_SDK_DISABLED") or "").lower() == "true"
    if (
        disabled
        or environment.get("OTEL_TRACES_EXPORTER") == "none"
        or not any(map(environment.get, _ENDPOINTS))
    ):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        log.error("no traces", missing=error.name, hint="pip install 'holdfast[otel]'")  # noqa: TRY400 - expected
        return None
    own: dict[str, str] = {"service.version": __version__}
    if not environment.get("OTEL_SERVICE_NAME"):
        own["service.name"] = "holdfast"
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


class Tracing:
    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._ids = _fixed_ids()
        provider.id_generator = self._ids
        self._tracer = provider.get_tracer("holdfast", __version__)

    def of(self, change: Change) -> ChangeTrace:
        return ChangeTrace(self._tracer, self._ids, change)

    def flush(self) -> None:
        """Before the worker ends. A collector that does not answer does not keep it."""
        self._provider.force_flush(_FLUSH_MILLISECONDS)


class Trace:
    """Of one change. This one is not recorded."""

    def select(self, change: Change) -> None:
        """Its runs are known now."""

    def handle(self, event: Event) -> None:
        """Phases of stacks are spans."""

    def close(self) -> None:
        """The worker does no more now: what is open has ended."""

    def finish(self) -> None:
        """The change is done."""


class ChangeTrace(Trace):
    """Its ids follow from that of the change, so that all workers continue one trace."""

    def __init__(self, tracer: Any, ids: Any, change: Change) -> None:
        self._tracer = tracer
        self._ids = ids
        self._open: dict[str, Span] = {}
        digest = hashlib.sha256(change.id.encode()).digest()
        self._trace_id, self._root_id = int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])
        self._runs = {run.stack: run.id for run in change.runs}
        self._change = change
        if change.fence == 1 and change.started is not None:
            self._record("queued", change.created, change.started, {})
        for run in change.runs:
            if run.phase is RunPhase.WAITING and run.since is not None:
                self._record("waiting", run.since, clock.now(), self._about(run.stack))

    def select(self, change: Change) -> None:
        self._runs = {run.stack: run.id for run in change.runs}

    def handle(self, event: Event) -> None:
        match event:
            case PhaseStarted(stack=stack, phase=phase):
                self._end(stack)
                name = _NAMES.get(phase, phase)
                self._open[stack] = self._tracer.start_span(
                    name, self._parent(), attributes=self._about(stack)
                )
            case StackFinished(result=result):
                error = result.error.code if result.error is not None else None
                self._end(result.stack.name, result.status, error)
            case _:
                return

    def close(self) -> None:
        for stack in tuple(self._open):
            self._end(stack)

    def finish(self) -> None:
        change = self._change
        about = {"holdfast.operation": change.operation.value, "holdfast.tenant": change.tenant}
        self._ids.fix(self._trace_id, self._root_id)
        self._record("change", change.created, clock.now(), about, root=True)

    def _end(self, stack: str, status: Status | None = None, code: str | None = None) -> None:
        span = self._open.pop(stack, None)
        if span is None:
            return
        if status is not None:
            span.set_attribute("holdfast.status", status.value)
        if code is not None:
            span.set_attribute("holdfast.error", code)
        if status in _FAILED:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an extra

            span.set_status(StatusCode.ERROR, code)
        span.end()

    def _record(
        self, name: str, start: datetime, end: datetime, about: Mapping[str, str], *, root: bool = False
    ) -> None:
        from opentelemetry.context import Context  # noqa: PLC0415 - an extra

        context = Context() if root else self._parent()
        attributes = {"holdfast.change": self._change.id, **about}
        span = self._tracer.start_span(name, context, attributes=attributes, start_time=_nanoseconds(start))
        span.end(_nanoseconds(end))

    def _about(self, stack: str) -> dict[str, str]:
        run = self._runs.get(stack, "")
        return {"holdfast.change": self._change.id, "holdfast.stack": stack, "holdfast.run": run}

    def _parent(self) -> Context:
        from opentelemetry.context import Context  # noqa: PLC0415 - an extra
        from opentelemetry.trace import (  # noqa: PLC0415 - an extra
            NonRecordingSpan,
            SpanContext,
            TraceFlags,
            set_span_in_context,
        )

        flags = TraceFlags(TraceFlags.SAMPLED)
        own = SpanContext(self._trace_id, self._root_id, is_remote=True, trace_flags=flags)
        return set_span_in_context(NonRecordingSpan(own), Context())


def _fixed_ids() -> Any:
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415 - an extra

    class Ids(RandomIdGenerator):
        """Random, but for the next span if it has ids of its own."""

        def __init__(self) -> None:
            self._fixed: dict[str, int] = {}

        def fix(self, trace: int, span: int) -> None:
            self._fixed = {"trace": trace, "span": span}

        def generate_trace_id(self) -> int:
            return self._fixed.pop("trace", 0) or super().generate_trace_id()

        def generate_span_id(self) -> int:
            return self._fixed.pop("span", 0) or super().generate_span_id()

    return Ids()


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * _NANOSECONDS)
