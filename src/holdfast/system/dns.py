"""The only DNS client that asks chosen servers. Everything else looks names up as the system does."""

from __future__ import annotations

from typing import NamedTuple

_PORT = 53


class DnsError(Exception):
    """The server gave no usable answer; the text says why. That a name does not exist is an answer."""


class NameServer(NamedTuple):
    address: str
    port: int = _PORT

    def __str__(self) -> str:
        if self.port == _PORT:
            return self.address
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def name_server(text: str) -> NameServer | None:
    """From `1.1.1.1`, `10.0.0.2:5353` or `[2606::1]:53`; None if it is no IP address."""
    from ipaddress import ip_address  # noqa: PLC0415 - only for a look-up

    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        return NameServer(str(ip_address(host)), int(port) if port else _PORT)
    except ValueError:
        return None


def system_servers() -> tuple[NameServer, ...]:
    import dns.resolver  # noqa: PLC0415 - 40 ms, only for a look-up

    try:
        resolver = dns.resolver.Resolver()
    except dns.resolver.NoResolverConfiguration:
        raise DnsError("this machine has no DNS servers configured") from None
    return tuple(NameServer(str(server), resolver.port) for server in resolver.nameservers)


def addresses_of(name: str, servers: tuple[NameServer, ...], seconds: float) -> frozenset[str]:
    """The addresses of a name, IPv4 and IPv6, from the first of these servers that answers. May be none."""
    import dns.exception  # noqa: PLC0415
    import dns.resolver  # noqa: PLC0415

    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [server.address for server in servers]
    resolver.nameserver_ports = {server.address: server.port for server in servers}
    resolver.lifetime = seconds
    resolver.timeout = seconds
    found: set[str] = set()
    try:
        for kind in ("A", "AAAA"):
            answer = resolver.resolve(name, kind, search=False, raise_on_no_answer=False)
            found.update(record.address for record in answer)
    except dns.resolver.NXDOMAIN:
        return frozenset()
    except dns.resolver.LifetimeTimeout:
        raise DnsError("no answer in time") from None
    except dns.resolver.NoNameservers as error:
        codes = {str(entry[3]) for entry in error.kwargs.get("errors", ())}
        raise DnsError(f"refused to answer: {', '.join(sorted(codes)) or 'no reason given'}") from None
    except (dns.exception.DNSException, UnicodeError):
        raise DnsError("the name is not valid") from None
    return frozenset(found)
