"""Every code host, and the one that the current job belongs to."""

from __future__ import annotations

from holdfast.kernel.errors import UsageError
from holdfast.notify.hosts.azure import AZURE
from holdfast.notify.hosts.github import GITHUB
from holdfast.notify.hosts.gitlab import GITLAB
from holdfast.notify.hosts.interface import CodeHost
from holdfast.system.environment import Environment

HOSTS: tuple[CodeHost, ...] = (GITHUB, GITLAB, AZURE)


def current_host(environment: Environment) -> CodeHost | None:
    return next((host for host in HOSTS if host.is_running(environment)), None)


def host_named(name: str, environment: Environment) -> CodeHost | None:
    """Of `--pull-request`; None: `auto`, and this is not a job of any host."""
    if name == "auto":
        return current_host(environment)
    for host in HOSTS:
        if host.name == name:
            return host
    choices = ", ".join(host.name for host in HOSTS)
    raise UsageError(
        "HF-TELL-11",
        f"--pull-request {name}: there is no such code host",
        hint=f"Write one of: auto, {choices}. In a job of one of them, `auto` is enough.",
    )
