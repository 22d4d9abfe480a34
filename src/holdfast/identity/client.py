"""The server as its clients see it: where it is, with which token, and one request.

`HOLDFAST_URL` and `HOLDFAST_TOKEN` (or `HOLDFAST_TOKEN_FILE`) win over what `holdfast login` stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import structs

from holdfast import __version__
from holdfast.kernel.errors import Busy, Failed, HoldfastError, Refused, UsageError
from holdfast.kernel.server_hints import KNOWN_SERVER, on_server
from holdfast.kernel.text import json_object
from holdfast.kernel.values import MaskedStruct
from holdfast.system import clock, files, http
from holdfast.system.environment import Environment

URL_VARIABLE: Final = "HOLDFAST_URL"
TOKEN_VARIABLE: Final = "HOLDFAST_TOKEN"  # noqa: S105 - a name
TOKEN_FILE_VARIABLE: Final = "HOLDFAST_TOKEN_FILE"  # noqa: S105 - a name
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_FAILED: Final = 400
_UNAUTHORIZED: Final = 401
_NO_ROUTE: Final = (400, 404, 405)
_SECONDS: Final = 120.0
_LARGEST: Final = 512 << 20
"""A state may be large."""
_ERRORS: Final[dict[int, type[HoldfastError]]] = {
    401: Refused,
    403: Refused,
    409: Refused,
    423: Busy,
    429: Busy,
    503: Busy,
}


_AWAY: Final = (502, 503, 504)
"""The server, or what is behind a proxy, is being started again."""
PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts to reach a server that is away."""
_LOGIN: Final = "`holdfast login`"


class ServerLogin(MaskedStruct, frozen=True, kw_only=True):
    url: str
    token: str
    source: str = _LOGIN
    """Where the token comes from, for messages."""
    option: str = KNOWN_SERVER
    """With which a command uses this server."""


def login_file(environment: Environment) -> Path:
    return environment.home / "login.json"


def store_login(environment: Environment, login: ServerLogin) -> Path:
    file = login_file(environment)
    files.private_folder(file.parent)
    files.write(file, json.dumps({"version": 1, "url": login.url, "token": login.token}) + "\n")
    return file


def given_token(environment: Environment) -> str | None:
    """From a variable, or the file that one names."""
    if (token := environment.get(TOKEN_VARIABLE)) is not None:
        return token.strip()
    if (name := environment.get(TOKEN_FILE_VARIABLE)) is not None:
        return files.read_text(Path(name).expanduser()).strip()
    return None


def token_source(environment: Environment) -> str:
    if environment.get(TOKEN_VARIABLE) is not None:
        return TOKEN_VARIABLE
    name = environment.get(TOKEN_FILE_VARIABLE)
    return f"{TOKEN_FILE_VARIABLE} ({name})" if name is not None else _LOGIN


def token_hint(url: str, source: str) -> str:
    """For a token that the server refused."""
    variable = source.partition(" ")[0]
    first = "Log in again" if source == _LOGIN else f"Correct {variable}, or unset it and log in"
    return f"{first}: holdfast login {url}. An admin creates tokens: holdfast token create"


def current_login(environment: Environment) -> ServerLogin:
    stored = json_object(files.content_of(login_file(environment)) or b"{}")
    url = environment.get(URL_VARIABLE) or stored.get("url")
    token = given_token(environment)
    if token is None and url == stored.get("url"):
        # A stored token is sent only where it was stored for.
        token = str(stored["token"]) if "token" in stored else None
    if url is None or token is None:
        raise UsageError(
            "HF-SRV-7",
            "no server is known" if url is None else f"no token for {url} is known",
            hint=f"Log in: holdfast login URL. Or set {URL_VARIABLE} and {TOKEN_VARIABLE}.",
        )
    return ServerLogin(url=str(url).rstrip("/"), token=token, source=token_source(environment))


def login_for(environment: Environment, address: str | None) -> ServerLogin:
    """Of the server that the command line names; of the current one without an address."""
    if not address:
        return current_login(environment)
    address, known = address.rstrip("/"), (environment.get(URL_VARIABLE) or "").rstrip("/")
    if known and known != address and given_token(environment) is not None:
        raise UsageError(
            "HF-SRV-20",
            f"the token is for {known}, not for {address}",
            hint=f"Unset {URL_VARIABLE} and {TOKEN_VARIABLE}, and log in: holdfast login {address}",
        )
    login = current_login(Environment(variables={**environment.variables, URL_VARIABLE: address}))
    is_known = address == _known_url(environment)
    return login if is_known else structs.replace(login, option=f"{KNOWN_SERVER} {address}")


def _known_url(environment: Environment) -> str:
    stored = json_object(files.content_of(login_file(environment)) or b"{}")
    return str(environment.get(URL_VARIABLE) or stored.get("url") or "").rstrip("/")


def token_for(environment: Environment, address: str) -> str:
    """For the server that the configuration names as run store.

    A change of the configuration must not send the token elsewhere: `HOLDFAST_URL` names the only server that
    gets one from the environment.
    """
    url, token = (environment.get(URL_VARIABLE) or "").rstrip("/"), given_token(environment)
    if token is None:
        return current_login(Environment(variables={**environment.variables, URL_VARIABLE: address})).token
    if url and url != address:
        raise UsageError(
            "HF-SRV-20",
            f"the token is for {url}, but the run store is {address}",
            hint=f"Correct `store:` in holdfast.yaml, or set {URL_VARIABLE} and {TOKEN_VARIABLE} for it.",
        )
    if not url:
        raise UsageError(
            "HF-SRV-20",
            f"{TOKEN_VARIABLE} is set without {URL_VARIABLE}, so a changed `store:` could send it elsewhere",
            hint=f"If that is your server: export {URL_VARIABLE}={address}",
        )
    return token


class Unreachable(Failed):
    """There is no answer: nothing is known about what the server does."""


class ServerClient:
    def __init__(self, login: ServerLogin, environment: Environment) -> None:
        self._login = login
        self._environment = environment
        self._patience = 0.0
        self._tell: Callable[[str], None] = lambda _: None

    def be_patient(self, seconds: float, tell: Callable[[str], None]) -> None:
        """From now on, a request that reads is repeated for so long while the server is away.

        So is one with an Idempotency-Key: the server does it once. `tell` hears each time why it is.
        """
        self._patience, self._tell = seconds, tell

    @property
    def login(self) -> ServerLogin:
        return self._login

    @property
    def url(self) -> str:
        return self._login.url

    def send(self, method: str, path: str, document: object = None) -> dict[str, Any]:
        """The document of the response, or the error that its problem document describes."""
        headers, body = {}, None
        if document is not None:
            body = json.dumps(document).encode()
            headers["Content-Type"] = "application/json"
        response = self.exchange(method, path, body, headers=headers)
        if response.status >= _FAILED:
            raise self.error_of(response)
        return json_object(response.body or b"{}")

    def error_of(self, response: http.Response) -> HoldfastError:
        """Names the token that was refused, and a path in the address, which is often a mistake."""
        error = problem_of(response)
        code, message, hint = error.problem.code, error.problem.message, error.problem.hint
        if response.status == _UNAUTHORIZED:
            message = f"the server {self.url} refused the token of {self._login.source}: {message}"
            hint = token_hint(self.url, self._login.source)
        elif (path := urlsplit(self.url).path) and response.status in _NO_ROUTE:
            hint = f"The address {self.url} has a path. Usually it has none: {self.url.removesuffix(path)}"
        return type(error)(code, message, hint=on_server(hint, self._login.option) if hint else hint)

    def exchange(
        self, method: str, path: str, body: bytes | None = None, *, headers: Mapping[str, str] | None = None
    ) -> http.Response:
        """One request, and a response with any status."""
        repeatable = method == "GET" or IDEMPOTENCY_KEY in (headers or {})
        until, attempt = clock.monotonic() + (self._patience if repeatable else 0.0), 0
        while True:
            last = clock.monotonic() >= until
            try:
                response = self._exchange(method, path, body, headers)
                reason = f"it answered with the status {response.status}"
                if last or response.status not in _AWAY:
                    return response
            except Unreachable as error:
                if last:
                    raise
                reason = error.problem.message
            self._tell(reason)
            clock.pause(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> http.Response:
        try:
            response = http.request(
                method,
                self._login.url + path,
                environment=self._environment,
                headers={"Authorization": f"Bearer {self._login.token}", **(headers or {})},
                body=body,
                seconds=_SECONDS,
                max_bytes=_LARGEST,
            )
        except http.HttpError as error:
            raise (Failed if error.final else Unreachable)(
                "HF-SRV-8",
                f"cannot reach the server {self._login.url}: {error.reason}",
                hint=error.hint or "Check the address, and that `holdfast serve` runs there.",
            ) from None
        self._require_same_version(response)
        return response

    def stream(self, path: str, headers: Mapping[str, str], *, silence: float) -> Iterator[bytes]:
        """As `http.open_stream`."""
        return http.open_stream(
            self._login.url + path,
            environment=self._environment,
            headers={"Authorization": f"Bearer {self._login.token}", **headers},
            silence=silence,
        )

    def pages(self, path: str, key: str, **query: str | None) -> Iterator[dict[str, Any]]:
        """Every item of a list."""
        given = {"limit": "200", **{name: value for name, value in query.items() if value is not None}}
        cursor: dict[str, str] | None = {}
        while cursor is not None:
            page = self.send("GET", f"{path}?{urlencode({**given, **cursor})}")
            yield from page[key]
            cursor = {"cursor": page["next"]} if page["next"] is not None else None

    def _require_same_version(self, response: http.Response) -> None:
        """Of the same major and minor number: others may differ in what they mean."""
        version = response.headers.get("holdfast-version")
        if version is None and response.status in _AWAY:
            raise Unreachable(
                "HF-SRV-8",
                f"cannot reach the server {self._login.url}: a proxy answered with {response.status}",
                hint="The proxy is there, but not the server behind it. Try again in a minute.",
            )
        if version is None:
            raise UsageError(
                "HF-SRV-9",
                f"{self._login.url} is not a Holdfast server",
                hint="Check its host and port. The address has no path: https://HOST",
            )
        if version.split(".")[:2] != __version__.split(".")[:2]:
            raise UsageError(
                "HF-SRV-9",
                f"the server {self._login.url} has version {version}, this is {__version__}",
                hint="Install the version of the server.",
            )


def current_token(client: ServerClient) -> dict[str, Any]:
    """Whose token it is, and what it may."""
    return client.send("GET", "/api/v1/tokens/current")


def problem_of(response: http.Response) -> HoldfastError:
    status, problem = response.status, json_object(response.body)
    kind = _ERRORS.get(status) or (UsageError if status < 500 else Failed)  # noqa: PLR2004 - a status
    message = str(problem.get("message") or f"the server answered with the status {status}")
    return kind(
        str(problem.get("code") or "HF-SRV-8"),
        message,
        hint=None if problem.get("errors") else problem.get("hint"),
    )
