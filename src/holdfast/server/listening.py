"""Where the server listens, how that is protected, and what clients call it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from holdfast.config.server import ServerSettings
from holdfast.kernel.errors import Busy, UsageError
from holdfast.secrets.keys import read_private


class ListenAddress(NamedTuple):
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


def url_of(listening: socket.socket, settings: ServerSettings) -> str:
    """One that clients can use: for all addresses, a name of the certificate or of this machine."""
    scheme = "https" if settings.tls is not None else "http"
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = _certificate_name(settings) or socket.gethostname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _certificate_name(settings: ServerSettings) -> str | None:
    """The first DNS name without a wildcard."""
    from cryptography import x509  # noqa: PLC0415 - only for TLS on all addresses

    if settings.tls is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(tls_files(settings)[0].read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return None
    return next((name for name in names.get_values_for_type(x509.DNSName) if "*" not in name), None)


def listen_address(text: str) -> ListenAddress:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the largest port
        raise UsageError(
            "HF-SRV-1",
            f"{text} is not an address to listen on",
            hint="Write HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420; port 0 picks a free one.",
        )
    return ListenAddress(host.strip("[]"), int(port))


def require_protected(address: ListenAddress, settings: ServerSettings) -> None:
    if settings.tls is not None:
        tls_files(settings)
    elif not address.is_local and not settings.trusted_proxies:
        raise UsageError(
            "HF-SRV-2",
            f"{address.host} can be reached by other machines, and tokens would be sent unencrypted",
            hint="Name `tls` files, or `trusted_proxies` that terminate TLS, in server.yaml; "
            "docs/server.md shows both. Or listen on 127.0.0.1.",
        )


def tls_files(settings: ServerSettings) -> tuple[Path, Path]:
    """Checked, so that a mistake is reported before anything starts."""
    tls = settings.tls
    assert tls is not None  # noqa: S101 - the callers checked
    certificate, key = (
        settings.folder / Path(str(name)).expanduser() for name in (tls.certificate, tls.key_file)
    )
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:  # `ssl.SSLError` is one.
        raise UsageError(
            "HF-SRV-3",
            f"the TLS files {certificate} and {key} cannot be used: {_tls_reason(certificate, key, error)}",
            hint="Both are PEM files, the key belongs to the certificate, and this user can read them.",
        ) from None
    read_private(key)
    return certificate, key


def _tls_reason(certificate: Path, key: Path, error: OSError) -> str:
    for file, mark in ((certificate, b"CERTIFICATE-----"), (key, b"PRIVATE KEY-----")):
        try:
            if mark not in file.read_bytes():
                return f"{file.name} contains no {mark.decode().lower().strip('-')} in PEM format"
        except OSError as unreadable:
            return f"{file.name}: {unreadable.strerror}"
    mismatch = isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH"
    return "the key is not that of the certificate" if mismatch else error.strerror or type(error).__name__


@contextmanager
def hold_socket(address: ListenAddress) -> Iterator[socket.socket]:
    """Bound first: a used port is reported before the database starts."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: a response is sent in two parts, and the second would wait 40 ms otherwise.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            listening.bind(address)
        except OSError as error:
            raise Busy(
                "HF-SRV-4",
                f"cannot listen on {address.host}:{address.port}: {error.strerror or error}",
                hint="Usually this server already runs: holdfast db status. Otherwise another program uses "
                "the port: --listen 127.0.0.1:0 picks a free one.",
            ) from None
        yield listening
