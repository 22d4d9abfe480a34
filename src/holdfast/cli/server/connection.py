"""The server that a command line names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.changes.repository import open_repository
from holdfast.cli.command import Invocation
from holdfast.config.read import find
from holdfast.identity.client import ServerClient, login_for
from holdfast.kernel.errors import Exit, UsageError
from holdfast.plans.status import Status
from holdfast.runs.run import Run
from holdfast.runs.server_runs import ServerRuns, is_missing
from holdfast.runs.stored_plan import read_stored_plan
from holdfast.store.blob_cipher import PLAN
from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_store import ServerRunStore
from holdfast.terraform.plan.masked_plan import MaskedPlan

_AT_ONCE: Final = 20
"""Blobs that one request reads."""


def open_server(invocation: Invocation, address: str | None) -> ServerRuns:
    """`address` is the value of --server; empty: the current server."""
    if address and "://" not in address:
        raise UsageError(
            "HF-USE-43",
            f"--server {address}: not an address",
            hint="Write --server https://HOST, or --server alone for the server that is known.",
        )
    login = login_for(invocation.environment, address)
    invocation.console.redactor.register(login.token)
    return ServerRuns(ServerClient(login, invocation.environment))


def named_server(invocation: Invocation, address: str | None) -> ServerRuns | None:
    """Of --server; without a configuration file, the one that is known. None: the run store is meant."""
    if address is not None:
        return open_server(invocation, address)
    if invocation.config is None:
        try:
            find(Path.cwd())
        except UsageError:
            return known_server(invocation)
    return None


def known_server(invocation: Invocation) -> ServerRuns | None:
    """That of HOLDFAST_URL, or where the user is logged in."""
    try:
        return open_server(invocation, None)
    except UsageError:
        return None


def where_run_is(
    invocation: Invocation,
    address: str | None,
    here: Callable[[], Exit],
    there: Callable[[ServerRuns], Exit],
) -> Exit:
    """`there` for a run of the server that --server names, or that is known and has it; otherwise `here`."""
    if (named := named_server(invocation, address)) is not None:
        return there(named)
    try:
        return here()
    except UsageError as error:
        if not is_missing(error):
            raise
        missing = error.problem
    server = known_server(invocation)
    if server is None:
        hint = f"{missing.hint}. For a run of a server, add --server URL, or log in: holdfast login URL"
        raise UsageError(missing.code, missing.message, hint=hint)
    try:
        return there(server)
    except UsageError as error:
        if not is_missing(error):
            raise
    raise UsageError(
        missing.code,
        f"{missing.message}, neither in the run store nor on the server {server.client.url}",
        hint=f"{missing.hint}, holdfast runs list --server",
    )


def store_server(invocation: Invocation) -> ServerRuns | None:
    """The server that is the run store of the repository, if it is one."""
    store = open_repository(invocation.config, invocation.environment).store
    return open_server(invocation, store.blobs.shown) if store.on_server else None


def open_current_server(invocation: Invocation, address: str | None) -> ServerRuns:
    """The server that is named, or that is the run store, or where the user is logged in."""
    named = named_server(invocation, address)
    return named or store_server(invocation) or open_server(invocation, None)


class StoredPlans:
    """As runs stored them, with all that a person is shown: more than their documents have."""

    def __init__(self, invocation: Invocation, server: ServerRuns) -> None:
        login, variables = server.client.login, invocation.environment.variables
        self._blobs = ServerBlobs(login.url, lambda: login.token, variables, source=login.source)
        self._store = ServerRunStore(self._blobs)

    def of(self, run: Mapping[str, Any]) -> MaskedPlan:
        operation = "apply" if run["status"] == Status.APPLIED else "plan"
        known = Run(id=run["id"], stack=run["stack"], operation=operation, status=Status(run["status"]))
        return read_stored_plan(self._store, known)

    def several(self, runs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, MaskedPlan]]:
        """Those that are stored, by run, with few requests."""
        left = list(runs)
        while left:
            some, left = left[:_AT_ONCE], left[_AT_ONCE:]
            self._blobs.read_ahead([f"runs/{run['id']}/{PLAN}" for run in some])
            for run in some:
                with contextlib.suppress(UsageError):
                    yield run["id"], self.of(run)
