"""moto's server behind a small proxy that writes down who took which role, and how."""

from __future__ import annotations

import http.client
import re
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs

from moto.server import ThreadedMotoServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    role: str
    session: str
    external_id: str | None
    by: str
    """The access key that signed the call."""


class Cloud:
    """S3 and STS on loopback. `url` is for both; calls to STS are recorded on their way."""

    def __init__(self) -> None:
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._lock = threading.Lock()
        self._assumed: list[Assumed] = []
        self._signers: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        self._moto.start()
        host, port = self._moto.get_host_and_port()
        upstream = f"{host}:{port}"
        cloud = self

        class Proxy(_Proxy):
            target = upstream
            record = cloud._record

        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self.url = f"http://127.0.0.1:{self._proxy.server_address[1]}"
        threading.Thread(target=self._proxy.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()
        self._moto.stop()

    @property
    def assumed(self) -> list[Assumed]:
        with self._lock:
            return list(self._assumed)

    @property
    def signers(self) -> list[tuple[str, str]]:
        """For each call to S3: the access key that signed it, and the path."""
        with self._lock:
            return list(self._signers)

    def make_bucket(self, name: str) -> None:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=30)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == HTTPStatus.OK
        connection.close()

    def _record(self, path: str, headers: dict[str, str], body: bytes) -> None:
        found = re.search(r"Credential=([^/]+)/[^/]+/[^/]+/([^/]+)/", headers.get("Authorization", ""))
        signer, service = found.groups() if found else ("", "")
        form = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        with self._lock:
            if form.get("Action") == "AssumeRole":
                self._assumed.append(
                    Assumed(
                        role=form["RoleArn"],
                        session=form["RoleSessionName"],
                        external_id=form.get("ExternalId"),
                        by=signer,
                    )
                )
            elif service == "s3":
                self._signers.append((signer, path))


class _Proxy(BaseHTTPRequestHandler):
    target = ""
    protocol_version = "HTTP/1.1"

    @staticmethod
    def record(path: str, headers: dict[str, str], body: bytes) -> None: ...

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = dict(self.headers.items())
        type(self).record(self.path, headers, body)
        kept = {name: value for name, value in headers.items() if name.lower() != "connection"}
        connection = http.client.HTTPConnection(self.target, timeout=30)
        connection.request(self.command, self.path, body=body or None, headers=kept)
        answer = connection.getresponse()
        self._answer(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in {"connection", "content-length", "transfer-encoding", "server", "date"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Says nothing."""
