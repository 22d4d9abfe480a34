"""`holdfast login`: store the address of a server and a token for it."""

from __future__ import annotations

import sys
from typing import Annotated

from holdfast.cli.command import Argument, Invocation
from holdfast.kernel.errors import Exit, UsageError


def login(
    invocation: Invocation,
    url: Annotated[str | None, Argument(metavar="URL", help="The server. Default: HOLDFAST_URL.")] = None,
) -> Exit:
    """Log in to a server: check a token and store it.

    The token comes from HOLDFAST_TOKEN, HOLDFAST_TOKEN_FILE or standard input, never from the command line.
    """
    from holdfast.identity.client import (
        URL_VARIABLE,
        ServerClient,
        ServerLogin,
        current_token,
        given_token,
        store_login,
        token_source,
    )

    environment = invocation.environment
    address = url or environment.get(URL_VARIABLE)
    if address is None:
        raise UsageError("HF-SRV-7", "no server is named", hint="holdfast login https://holdfast.example.com")
    token = given_token(environment) or _typed_token()
    if not token:
        raise UsageError(
            "HF-SRV-7",
            "no token is given",
            hint="Set HOLDFAST_TOKEN or HOLDFAST_TOKEN_FILE, or pass the token on standard input.",
        )
    invocation.console.redactor.register(token)
    stored = ServerLogin(url=address.rstrip("/"), token=token, source=token_source(environment))
    current = current_token(ServerClient(stored, environment))
    file = store_login(environment, stored)
    document = {"version": 1, "url": stored.url, "file": str(file)}
    document |= {name: current[name] for name in ("name", "role", "tenant")}
    return invocation.answer(
        document, f" Logged in to {stored.url} as {current['name']} ({current['role']})."
    )


def _typed_token() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Token: ").strip()
    return sys.stdin.readline().strip()
