"""The one way to ask something of another machine over HTTP.

One request, one answer, over the standard library: no pool, no hidden second try. Redirects are not followed
(the answer with its `location` is the answer), so what is sent to one host never reaches another. What goes
over a network goes over TLS that is verified; `http://` is for this machine's own addresses only.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast import __version__
from holdfast.kernel.values import MaskedStruct
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    import http.client
    import ssl

MOST_BYTES = 1024 * 1024
_CONNECT_SECONDS = 5.0
_AT_ONCE = 64 * 1024
_PORTS = {"http": 80, "https": 443}
_CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class HttpError(Exception):
    """There is no answer. Names the host and the reason, never a header, a path or a body."""

    def __init__(self, host: str, reason: str, *, timed_out: bool = False, final: bool = False) -> None:
        super().__init__(f"{host}: {reason}")
        self.host = host
        self.reason = reason
        self.timed_out = timed_out
        self.final = final
        """The same request would fail again: asking once more is of no use."""


class Response(MaskedStruct, frozen=True, kw_only=True):
    """An answer, whatever its status. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def request(
    method: str,
    url: str,
    *,
    environment: Environment,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    seconds: float = 20.0,
    max_bytes: int = MOST_BYTES,
    ca_file: str | None = None,
) -> Response:
    """Ask once. `seconds` is for all of it, from the look-up of the name to the last byte.

    The proxy and CA variables of `environment` are honoured; `ca_file` is trusted instead of them.
    """
    parts = _parts(url)
    exchange = _Exchange(parts, environment, seconds, ca_file)
    sent = {"User-Agent": f"holdfast/{__version__}", "Accept-Encoding": "identity", **(headers or {})}
    worker = threading.Thread(
        target=exchange.carry_out, args=(method, sent, body, max_bytes), name="holdfast-http", daemon=True
    )
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        exchange.given_up = True
        raise HttpError(exchange.host, f"no whole answer within {seconds:g} seconds", timed_out=True)
    if exchange.answer is None:
        raise exchange.error or HttpError(exchange.host, "no answer")
    return exchange.answer


def is_own_address(host: str) -> bool:
    """Whether what is sent to this host stays on this machine, or on the link of its metadata service."""
    from ipaddress import ip_address  # noqa: PLC0415 - only where a request is made

    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or str(address) == "169.254.169.254"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise HttpError("(no host)", "the address cannot be read", final=True) from None
    host = parts.hostname or "(no host)"
    if parts.scheme not in _PORTS or not parts.hostname:
        raise HttpError(host, "the address does not begin with https:// and a host", final=True)
    if parts.username is not None or parts.password is not None:
        reason = "the address holds a user or a password, which belong in a header"
        raise HttpError(host, reason, final=True)
    if parts.scheme == "http" and not is_own_address(parts.hostname):
        reason = "http:// is for addresses of this machine only; use https://"
        raise HttpError(host, reason, final=True)
    return parts


class _Exchange:
    """One request under way, in a thread of its own: only so is every part of it under one time limit."""

    def __init__(self, url: SplitResult, environment: Environment, seconds: float, ca: str | None) -> None:
        self.host = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)
        self.answer: Response | None = None
        self.error: HttpError | None = None
        self.given_up = False
        self._url, self._environment, self._seconds, self._ca = url, environment, seconds, ca
        self._connection: http.client.HTTPConnection | None = None

    def carry_out(self, method: str, headers: Mapping[str, str], body: bytes | None, most: int) -> None:
        import http.client  # noqa: PLC0415 - not loaded with the module: most commands ask nobody

        try:
            self.answer = self._asked(method, dict(headers), body, most)
        except HttpError as error:
            self.error = error
        except TimeoutError:
            self.error = HttpError(self.host, "it does not answer in time", timed_out=True)
        except (OSError, http.client.HTTPException, ValueError) as error:
            final = isinstance(error, ValueError) or _untrusted(error)
            self.error = HttpError(self.host, _reason(error), final=final)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _asked(self, method: str, headers: dict[str, str], body: bytes | None, most: int) -> Response:
        connection = self._connection = self._made()
        connection.connect()
        connection.sock.settimeout(self._seconds)
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        connection.request(method, target, body=body, headers=headers)
        with connection.getresponse() as found:
            content = self._content(found, most)
            given = {name.lower(): value for name, value in found.getheaders()}
            return Response(status=found.status, headers=given, body=content)

    def _content(self, found: http.client.HTTPResponse, most: int) -> bytes:
        content = b""
        while (some := found.read(min(_AT_ONCE, most + 1 - len(content)))) and not self.given_up:
            content += some
            if len(content) > most:
                raise HttpError(self.host, f"the answer is larger than {most} bytes", final=True)
        if found.length:
            raise HttpError(self.host, "the answer broke off")
        return content

    def _made(self) -> http.client.HTTPConnection:
        import http.client  # noqa: PLC0415

        host, port = str(self._url.hostname), self._url.port or _PORTS[self._url.scheme]
        patience = min(self._seconds, _CONNECT_SECONDS)
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=patience)
        context = self._context()
        proxy = _proxy(host, port, self._environment)
        if proxy is None:
            return http.client.HTTPSConnection(host, port, timeout=patience, context=context)
        at = str(proxy.hostname), proxy.port or _PORTS["http"]
        connection = http.client.HTTPSConnection(*at, timeout=patience, context=context)
        connection.set_tunnel(host, port, headers=_proxy_headers(proxy))
        return connection

    def _context(self) -> ssl.SSLContext:
        file = self._ca or _first(self._environment, *_CA_FILES)
        folder = None if self._ca else self._environment.get("SSL_CERT_DIR")
        try:
            return _context(file, folder)
        except OSError:
            reason = f"the certificates in {file or folder} cannot be read"
            raise HttpError(self.host, reason, final=True) from None


def _proxy(host: str, port: int, environment: Environment) -> SplitResult | None:
    """The proxy that the environment names for this host; none for this machine's own addresses."""
    named = _first(environment, "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    if named is None or is_own_address(host) or _spared(host, port, environment):
        return None
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        _ = proxy.port
    except ValueError:
        reason = "the proxy's address in the environment cannot be read"
        raise HttpError(host, reason, final=True) from None
    if proxy.scheme != "http" or not proxy.hostname:
        reason = f"a proxy of the kind {proxy.scheme}:// is not supported; name an http:// one"
        raise HttpError(host, reason, final=True)
    return proxy


def _spared(host: str, port: int, environment: Environment) -> bool:
    """Whether `no_proxy` lists this host: `*`, a name with all below it, either with a port or without."""
    listed = (_first(environment, "no_proxy", "NO_PROXY") or "").lower().replace(",", " ").split()
    names = (one.removeprefix("*").removeprefix(".") for one in listed)
    return any(
        not name or f".{host}".endswith(f".{name}") or f".{host}:{port}".endswith(f".{name}")
        for name in names
    )


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    from base64 import b64encode  # noqa: PLC0415

    who = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(who.encode()).decode()}


def _first(environment: Environment, *names: str) -> str | None:
    return next((value for name in names if (value := environment.get(name))), None)


@lru_cache(maxsize=8)
def _context(ca_file: str | None, ca_folder: str | None) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - 10 ms, and only for who asks

    return ssl.create_default_context(cafile=ca_file, capath=ca_folder)


def _untrusted(error: Exception) -> bool:
    import ssl  # noqa: PLC0415

    return isinstance(error, ssl.SSLCertVerificationError)


def _reason(error: Exception) -> str:
    """Without what was sent: the library's own words for a bad header quote it."""
    import socket  # noqa: PLC0415
    import ssl  # noqa: PLC0415

    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or 'no reason given'}"
        case socket.gaierror():
            return "its name is not known"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case UnicodeError() | ValueError():
            return "the request holds a character that HTTP does not allow"
        case _:
            return f"what it answers is not HTTP ({type(error).__name__})"
