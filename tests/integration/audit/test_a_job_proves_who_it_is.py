"""A job of GitHub Actions asks for its token and checks it, over HTTP, against the issuer's keys."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from holdfast.audit.actor import current_actor
from holdfast.audit.proof import verify_actor
from holdfast.system import clock
from holdfast.system.environment import Environment

THE_JOB = "the-job"


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """What GitHub's two addresses answer: a token to who has the job's secret, and the keys to everybody."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.forging = False
        self.claims: dict[str, str] = {}
        self.seen: list[str] = []
        """The audiences that were asked for."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = issuer.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, secret: str | None) -> tuple[int, bytes]:
        if path == "/.well-known/jwks":
            numbers = self.key.public_key().public_numbers()
            n, e = text(numbers.n.to_bytes(256)), text(numbers.e.to_bytes(3))
            return 200, json.dumps({"keys": [{"kid": "k1", "kty": "RSA", "n": n, "e": e}]}).encode()
        address, _, audience = path.partition("&audience=")
        if address != "/token?api-version=2.0" or secret != f"bearer {THE_JOB}":
            return 403, b"{}"
        self.seen.append(audience)
        return 200, json.dumps({"value": self.token(self.claims.get("aud", audience))}).encode()

    def token(self, audience: str) -> str:
        now = clock.now().timestamp()
        claims = {
            "iss": self.url,
            "exp": now + 300,
            "nbf": now - 1,
            "actor": "ada",
            "repository": "acme/infra",
            "run_id": "77",
            "run_number": "411",
            "run_attempt": "1",
            "sub": "repo:acme/infra:environment:prod",
            **self.claims,
            "aud": audience,
        }
        content = (
            f"{text(json.dumps({'alg': 'RS256', 'kid': 'k1'}).encode())}.{text(json.dumps(claims).encode())}"
        )
        key = self.other if self.forging else self.key
        return f"{content}.{text(key.sign(content.encode(), padding.PKCS1v15(), SHA256()))}"

    def environment(self, secret: str = THE_JOB, **more: str) -> Environment:
        return Environment(
            variables=MappingProxyType(
                {
                    "GITHUB_ACTIONS": "true",
                    "GITHUB_ACTOR": "mallory",
                    "GITHUB_JOB": "apply",
                    "GITHUB_REPOSITORY": "acme/infra",
                    "GITHUB_RUN_ID": "77",
                    "GITHUB_RUN_ATTEMPT": "1",
                    "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/token?api-version=2.0",
                    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": secret,
                    **more,
                }
            )
        )


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def origin() -> tuple[str, ...]:
    return ("git@github.com:acme/infra.git",)


@pytest.mark.parametrize(
    ("claims", "variables", "why"),
    [
        ({"repository": "mallory/x"}, {"GITHUB_REPOSITORY": "mallory/x"}, "for the repository mallory/x"),
        ({"run_id": "78"}, {}, "another run"),
        ({"run_attempt": "2"}, {"GITHUB_RUN_ATTEMPT": "2"}, "started again"),
        ({"aud": "holdfast"}, {}, "a different audience"),
        ({}, {"SSL_CERT_FILE": "/tmp/mine.pem"}, "SSL_CERT_FILE is set"),
    ],
)
def test_a_token_that_the_job_got_elsewhere_proves_nothing(
    issuer: Issuer, claims: dict[str, str], variables: dict[str, str], why: str
) -> None:
    """Of another repository, of another run, issued for an earlier request, or with keys from elsewhere."""
    issuer.claims = claims
    environment = issuer.environment(**variables)
    who = verify_actor(current_actor(environment), environment, origin, issuer=issuer.url)
    assert (who.verified, who.name) == (False, "mallory")
    assert why in who.because


def test_every_request_has_its_own_audience(issuer: Issuer) -> None:
    """So a token of an earlier request cannot be shown again."""
    environment = issuer.environment()
    for _ in range(2):
        verify_actor(current_actor(environment), environment, origin, issuer=issuer.url)
    assert len(set(issuer.seen)) == 2


def test_what_the_token_says_replaces_what_the_variables_say(issuer: Issuer) -> None:
    """Whoever sets GITHUB_ACTOR by hand is not believed where there is a token."""
    issuer.forging = False
    environment = issuer.environment()
    who = verify_actor(current_actor(environment), environment, origin, issuer=issuer.url)
    assert (who.verified, who.name, who.shown) == (True, "ada", "ci:acme/infra#411")
    assert who.claims["sub"] == "repo:acme/infra:environment:prod"
    assert "job" not in who.claims


@pytest.mark.parametrize(
    ("secret", "forging", "why"),
    [
        ("the-job", True, "signature"),
        ("another-job", False, "status 403"),
        ("", False, "id-token: write"),
    ],
)
def test_without_a_token_that_holds_the_claims_stay_unproved(
    issuer: Issuer, secret: str, forging: object, why: str
) -> None:
    """A forged one, none to be had, no right to ask: recorded as what it is, and nothing fails."""
    issuer.forging = bool(forging)
    environment = issuer.environment(secret)
    who = verify_actor(current_actor(environment), environment, origin, issuer=issuer.url)
    assert (who.verified, who.name) == (False, "mallory")
    assert why in who.because
    assert "another-job" not in who.because


def test_an_issuer_that_does_not_answer_fails_nothing(issuer: Issuer) -> None:
    """Nobody listens there: unproved, with the reason."""
    issuer.forging = False
    environment = issuer.environment()
    who = verify_actor(current_actor(environment), environment, origin, issuer="http://127.0.0.1:9")
    assert not who.verified
    assert "GitHub issued none" in who.because
