"""The only HTTP client.

One request, one answer, with the standard library: no hidden retry. Redirects are not followed, so what is
sent to one host never reaches another. Requests use verified TLS; `http://` is for loopback addresses only.
`HttpSession` keeps its connections open, for many requests to one server.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from holdfast import __version__
from holdfast.kernel.secret import masked_repr
from holdfast.system.addresses import AddressRules, is_local_address
from holdfast.system.environment import Environment

if TYPE_CHECKING:
    import http.client
    import socket
    import ssl

MAX_BYTES = 1024 * 1024
_CONNECT_SECONDS = 5.0
_CHUNK = 64 * 1024
_METADATA = "169.254.169.254"
"""The link-local address of the cloud's metadata service."""
_PORTS = {"http": 80, "https": 443}
_OTHER_NAME = (62, 64)
"""The certificate is for another host or address: numbers of OpenSSL."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class HttpError(Exception):
    """There is no response. Contains the host and the reason, never a header, a path or a body."""

    def __init__(
        self,
        host: str,
        reason: str,
        *,
        timed_out: bool = False,
        final: bool = False,
        stale: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(f"{host}: {reason}")
        self.host = host
        self.reason = reason
        self.timed_out = timed_out
        self.final = final
        """A retry would fail too."""
        self.stale = stale
        """The server closed a connection that was kept open."""
        self.hint = hint
        """What to try, where the reason says it."""


class Response(NamedTuple):
    """With any status. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return masked_repr(self)


def request(
    method: str,
    url: str,
    *,
    environment: Environment,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    seconds: float = 20.0,
    max_bytes: int = MAX_BYTES,
    ca_file: str | None = None,
    rules: AddressRules | None = None,
    plain: bool = False,
    context: ssl.SSLContext | None = None,
) -> Response:
    """Send once. `seconds` limits the whole exchange, from name resolution to the last byte.

    The proxy and CA variables of `environment` are honoured; `ca_file` replaces the CA variables. With
    `rules`, only to addresses that they allow, and without a proxy, which would look up the name itself.
    `plain`: also to other hosts without TLS, for requests in which nothing is secret. `context`: for a server
    with an authority and client certificates of its own, instead of what the environment says.
    """
    metadata = not any(name.lower() == "authorization" for name in headers or ())
    parts = _parts(url, metadata=metadata, plain=plain)
    exchange = _Exchange(parts, environment, seconds, ca_file)
    exchange.rules = rules
    exchange.context = context
    sent = {"User-Agent": f"holdfast/{__version__}", "Accept-Encoding": "identity", **(headers or {})}
    worker = threading.Thread(
        target=exchange.run, args=(method, sent, body, max_bytes), name="holdfast-http", daemon=True
    )
    worker.start()
    worker.join(seconds)
    if worker.is_alive():
        exchange.abandoned = True
        raise HttpError(exchange.host, f"no complete response within {seconds:g} seconds", timed_out=True)
    if exchange.answer is None:
        raise exchange.error or HttpError(exchange.host, "no response")
    return exchange.answer


def open_stream(
    url: str, *, environment: Environment, headers: Mapping[str, str], silence: float
) -> Iterator[bytes]:
    """First the status as text, then the lines as they arrive; `silence` limits the wait for each."""
    import http.client  # noqa: PLC0415 - most commands send no request

    parts = _parts(url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    try:
        with contextlib.closing(_connect(parts, environment, _CONNECT_SECONDS, None)) as connection:
            connection.connect()
            connection.sock.settimeout(silence)
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"User-Agent": f"holdfast/{__version__}", **headers})
            with connection.getresponse() as response:
                yield str(response.status).encode()
                while line := response.readline(MAX_BYTES):
                    yield line
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HttpError(host, _reason(error), hint=_hint(error, parts)) from None


def _parts(url: str, *, metadata: bool = False, plain: bool = False) -> SplitResult:
    """`metadata`: the cloud's metadata service may be asked, which has no TLS. `plain`: any host may."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise HttpError("(no host)", "the address is not valid", final=True) from None
    host = parts.hostname or "(no host)"
    if parts.scheme not in _PORTS or not parts.hostname:
        hint = "Write https://HOST, or http://127.0.0.1:PORT for a server on this machine."
        raise HttpError(host, "the address does not start with https:// and a host", final=True, hint=hint)
    if parts.username is not None or parts.password is not None:
        reason = "the address contains a user or a password, which belong in a header"
        raise HttpError(host, reason, final=True)
    allowed = plain or is_local_address(parts.hostname) or (metadata and parts.hostname == _METADATA)
    if parts.scheme == "http" and not allowed:
        reason = "http:// is only for loopback addresses; use https://"
        raise HttpError(host, reason, final=True)
    return parts


class _Exchange:
    """One request in a thread of its own, so that one time limit covers all of it."""

    def __init__(self, url: SplitResult, environment: Environment, seconds: float, ca: str | None) -> None:
        self.host = f"{url.hostname}:{url.port}" if url.port else str(url.hostname)
        self.answer: Response | None = None
        self.error: HttpError | None = None
        self.abandoned = False
        self._url, self._environment, self._seconds, self._ca = url, environment, seconds, ca
        self.rules: AddressRules | None = None
        self.context: ssl.SSLContext | None = None
        self._connection: http.client.HTTPConnection | None = None

    def run(self, method: str, headers: Mapping[str, str], body: bytes | None, most: int) -> None:
        import http.client  # noqa: PLC0415 - most commands send no request

        try:
            self.answer = self._send(method, dict(headers), body, most)
        except HttpError as error:
            self.error = error
        except TimeoutError:
            self.error = HttpError(self.host, "no response in time", timed_out=True)
        except (OSError, http.client.HTTPException, ValueError) as error:
            import ssl  # noqa: PLC0415

            final = isinstance(error, ValueError | ssl.SSLCertVerificationError)
            hint = _hint(error, self._url)
            self.error = HttpError(self.host, _reason(error), final=final, hint=hint)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _send(self, method: str, headers: dict[str, str], body: bytes | None, most: int) -> Response:
        connection = self._connection = _connect(
            self._url,
            self._environment,
            min(self._seconds, _CONNECT_SECONDS),
            self._ca,
            self.rules,
            self.context,
        )
        if self.rules is None:
            connection.connect()
        connection.sock.settimeout(self._seconds)
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        connection.request(method, target, body=body, headers=headers)
        with connection.getresponse() as response:
            content = self._content(response, most)
            received = _joined(response.getheaders())
            return Response(status=response.status, headers=received, body=content)

    def _content(self, response: http.client.HTTPResponse, most: int) -> bytes:
        content = bytearray()  # A state may have a hundred megabytes.
        while (chunk := response.read(min(_CHUNK, most + 1 - len(content)))) and not self.abandoned:
            content += chunk
            if len(content) > most:
                raise HttpError(self.host, f"the response is larger than {most} bytes", final=True)
        if response.length:
            raise HttpError(self.host, "the response is incomplete")
        return bytes(content)


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Cookies are one header each, and cannot be joined with a comma: here they are lines of one."""
    received: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        received[key] = f"{received[key]}\n{value}" if key == "set-cookie" and key in received else value
    return received


class HttpSession:
    """Many requests to one server, over connections that stay open. Thread-safe.

    A server closes a connection that was idle for a while: the next request fails with `stale` then, and may
    or may not have arrived.
    """

    def __init__(self, url: str, environment: Environment, *, seconds: float = 60.0) -> None:
        self._idle: list[http.client.HTTPConnection] = []
        self._url = _parts(url)
        self._environment = environment
        self._seconds = seconds
        self.host = f"{self._url.hostname}:{self._url.port}" if self._url.port else str(self._url.hostname)

    def request(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Send once. `seconds` limits the wait for each part of the exchange."""
        import http.client  # noqa: PLC0415 - most commands send no request

        connection, kept = self._take()
        try:
            connection.request(method, self._url.path.rstrip("/") + target, body=body, headers=dict(headers))
            with connection.getresponse() as response:
                content = response.read()
                received = {name.lower(): value for name, value in response.getheaders()}
                answer = Response(status=response.status, headers=received, body=content)
                closes = response.will_close
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            stale = kept and isinstance(error, ConnectionError | http.client.RemoteDisconnected)
            raise self._error(error, stale=stale) from None
        except BaseException:
            connection.close()
            raise
        if not closes:
            self._idle.append(connection)
        return answer

    def __del__(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        """A connection, and whether it was used before."""
        try:
            return self._idle.pop(), True
        except IndexError:
            pass
        try:
            connection = _connect(self._url, self._environment, _CONNECT_SECONDS, None)
            connection.connect()
        except OSError as error:
            raise self._error(error) from None
        connection.sock.settimeout(self._seconds)
        _disable_delay(connection.sock)
        return connection, False

    def _error(self, error: Exception, *, stale: bool = False) -> HttpError:
        import ssl  # noqa: PLC0415

        final = isinstance(error, ValueError | ssl.SSLCertVerificationError)
        timed_out = isinstance(error, TimeoutError)
        reason = "no response in time" if timed_out else _reason(error)
        hint = _hint(error, self._url)
        return HttpError(self.host, reason, timed_out=timed_out, final=final, stale=stale, hint=hint)


def _disable_delay(sock: socket.socket) -> None:
    """A request is sent in two parts, and the second must not wait until the first is acknowledged."""
    import socket  # noqa: PLC0415

    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _connect(
    url: SplitResult,
    environment: Environment,
    seconds: float,
    ca: str | None,
    rules: AddressRules | None = None,
    own: ssl.SSLContext | None = None,
) -> http.client.HTTPConnection:
    """Not connected yet, unless there are rules."""
    import http.client  # noqa: PLC0415

    host, port = str(url.hostname), url.port or _PORTS[url.scheme]
    context = (own or tls_context(host, environment, ca)) if url.scheme == "https" else None
    if rules is not None:
        return rules.open_connection(host, port, context, seconds)
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=seconds)
    proxy = _proxy(host, port, environment)
    if proxy is None:
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
    at = str(proxy.hostname), proxy.port or _PORTS["http"]
    connection = http.client.HTTPSConnection(*at, timeout=seconds, context=context)
    connection.set_tunnel(host, port, headers=_proxy_headers(proxy))
    return connection


def tls_context(host: str, environment: Environment, ca: str | None = None) -> ssl.SSLContext:
    """Trusts this CA file, or those that the environment names, or the system's. For other protocols too."""
    file = ca or _first(environment, *_CA_FILES)
    folder = None if ca else environment.get("SSL_CERT_DIR")
    try:
        return _context(file, folder)
    except OSError:
        reason = f"cannot read the certificates in {file or folder}"
        raise HttpError(host, reason, final=True) from None


def own_tls_context(authority: bytes | None, identity: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    """Trusts only this authority (PEM; none: the system's), and shows this certificate with its key.

    Raises ValueError if one of them cannot be used. The key is never in a folder that others can enter.
    """
    import ssl  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
        if identity is not None:
            with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as folder:
                files = Path(folder, "certificate"), Path(folder, "key")
                for file, content in zip(files, identity, strict=True):
                    file.touch(mode=0o600)
                    file.write_bytes(content)
                context.load_cert_chain(*files)
    except (ssl.SSLError, UnicodeDecodeError):
        raise ValueError("a certificate or key is not valid PEM") from None
    return context


def _proxy(host: str, port: int, environment: Environment) -> SplitResult | None:
    """The proxy of the environment for this host; none for local addresses."""
    address = _first(environment, "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    local = is_local_address(host) or host == _METADATA
    if address is None or local or _bypasses_proxy(host, port, environment):
        return None
    try:
        proxy = urlsplit(address if "://" in address else f"http://{address}")
        _ = proxy.port
    except ValueError:
        reason = "the address of the proxy in the environment is not valid"
        raise HttpError(host, reason, final=True) from None
    if proxy.scheme != "http" or not proxy.hostname:
        reason = f"{proxy.scheme}:// proxies are not supported; use an http:// one"
        raise HttpError(host, reason, final=True)
    return proxy


def _bypasses_proxy(host: str, port: int, environment: Environment) -> bool:
    """Whether `no_proxy` lists this host: `*`, or a domain with its subdomains, with or without a port."""
    listed = (_first(environment, "no_proxy", "NO_PROXY") or "").lower().replace(",", " ").split()
    names = (entry.removeprefix("*").removeprefix(".") for entry in listed)
    return any(
        not name or f".{host}".endswith(f".{name}") or f".{host}:{port}".endswith(f".{name}")
        for name in names
    )


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    from base64 import b64encode  # noqa: PLC0415

    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(user.encode()).decode()}


def _first(environment: Environment, *names: str) -> str | None:
    return next((value for name in names if (value := environment.get(name))), None)


@lru_cache(maxsize=8)
def _context(ca_file: str | None, ca_folder: str | None) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - 10 ms, only for a request

    return ssl.create_default_context(cafile=ca_file, capath=ca_folder)


def _reason(error: Exception) -> str:
    """Without what was sent: the library's message about a bad header quotes it."""
    import socket  # noqa: PLC0415
    import ssl  # noqa: PLC0415

    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or 'no reason given'}"
        case socket.gaierror():
            return "unknown host"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case UnicodeError() | ValueError():
            return "the request contains a character that HTTP does not allow"
        case _:
            return f"the response is not HTTP ({type(error).__name__})"


def _hint(error: Exception, url: SplitResult) -> str | None:
    """For certificates, and for http where https is spoken or the other way around."""
    import http.client  # noqa: PLC0415
    import ssl  # noqa: PLC0415

    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAME:
            return "Use a name that the certificate contains."
        return "If your own authority issued it: export SSL_CERT_FILE=/path/to/authority.pem"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        other = f"Try http://{url.netloc}" if is_local_address(str(url.hostname)) else "Check the port."
        return f"The program at this address does not speak TLS. {other}"
    if isinstance(error, http.client.BadStatusLine) and url.scheme == "http":
        return f"The program at this address may expect TLS. Try https://{url.netloc}"
    return None
