"""What all changes of a worker share: database, run stores, sources, repositories and engines."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.changes.repository import Repository, open_repository
from holdfast.config.secret_refs import SecretRef
from holdfast.identity.principal import Principal
from holdfast.identity.token_rows import TokenRows
from holdfast.kernel.errors import Refused, UsageError
from holdfast.kernel.secret import Secret
from holdfast.secrets.reader import SecretReader
from holdfast.server.app import ServerParts
from holdfast.store.server_runs.contents import upload_name
from holdfast.store.server_runs.rows import Change, RunRows
from holdfast.store.server_runs.sources import RepositoryRows, Source, SourceKind, SourceRows
from holdfast.store.server_store import ServerRunStore
from holdfast.system.environment import Environment
from holdfast.terraform.engine.environment import ALWAYS, ALWAYS_PREFIXES
from holdfast.worker.listener import Slot
from holdfast.worker.source_folders import Commit, SourceFolders
from holdfast.worker.store_client import StoreRoutes, WorkerRunStore, store_of_change
from holdfast.worker.tracing import Tracing
from holdfast.worker.warm_engines import WarmEngines

_MOST_REPOSITORIES: Final = 20
_OURS: Final = ("HOLDFAST_HOME", "HOLDFAST_KEY_FILE")
"""Paths: they say where files are that code in a plan must not read."""
CONFIGURATION: Final = "holdfast.yaml"
_WITHOUT_TOKEN: Final = frozenset({"webhook", "schedule"})


def change_environment(own: Environment, passed: Iterable[str]) -> Environment:
    """What changes see of the worker's environment, also through `env:` secrets. Nothing of the server."""
    names = {*_OURS, *(name for name in passed if not name.startswith("HOLDFAST_"))}
    return Environment(
        variables={
            name: value
            for name, value in own.variables.items()
            if name in ALWAYS or name.startswith(ALWAYS_PREFIXES) or name in names
        }
    )


class WorkerServices:
    def __init__(
        self,
        parts: ServerParts,
        routes: StoreRoutes,
        environment: Environment,
        slot: Slot,
        *,
        address: str,
        warm: WarmEngines,
        tracing: Tracing | None = None,
    ) -> None:
        """`environment`: what changes see. `address`: where supervisors reach the run store."""
        self.database = parts.database
        self.log = parts.log
        self.warm = warm
        self.tracing = tracing
        self._routes = routes
        self.stores = self._routes.stores
        self.runs = RunRows(parts.database)
        self._environment = environment
        self._address = address
        self.slot = slot
        repositories = environment.home / "repositories"
        self._folders = SourceFolders(slot.folder / "sources", repositories, environment.variables)
        self._repositories: OrderedDict[str, Repository] = OrderedDict()

    def store_of(self, change: Change) -> WorkerRunStore:
        """As the person who asked for the change uses it."""
        own = self._environment
        return store_of_change(self._routes, change, own.home, host=own.host, address=self._address)

    def require_requester(self, requester: Principal) -> None:
        """Also when a plan of theirs was approved. A code host has no token: its event was verified. Nor has
        the server itself, which looks for drift.

        The token was valid when the change was submitted: that it expires meanwhile takes nothing back.
        """
        if requester.kind not in _WITHOUT_TOKEN and TokenRows(self.database).was_withdrawn(requester.id):
            raise Refused(
                "HF-RUN-31",
                f"the token of {requester.name} was revoked, so nothing is run for it",
                hint="Submit the change again with a valid token.",
            )

    async def open_repository(self, change: Change, store: ServerRunStore) -> tuple[Source, Repository]:
        """Read once for each source, which never changes."""
        source = await asyncio.to_thread(SourceRows(self.database).of, change.source)
        if source is None or source.tenant != change.tenant:
            raise _gone(change)
        known = self._repositories.pop(source.id, None)
        if known is None:
            folder = await asyncio.to_thread(self._open_folder, change, source)
            file = folder / CONFIGURATION
            known = await asyncio.to_thread(partial(open_repository, file, self._environment, store=store))
        self._repositories[source.id] = known
        if len(self._repositories) > _MOST_REPOSITORIES:
            self._repositories.popitem(last=False)
        return source, replace(known, store=store)

    def _open_folder(self, change: Change, source: Source) -> Path:
        if source.kind is SourceKind.UPLOAD:
            blob = self.stores.of(source.tenant).encrypted.read(upload_name(source.id))
            if blob is None:
                raise _gone(change)
            return self._folders.open_upload(source.id, blob.data)
        repository = RepositoryRows(self.database).of(source.tenant, str(source.repository))
        if repository is None:
            raise _gone(change)
        commit = Commit(
            repository=repository.id,
            url=repository.url,
            revision=source.revision or source.wanted or repository.branch,
            base=source.base,
            credentials=self._credentials(repository.credentials),
        )
        folder, revision = self._folders.open_commit(source.id, commit)
        SourceRows(self.database).set_revision(source.id, revision)
        return folder

    def _credentials(self, reference: str | None) -> Secret | None:
        if reference is None:
            return None
        scheme, _, locator = reference.partition(":")
        reader = SecretReader(self._environment, self._environment.home)
        return reader.read(SecretRef(scheme=scheme, locator=locator))


def _gone(change: Change) -> UsageError:
    return UsageError(
        "HF-RUN-32",
        f"the code of change {change.id} no longer exists on the server",
        hint="Submit it again: holdfast plan --server URL",
    )
