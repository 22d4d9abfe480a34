"""Registries that cannot be reached are detected once in a change, not once per stack.

A host is unreachable when an init failed because of it, after the attempts of Terraform itself and one more
of Holdfast. Other stacks that need a provider from it, which the mirror does not have, then fail at once;
those that may get it from elsewhere try once. The next change starts afresh.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.hcl.eval.code import ModuleCode
from holdfast.kernel.errors import Failed, Problem
from holdfast.kernel.text import plural
from holdfast.terraform.engine.environment import cli_config
from holdfast.terraform.engine.interface import Product

_HOST = re.compile(r"could not connect to ([^\s:]+(?::\d+)?):|Get \"https?://([^/\"]+)/")
_OWN_ATTEMPTS = re.compile(r"giving up after \d+ attempt|failed after \d+ attempts")
_NETWORK = re.compile(
    r"connection refused|no such host|i/o timeout|timed out|TLS handshake|Client\.Timeout|deadline exceeded"
    r"|network is unreachable|no route to host|server misbehaving"
)
_ROUTE = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "TF_CLI_CONFIG_FILE")
_MOST_NAMES = 10
_PARTS = 3
_DEFAULT_HOSTS = {Product.TERRAFORM: "registry.terraform.io", Product.TOFU: "registry.opentofu.org"}

Route = tuple[str | None, ...]
Attempts = Callable[[tuple[Problem, ...]], int | None]
"""How often a command that failed with these problems is tried again; None: as usual."""


class HostUnreachable(Failed):
    def __init__(self, stack: str, host: str, first: str) -> None:
        super().__init__(
            "HF-ENG-23",
            f"{stack} needs a provider from {host}, which cannot be reached (see {first})",
            hint="Check the network and the address, then run the command again.",
        )


def unreachable_host(problems: Iterable[Problem]) -> str | None:
    """The host that a failed init could not reach."""
    for problem in problems:
        match = _HOST.search(problem.message)
        if match is not None and _NETWORK.search(problem.message):
            return match[1] or match[2]
    return None


def was_retried(problems: Iterable[Problem]) -> bool:
    """Whether Terraform itself has tried several times to reach a host."""
    return any(_OWN_ATTEMPTS.search(problem.message) for problem in problems)


def required_addresses(modules: Iterable[ModuleCode], product: Product) -> Iterator[str]:
    """Of the providers that the code requires, with the engine's own registry if they name no host."""
    for required in (value for module in modules for value in module.required_providers.values()):
        source = required.get("source") if isinstance(required, Mapping) else None
        if isinstance(source, str):
            yield source if source.count("/") == _PARTS - 1 else f"{_DEFAULT_HOSTS[product]}/{source}"


def missing_addresses(required: set[str], linked: Mapping[str, bool], product: Product) -> set[str]:
    """Of the providers that the mirror does not have. `linked`: whether it has those of the lock file.

    OpenTofu takes from its own registry what a lock file of Terraform names, unless the code names the host.
    """
    missing = {address for address in {*required, *linked} if not linked.get(address)}
    host = _DEFAULT_HOSTS[Product.TERRAFORM]
    if product is not Product.TERRAFORM:
        missing -= {address for address in linked.keys() - required if address.startswith(f"{host}/")}
    return missing


def download_hosts(addresses: Iterable[str], module: Path, environment: Mapping[str, str]) -> list[str]:
    """The hosts of providers that can only be downloaded. None if the user configured how to install them."""
    if "provider_installation" in cli_config(environment):
        return []
    folders = (Path(environment.get("HOME", "/"), ".terraform.d/plugins"), module / "terraform.d/plugins")
    hosts = {address.split("/")[0] for address in addresses}
    return sorted(host for host in hosts if not any((folder / host).exists() for folder in folders))


class UnreachableHosts:
    """Of one change. The same host may be reachable with other proxy settings."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, Route], str] = {}
        self._stacks: dict[str, list[str]] = {}

    @contextlib.contextmanager
    def watch(self, stack: str, environment: Mapping[str, str]) -> Iterator[Attempts]:
        """An init: how often it is tried again, and what its failure says about a host."""
        try:
            yield self._attempts(_route(environment))
        except Failed as error:
            if (host := unreachable_host(error.problems)) is not None:
                self._first.setdefault((host, _route(environment)), stack)
                self._stacks.setdefault(host, []).append(stack)
            raise

    def require_reachable(self, stack: str, hosts: Iterable[str], environment: Mapping[str, str]) -> None:
        """Before an init that has to download from these hosts."""
        for host in hosts:
            first = self._first.get((host, _route(environment)))
            if first is not None:
                self._stacks[host].append(stack)
                raise HostUnreachable(stack, host, first)

    def _attempts(self, route: Route) -> Attempts:
        def most(problems: tuple[Problem, ...]) -> int | None:
            host = unreachable_host(problems)
            if host is None:
                return None
            if (host, route) in self._first:
                return 0
            return 1 if was_retried(problems) else None

        return most

    def summaries(self) -> Iterator[str]:
        """One line per host, with the stacks that failed because of it."""
        for host, stacks in self._stacks.items():
            if len(stacks) > 1:
                more = len(stacks) - _MOST_NAMES
                names = ", ".join(sorted(stacks)[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
                failed = f"{plural(len(stacks), 'stack')} failed for this reason: {names}"
                yield f"{host} cannot be reached; {failed}"


def _route(environment: Mapping[str, str]) -> Route:
    return tuple(environment.get(name) for name in _ROUTE)
