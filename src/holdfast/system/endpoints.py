"""Whether a port accepts connections, and which certificate is presented there."""

from __future__ import annotations

import socket
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from holdfast.system.environment import Environment
from holdfast.system.http import HttpError, tls_context

if TYPE_CHECKING:
    import ssl

_OTHER_NAME = (62, 64)
"""The certificate is for another host or address: numbers of OpenSSL."""


class EndpointError(Exception):
    """Nothing could be observed there; the text says why."""


class PeerCertificate(NamedTuple):
    distrusted: str | None
    """Why its chain is not trusted; None: it is."""
    matches: bool
    """Whether it is for the name that was asked for."""
    names: tuple[str, ...]
    """Of its subject alternative names, or its common name where it has none."""
    issuer: str
    expires: datetime


def open_port(host: str, port: int, seconds: float) -> str:
    """Connect and close. Returns the address that answered."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            return str(connection.getpeername()[0])
    except OSError as error:
        raise EndpointError(_reason(error)) from None


def peer_certificate(
    host: str, port: int, name: str, *, environment: Environment, seconds: float, ca_file: str | None = None
) -> PeerCertificate:
    """The certificate for `name` at this address, and what verifying it says. Nothing is sent there."""
    import ssl  # noqa: PLC0415 - only for TLS

    try:
        context = tls_context(name, environment, ca_file)
    except HttpError as error:
        raise EndpointError(error.reason) from None
    distrusted: str | None = None
    try:
        # A context of its own: the shared one must go on checking names.
        content = _handshake(_without_name(context), host, port, name, seconds)
    except ssl.SSLCertVerificationError as error:
        distrusted = error.verify_message
        content = _read_unverified(host, port, name, seconds)
    except (OSError, ValueError) as error:
        raise EndpointError(_reason(error)) from None
    return _described(content, name, distrusted)


def _without_name(trusted: ssl.SSLContext) -> ssl.SSLContext:
    """Trusts the same authorities, and any name: that is compared by itself."""
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    authorities = trusted.get_ca_certs(binary_form=True)
    if authorities:
        context.load_verify_locations(cadata=b"".join(authorities))
    else:  # A folder of certificates is read when it is needed.
        context.load_default_certs()
    return context


def _read_unverified(host: str, port: int, name: str, seconds: float) -> bytes:
    """To show which certificate is not trusted."""
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        return _handshake(context, host, port, name, seconds)
    except (OSError, ValueError) as error:
        raise EndpointError(_reason(error)) from None


def _handshake(context: ssl.SSLContext, host: str, port: int, name: str, seconds: float) -> bytes:
    with (
        socket.create_connection((host, port), timeout=seconds) as connection,
        context.wrap_socket(connection, server_hostname=name) as secured,
    ):
        content = secured.getpeercert(binary_form=True)
    if content is None:
        raise OSError(None, "the server presented no certificate")
    return content


def _described(content: bytes, name: str, distrusted: str | None) -> PeerCertificate:
    from cryptography import x509  # noqa: PLC0415 - only for TLS

    try:
        certificate = x509.load_der_x509_certificate(content)
        names = _names(certificate)
    except ValueError:
        raise EndpointError("the server presented a certificate that cannot be read") from None
    return PeerCertificate(
        distrusted=distrusted,
        matches=any(name_matches(pattern, name) for pattern in names),
        names=names,
        issuer=certificate.issuer.rfc4514_string(),
        expires=certificate.not_valid_after_utc,
    )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509  # noqa: PLC0415

    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = map(str, alternative.get_values_for_type(x509.IPAddress))
    return (*alternative.get_values_for_type(x509.DNSName), *addresses)


def name_matches(pattern: str, name: str) -> bool:
    """A wildcard stands for exactly one label, the first (RFC 6125)."""
    pattern, name = pattern.lower().rstrip("."), name.lower().rstrip(".").strip("[]")
    if not pattern.startswith("*."):
        return pattern == name
    first, dot, rest = name.partition(".")
    return bool(first and dot) and rest == pattern[2:]


def _reason(error: Exception) -> str:
    import ssl  # noqa: PLC0415

    match error:
        case ssl.SSLError():
            return f"TLS failed: {error.reason or 'no reason given'}"
        case TimeoutError():
            return "no answer in time"
        case socket.gaierror():
            return "unknown host"
        case OSError():
            return (error.strerror or str(error) or type(error).__name__).lower()
        case _:
            return "the name is not valid"


if TYPE_CHECKING:
    from cryptography import x509
