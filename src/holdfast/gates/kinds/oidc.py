"""A test user can log in: discovery, authorization code flow with PKCE, and an ID token that verifies."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from holdfast.audit.proof import Unverified, check_token
from holdfast.config.gates import OidcGate
from holdfast.config.secret_refs import SecretRef
from holdfast.gates.browser import Browser, Form, Page
from holdfast.gates.interface import Met, NotMet, NotObservable, Observation, Tools
from holdfast.kernel.text import json_object, without_controls
from holdfast.system import clock
from holdfast.system.http import HttpError

_DISCOVERY: Final = "/.well-known/openid-configuration"
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_MOST_PAGES: Final = 15
_OK: Final = 200
_SHOWN: Final = 200


class LoginFailed(Exception):  # noqa: N818 - what was observed, in one line
    def __init__(self, text: str, next_step: str | None = None, *, final: bool = False) -> None:
        super().__init__(text)
        self.next_step = next_step
        self.final = final
        """It must not be tried again: that could lock the account."""


class OidcLogin:
    def __init__(self, settings: OidcGate, tools: Tools) -> None:
        self._settings = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        return await asyncio.to_thread(self._observe, seconds)

    def _observe(self, seconds: float) -> Observation:
        settings, end = self._settings, clock.monotonic() + seconds
        ca_file = str(self._tools.root / settings.ca_file) if settings.ca_file else None
        browser = Browser(self._tools.environment, lambda: end - clock.monotonic(), ca_file)
        user = settings.user
        name = self._tools.read_secret(user).reveal() if isinstance(user, SecretRef) else user
        password = self._tools.read_secret(settings.password).reveal()
        secret = self._tools.read_secret(settings.client_secret).reveal() if settings.client_secret else None
        try:
            return _Login(settings, browser).run(name, password, secret)
        except LoginFailed as failed:
            observation = NotObservable if failed.final else NotMet
            return observation(text=f"{settings.issuer}: {failed}", next_step=failed.next_step)
        except HttpError as error:
            return NotMet(text=f"{settings.issuer}: {error}", next_step=error.hint)


class _Login:
    """One login. Its state, nonce and verifier are used once."""

    def __init__(self, settings: OidcGate, browser: Browser) -> None:
        self._settings, self._browser = settings, browser
        self._state, self._nonce = clock.random_token(), clock.random_token()
        self._verifier = clock.random_token(32)

    def run(self, user: str, password: str, secret: str | None) -> Observation:
        endpoints = self._discover()
        answer = self._authorize(endpoints, user, password)
        claims = self._exchange(endpoints, self._code(answer), secret)
        if (problem := claim_problem(claims, self._settings.claims)) is not None:
            raise LoginFailed(problem, "Check the groups and claims of the test user.")
        return Met(text=f"{self._settings.issuer}: login as {self._settings.client_id} works")

    def _discover(self) -> dict[str, str]:
        issuer = self._settings.issuer
        document = _json(self._browser.open(f"{issuer.rstrip('/')}{_DISCOVERY}"), "the discovery document")
        if document.get("issuer") != issuer:
            raise LoginFailed(f"its discovery document is of the issuer {document.get('issuer')}")
        missing = [name for name in _ENDPOINTS if not isinstance(document.get(name), str)]
        if missing:
            raise LoginFailed(f"its discovery document has no {missing[0]}")
        return {name: document[name] for name in _ENDPOINTS}

    def _authorize(self, endpoints: Mapping[str, str], user: str, password: str) -> Mapping[str, str]:
        """The parameters with which the client is sent back."""
        settings, start = self._settings, endpoints["authorization_endpoint"]
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self._verifier.encode()).digest()).rstrip(b"=")
        query = {
            **settings.parameters,
            "response_type": "code",
            "client_id": settings.client_id,
            "redirect_uri": settings.redirect_uri,
            "scope": " ".join(settings.scopes or ("openid",)),
            "state": self._state,
            "nonce": self._nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        hosts = {urlsplit(settings.issuer).netloc, urlsplit(start).netloc, *settings.login_hosts}
        page = self._browser.open(f"{start}{'&' if '?' in start else '?'}{urlencode(query)}")
        submitted = False
        for _ in range(_MOST_PAGES):
            if page.location is not None:
                if _is_same(page.location, settings.redirect_uri):
                    return _parameters(page.location)
                page = self._browser.open(page.location)
                continue
            form = self._form(page, submitted=submitted)
            _require_host(form, page, hosts)
            submitted = submitted or bool(form.passwords)
            values = form.filled(user, password)
            if form.method == "post":
                page = self._browser.open(form.action, values)
            elif form.passwords:
                raise LoginFailed("the login page would put the password into an address")
            else:
                page = self._browser.open(f"{form.action.partition('?')[0]}?{urlencode(values)}")
        raise LoginFailed(f"the login did not end within {_MOST_PAGES} pages")

    def _form(self, page: Page, *, submitted: bool) -> Form:
        host = urlsplit(page.url).netloc
        if page.status != _OK and not page.forms:
            raise LoginFailed(f"{host} answers with the status {page.status}: {_excerpt(page)}")
        with_password = next((form for form in page.forms if form.passwords), None)
        if with_password is not None:
            if submitted:
                raise LoginFailed(
                    f"{host} asks for the password again",
                    "Check user and password of the test user, and that no second factor is required.",
                    final=True,
                )
            return with_password
        usable = [form for form in page.forms if form.names or submitted]
        if not usable:
            raise LoginFailed(f"the page of {host} has no form for a user and a password")
        return usable[0]

    def _code(self, answer: Mapping[str, str]) -> str:
        if not hmac.compare_digest(answer.get("state", ""), self._state):
            raise LoginFailed("the answer has another state")
        if "code" not in answer:
            raise LoginFailed(
                f"no code: {_oauth_error(answer)}", "Check the client, its redirect addresses and scopes."
            )
        return answer["code"]

    def _exchange(self, endpoints: Mapping[str, str], code: str, secret: str | None) -> Mapping[str, object]:
        settings, headers = self._settings, {}
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect_uri,
            "code_verifier": self._verifier,
        }
        if secret is None:
            form["client_id"] = settings.client_id
        else:
            pair = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        page = self._browser.open(endpoints["token_endpoint"], form, headers=headers)
        document = json_object(page.body)
        token = document.get("id_token")
        if page.status != _OK or not isinstance(token, str):
            raise LoginFailed(
                f"no ID token: {_oauth_error(document) or f'status {page.status}'}",
                "Check the client secret, and that the scope openid is asked for.",
            )
        keys = self._browser.open(endpoints["jwks_uri"])
        claims = check_token(
            token, keys.body, issuer=settings.issuer, audience=settings.client_id, now=clock.now()
        )
        if isinstance(claims, Unverified):
            raise LoginFailed(f"the ID token is not valid: {claims.why}")
        if not hmac.compare_digest(str(claims.get("nonce", "")), self._nonce):
            raise LoginFailed("the ID token has another nonce")
        return claims


def _require_host(form: Form, page: Page, hosts: Collection[str]) -> None:
    """Of the page and of where its form goes: nothing is filled in elsewhere."""
    if not (form.names or form.passwords):
        return
    for address in (page.url, form.action):
        if (host := urlsplit(address).netloc) not in hosts:
            raise LoginFailed(
                f"the login page is on {host}, which must not get the password",
                f"If this is intentional, add it to the gate: login_hosts: [{host}]",
            )


def claim_problem(claims: Mapping[str, object], expected: Mapping[str, str]) -> str | None:
    """Pure. Values of claims are not shown."""
    for name, value in expected.items():
        found = claims.get(name)
        if str(found) != value and not (isinstance(found, list) and value in map(str, found)):
            return f"the ID token does not have the claim {name} = {value}"
    return None


def _is_same(location: str, expected: str) -> bool:
    """Without query and fragment."""
    one, other = urlsplit(location), urlsplit(expected)
    return one[:3] == other[:3]


def _parameters(location: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


def _oauth_error(answer: Mapping[str, Any]) -> str:
    parts = (answer.get("error"), answer.get("error_description"))
    return without_controls(": ".join(str(part) for part in parts if part))[:_SHOWN]


def _json(page: Page, what: str) -> dict[str, Any]:
    document = json_object(page.body)
    if page.status != _OK or not document:
        raise LoginFailed(f"{what} is not there: status {page.status}")
    return document


def _excerpt(page: Page) -> str:
    return without_controls(page.body[:_SHOWN].decode(errors="replace")).strip() or "(empty)"
