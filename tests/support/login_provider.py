"""An OIDC provider with a login page on loopback: discovery, code flow with PKCE, consent, signed tokens."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

from answering import Answer, Answering, Asked, told
from joserfc import jwt
from joserfc.jwk import RSAKey

from holdfast.system import clock

CLIENT, CLIENT_SECRET = "argo-cd", "secret of argo-cd"
USER, PASSWORD = "gate@acme.example", "pass word&1"
REDIRECT = "https://argocd.acme.example/auth/callback"
_FORM = """<html><form action="{action}" method="post">
<input type="hidden" name="csrf" value="a&amp;b"><input name="login" type="email">
<input type="password" name="password"><button name="go" value="1">Log in</button></form></html>"""
_CONSENT = '<form method="post" action="{action}"><input type="hidden" name="ok" value="1"></form>'


class LoginProvider:
    """What it does wrong can be chosen: names in `faults`."""

    def __init__(self) -> None:
        self.url = ""
        self.faults: set[str] = set()
        self.key = RSAKey.generate_key(2048, parameters={"kid": "k"})
        self.asked: dict[str, str] = {}
        self.login_action = "/login"
        self.posted: list[dict[str, str]] = []

    def answer(self, asked: Asked) -> Answer:  # noqa: PLR0911 - a row per page
        path, cookie = urlsplit(asked.path).path, asked.headers.get("cookie", "")
        if "down" in self.faults:
            return Answer(status=502, body=b"bad gateway")
        match path:
            case "/.well-known/openid-configuration":
                issuer = "https://other.example" if "issuer" in self.faults else self.url
                names = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "keys"}
                return told({"issuer": issuer, **{name: f"{self.url}/{at}" for name, at in names.items()}})
            case "/auth":
                query = parse_qs(urlsplit(asked.path).query) or {k: [v] for k, v in asked.query.items()}
                self.asked = {name: values[0] for name, values in query.items()}
                return Answer(
                    status=302, headers={"Location": "/login?step=1", "Set-Cookie": "session=s1; Path=/"}
                )
            case "/login" if asked.method == "GET":
                return Answer(body=_FORM.format(action=self.login_action).encode())
            case "/login":
                self.posted.append(asked.form)
                right = asked.form == {"csrf": "a&b", "login": USER, "password": PASSWORD, "go": "1"}
                if not right or "session=s1" not in cookie:
                    return Answer(body=_FORM.format(action="/login").encode())
                return Answer(body=_CONSENT.format(action="/consent").encode())
            case "/consent":
                return Answer(status=303, headers={"Location": self._back()})
            case "/token":
                return self._token(asked)
            case "/keys":
                return told({"keys": [self.key.as_dict(private=False)]})
            case _:
                return Answer(status=404)

    def _back(self) -> str:
        state = "another" if "state" in self.faults else self.asked["state"]
        if "denied" in self.faults:
            return f"{REDIRECT}?{urlencode({'error': 'access_denied', 'state': state})}"
        return f"{REDIRECT}?{urlencode({'code': 'the-code', 'state': state})}"

    def _token(self, asked: Asked) -> Answer:
        form = asked.form
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        basic = base64.b64decode(asked.headers.get("authorization", "Basic ")[6:]).decode()
        right = challenge.decode().rstrip("=") == self.asked["code_challenge"] and form["code"] == "the-code"
        if not right or basic != "argo-cd:secret%20of%20argo-cd":
            return told({"error": "invalid_client"}, 401)
        now = int(clock.now().timestamp())
        claims = {
            "iss": self.url,
            "aud": "another" if "audience" in self.faults else CLIENT,
            "exp": now - 3600 if "expired" in self.faults else now + 60,
            "nonce": "another" if "nonce" in self.faults else self.asked["nonce"],
            "groups": ["readers", "admins"],
        }
        key = RSAKey.generate_key(2048, parameters={"kid": "k"}) if "signature" in self.faults else self.key
        return told({"id_token": jwt.encode({"alg": "RS256", "kid": "k"}, claims, key)})


@contextmanager
def login_provider() -> Iterator[LoginProvider]:
    provider = LoginProvider()
    with Answering(provider.answer) as server:
        provider.url = server.url
        yield provider
