"""`holdfast repository`: repositories that the server fetches itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Server
from holdfast.kernel.errors import Exit
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.identity.client import ServerClient

HELP = "Register, list and remove repositories on the server."
COMMANDS = ("add", "list", "remove")
_PATH = "/api/v1/repositories"


def add(
    invocation: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="How runs name it.")],
    url: Annotated[str, Argument(metavar="URL", help="https://HOST/PATH or git@HOST:PATH.")],
    branch: Annotated[
        str | None, Option("--branch", metavar="NAME", help="The default branch. Default: main.")
    ] = None,
    credentials: Annotated[
        str | None,
        Option(
            "--credentials",
            metavar="REFERENCE",
            help="Where workers read the token for https, for example vault:kv/git#token. Never the token.",
        ),
    ] = None,
    server: Server = None,
) -> Exit:
    """Register a repository. Needs the role admin."""
    given = {"name": name, "url": url, "branch": branch, "credentials": credentials}
    wanted = {key: value for key, value in given.items() if value is not None}
    added = _client(invocation, server).send("POST", _PATH, wanted)
    shown = f" {added['id']}  {added['name']}: {added['url']}, branch {added['branch']}"
    return invocation.answer({"version": 1, "repository": added}, shown)


def list_(invocation: Invocation, server: Server = None) -> Exit:
    """List the repositories of your tenant."""
    repositories = list(_client(invocation, server).pages(_PATH, "repositories"))
    lines = [
        f" {each['id']}  {each['name']}: {each['url']}, branch {each['branch']}"
        + (f", credentials {each['credentials']}" if each["credentials"] else "")
        for each in repositories
    ]
    count = plural(len(repositories), "repository", "repositories")
    return invocation.answer({"version": 1, "repositories": repositories}, *lines, f" {count}")


def remove(
    invocation: Invocation,
    repository: Annotated[str, Argument(metavar="NAME|ID", help="As `repository list` shows it.")],
    server: Server = None,
) -> Exit:
    """Remove a repository. Runs of it that have not begun fail."""
    _client(invocation, server).send("DELETE", f"{_PATH}/{quote(repository, safe='')}")
    return invocation.answer({"version": 1, "removed": repository}, f" Removed {repository}.")


def _client(invocation: Invocation, address: str | None) -> ServerClient:
    from holdfast.cli.server.connection import open_server

    return open_server(invocation, address).client
