"""Which addresses a name has, and which of them a request of somebody else may be sent to.

Who names an address for the server to call must not reach its network through it: the addresses of the name
are checked, and the connection is opened to one that was checked. The name is not looked up again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import http.client
    import socket
    import ssl
    from collections.abc import Iterable
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

_LONGEST = 1000
_PUBLIC_6 = "2000::/3"
_TRANSLATED = "64:ff9b::/96"
"""Addresses of IPv4 behind a NAT64."""
# Nothing there receives a webhook, and what answers gives credentials away.
_NEVER = (
    "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
    "100.100.100.200/32", "168.63.129.16/32",
    "::/128", "fe80::/10", "ff00::/8", "fd00:ec2::/32", "fd20:ce::/32",
)  # fmt: skip


class AddressRefusedError(OSError):
    """The name has an address that requests must not be sent to. It is not named: its reader asked for it."""

    def __init__(self) -> None:
        super().__init__(None, "its address is not allowed")


class AddressRules(NamedTuple):
    """Public addresses are allowed, and those of `private`; link-local and metadata addresses never."""

    private: tuple[str, ...] = ()
    """Networks."""

    def allow(self, text: str) -> bool:
        """Text that is no address is not allowed."""
        from ipaddress import ip_address  # noqa: PLC0415 - only for a request

        try:
            address = _plain(ip_address(text.partition("%")[0]))
        except ValueError:
            return False
        if _is_in(address, _NEVER):
            return False
        return _is_public(address) or _is_in(address, self.private)

    def url_problem(self, url: str) -> str | None:
        """What is wrong with an address to send to, as far as it can be seen without a look at its name."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return "is not a valid address"
        if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or " " in url:
            return f"must be at most {_LONGEST} printable ASCII characters, without spaces"
        secure = parts.scheme == "https" or (parts.scheme == "http" and is_local_address(host))
        if not secure or not host or port == 0:
            return "must be an address such as https://example.com/hook"
        if "@" in parts.netloc or "#" in url:
            return "must not contain a user, a password or a fragment"
        if (_is_address(host) and not self.allow(host)) or (
            host == "localhost" and not self.allow("127.0.0.1")
        ):
            return (
                "must not be an internal address, unless `webhooks.private_addresses` in server.yaml lists it"
            )
        return None

    def open_connection(
        self, host: str, port: int, context: ssl.SSLContext | None, seconds: float
    ) -> http.client.HTTPConnection:
        """With TLS if there is a context: the certificate must be one of the host."""
        import http.client  # noqa: PLC0415 - only for a request

        sock, connection = self._open_socket(host, port, seconds), http.client.HTTPConnection(host, port)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=host)
            connection.default_port = http.client.HTTPS_PORT
        connection.sock = sock
        connection.auto_open = 0  # Never to another address.
        return connection

    def _open_socket(self, host: str, port: int, seconds: float) -> socket.socket:
        """To one of the addresses of the host, if all of them are allowed."""
        import socket  # noqa: PLC0415 - only for a request

        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
        if not addresses or not all(map(self.allow, addresses)):
            raise AddressRefusedError
        failure: OSError | None = None
        for address in addresses:
            try:
                return socket.create_connection((address, port), timeout=seconds)
            except OSError as error:
                failure = error
        raise failure or AddressRefusedError


def is_local_address(host: str) -> bool:
    """Loopback: what is sent there stays on this machine."""
    from ipaddress import ip_address  # noqa: PLC0415 - only for a request

    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback


def _is_address(host: str) -> bool:
    from ipaddress import ip_address  # noqa: PLC0415 - only for a request

    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _plain(address: Address) -> Address:
    """The address of IPv4 that one of IPv6 stands for."""
    from ipaddress import IPv4Address  # noqa: PLC0415 - only for a request

    if isinstance(address, IPv4Address):
        return address
    if _is_in(address, (_TRANSLATED,)):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    inside = address.version == 4 or _is_in(address, (_PUBLIC_6,))  # noqa: PLR2004 - of the protocol
    return inside and address.is_global and not address.is_reserved


def _is_in(address: Address, networks: Iterable[str]) -> bool:
    return any(address in _network(text) for text in networks)


@lru_cache(maxsize=256)
def _network(text: str) -> Network:
    from ipaddress import ip_network  # noqa: PLC0415 - only for a request

    return ip_network(text)
