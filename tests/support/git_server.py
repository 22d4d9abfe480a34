"""A Git host on loopback: `git http-backend` behind HTTP, with or without a password."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class GitHost:
    """Repositories below a folder. `user` is `NAME:PASSWORD`; None lets everyone in."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self.folder = folder
        self.user = user
        self.refused = 0
        self.url = ""

    def allows(self, header: str | None) -> bool:
        wanted = f"Basic {base64.b64encode(self.user.encode()).decode()}" if self.user is not None else header
        return header == wanted


@contextmanager
def git_host(
    folder: Path, user: str | None = None, *, certificate: tuple[Path, Path] | None = None
) -> Iterator[GitHost]:
    """`certificate`: with this one and its key, over https."""
    host = GitHost(folder, user)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            if not host.allows(self.headers.get("Authorization")):
                host.refused += 1
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            variables = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_COUNT": "3",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "GIT_CONFIG_KEY_1": "uploadpack.allowReachableSHA1InWant",
                "GIT_CONFIG_VALUE_1": "true",
                "GIT_CONFIG_KEY_2": "http.receivepack",
                "GIT_CONFIG_VALUE_2": "true",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            ran = subprocess.run(
                ["git", "http-backend"], input=body, env=variables, capture_output=True, check=False
            )
            head, _, content = ran.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
            self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - a name of the library

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    host.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
