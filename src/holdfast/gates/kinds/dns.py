"""Names have exactly the expected addresses, at every DNS server that is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from ipaddress import ip_address

from holdfast.config.gates import DnsGate
from holdfast.gates.interface import Met, NotMet, NotObservable, Observation, Tools
from holdfast.kernel.text import plural
from holdfast.system import clock
from holdfast.system.dns import DnsError, NameServer, addresses_of, name_server, system_servers

_WILDCARD = "*."


class Dns:
    def __init__(self, settings: DnsGate, tools: Tools) -> None:
        del tools
        self._settings = settings

    async def observe(self, seconds: float) -> Observation:
        settings = self._settings
        named = [name_server(text) for text in settings.resolvers]
        if None in named:
            wrong = settings.resolvers[named.index(None)]
            return NotObservable(text=f"{wrong} is not the IP address of a DNS server")
        try:
            groups = tuple((server,) for server in named if server is not None) or (system_servers(),)
        except DnsError as error:
            return NotObservable(text=str(error))
        checks = [
            asyncio.to_thread(_problem, name, settings.equals, servers, seconds)
            for servers in groups
            for name in settings.name
        ]
        problem = next(filter(None, await asyncio.gather(*checks)), None)
        if problem is not None:
            return NotMet(
                text=problem,
                next_step="Check the record in the zone, and which name servers the zone is delegated to.",
            )
        at = f" at {plural(len(groups), 'DNS server')}" if settings.resolvers else ""
        return Met(text=f"{', '.join(settings.name)} → {', '.join(settings.equals)}{at}")


def _problem(
    name: str, expected: Collection[str], servers: tuple[NameServer, ...], seconds: float
) -> str | None:
    at = f" at {servers[0]}" if len(servers) == 1 else ""
    asked = (
        f"holdfast-{clock.random_token(4)}.{name.removeprefix(_WILDCARD)}"
        if name.startswith(_WILDCARD)
        else name
    )
    try:
        found = addresses_of(asked, servers, seconds)
        hosts = {text: addresses_of(text, servers, seconds) for text in expected if not is_address(text)}
    except DnsError as error:
        return f"{name}{at}: {error}"
    mistake = address_mistake(found, expected, hosts)
    return f"{name}{at}: {mistake}" if mistake is not None else None


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def address_mistake(
    found: frozenset[str], expected: Collection[str], hosts: dict[str, frozenset[str]]
) -> str | None:
    """What is wrong with the addresses of a name. `hosts`: those of the expected host names. Pure."""
    if not found:
        return "has no address"
    addresses = {str(ip_address(text)) for text in expected if is_address(text)}
    if missing := addresses - found:
        return f"is {_listed(found)}, without {_listed(missing)}"
    for host, allowed in hosts.items():
        if not allowed:
            return f"is {_listed(found)}, but the expected {host} has no address"
        if not allowed & found:
            return f"is {_listed(found)}, but {host} is {_listed(allowed)}"
    if other := found - addresses - frozenset().union(*hosts.values()):
        return f"is also {_listed(other)}, besides {', '.join(expected)}"
    return None


def _listed(addresses: Collection[str]) -> str:
    return ", ".join(sorted(addresses))
