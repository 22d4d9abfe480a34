"""A small OIDC provider on loopback: discovery and keys over HTTP, tokens signed with joserfc."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from holdfast.system import clock

AUDIENCE = "holdfast"
SUBJECT = "repo:acme/infra:ref:refs/heads/main"


class MadeIssuer:
    """What it publishes can be changed: `keys`, `documents`, `is_down`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key: RSAKey | ECKey = RSAKey.generate_key(2048, parameters={"kid": "first"})
        self.published: list[RSAKey | ECKey] = [self.key]
        self.discovery: dict[str, object] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.is_down = False
        self.requests: list[str] = []

    def rotate(self) -> None:
        self.key = ECKey.generate_key("P-256", parameters={"kid": "second"})
        self.published = [self.key]

    def document(self, path: str) -> dict[str, Any] | None:
        self.requests.append(path)
        if path == "/.well-known/openid-configuration":
            return self.discovery
        if path == "/keys":
            return {"keys": [key.as_dict(private=False) for key in self.published]}
        return None

    def token(self, key: RSAKey | ECKey | None = None, **claims: object) -> str:
        """As GitHub Actions would sign it; claims that are None are left out."""
        key = key or self.key
        now = int(clock.now().timestamp())
        stated: dict[str, object] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": SUBJECT,
            "repository": "acme/infra",
            "iat": now,
            "exp": now + 300,
            "jti": clock.random_token(),
            **claims,
        }
        header = {"alg": "ES256" if isinstance(key, ECKey) else "RS256", "kid": key.kid}
        return jwt.encode(header, {name: value for name, value in stated.items() if value is not None}, key)


@contextmanager
def made_issuer() -> Iterator[MadeIssuer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = None if issuer.is_down else issuer.document(self.path)
            body = json.dumps(document or {}).encode()
            self.send_response(200 if document is not None else 503)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = MadeIssuer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
