"""A collector of OpenTelemetry traces: OTLP over HTTP, on loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []
        """As they arrived, not compressed."""

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for body in tuple(self.bodies)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def resources(self) -> dict[str, str]:
        (first, *_) = ExportTraceServiceRequest.FromString(self.bodies[0]).resource_spans
        return {item.key: item.value.string_value for item in first.resource.attributes}


def attributes(span: Span) -> dict[str, Any]:
    return {item.key: item.value.string_value for item in span.attributes}


@contextmanager
def made_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            zipped = self.headers.get("content-encoding") == "gzip"
            assert self.path == "/v1/traces"
            collector.bodies.append(gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
