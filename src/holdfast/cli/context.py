"""From a command to its session: engines, record, key and Ctrl-C, the same for every command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.changes.repository import Repository, open_repository
from holdfast.cli.command import Invocation
from holdfast.kernel.errors import UsageError
from holdfast.plans.context import Session, opened
from holdfast.plans.events import Listener, Stopping, nobody
from holdfast.secrets.keys import Key, Obtained, is_key_configured, load_or_create_key
from holdfast.store.place import folders_of
from holdfast.system import processes
from holdfast.terraform.engine.interface import Stop
from holdfast.terraform.workdirs.gc import Cleaned, collect_garbage_quickly

T = TypeVar("T")


class Workshop:
    """A repository that is open, and what is needed to run something in it."""

    def __init__(self, invocation: Invocation, *, wait: float = 0.0) -> None:
        self.invocation = invocation
        self.wait = wait
        self._key: Obtained | None = None
        self.repository: Repository = open_repository(invocation.config, invocation.environment, self.key)
        self.repository.tune(invocation.console.redactor)
        self.stop: Stop | None = None
        self.cleaned: Cleaned | None = None

    def key(self) -> Key:
        """The key that seals what is kept, made on first use and named then."""
        if self._key is None:
            self.require_key_that_lasts()
            self._key = load_or_create_key(self.invocation.environment)
            if self._key.made:
                self.invocation.console.warn(
                    f"made a key in {self._key.file}: back this up, nothing sealed opens without it"
                )
        return self._key.key

    def require_key_that_lasts(self) -> None:
        """A store that outlives this machine is not sealed with a key that does not."""
        repository, environment = self.repository, self.invocation.environment
        elsewhere = not folders_of(repository.store.blobs)
        if is_key_configured(environment) or not (
            elsewhere or (environment.ci and repository.config.store_named)
        ):
            return
        why = "is not on this machine" if elsewhere else "outlives this CI runner"
        raise UsageError(
            "HF-KEY-8",
            f"the run store {repository.store.blobs.shown} {why}, and needs a key that lasts as long",
            hint="Set HOLDFAST_KEY (openssl rand -base64 32 makes one), or HOLDFAST_KEY_FILE to its file.",
        )

    def require_store(self) -> None:
        """The right key, and a store that keeps its promises: once, and not as a failure of every stack.

        A folder that holds nothing yet stays so until something has to be remembered.
        """
        self.require_key_that_lasts()
        store = self.repository.store
        if not folders_of(store.blobs) or not store.empty:
            _ = store.key

    def run(
        self, work: Callable[[Session], Awaitable[T]], tell: Listener = nobody, *, storeless: bool = False
    ) -> T:
        """Run something that needs engines. The first Ctrl-C is graceful, the second at once.

        Whatever comes of it, what old runs left is looked after at its end. `storeless`: it needs nothing of
        the run store, which is left alone, as is its key.
        """
        if not storeless and not folders_of(self.repository.store.blobs):
            self.require_key_that_lasts()
        try:
            return asyncio.run(self._inside(work, tell))
        finally:
            if not storeless:
                self._ship_the_record()
            self.cleaned = collect_garbage_quickly(
                self.repository.environment.home, self.repository.config.work
            )

    def _ship_the_record(self) -> None:
        """What the audit log has and S3 has not yet. That it does not arrive harms nothing: it waits."""
        address = self.repository.config.audit_s3
        if address is None or self.repository.store.empty:
            return
        from holdfast.audit.sink import ship  # only where somebody asked for it

        shipped = ship(self.repository.store, address, self.invocation.environment.variables)
        if shipped.warning is not None:
            self.invocation.console.warn(shipped.warning)

    async def _inside(self, work: Callable[[Session], Awaitable[T]], tell: Listener) -> T:
        stop = self.stop = Stop()
        loop = asyncio.get_running_loop()

        def asked_to_stop() -> None:
            tell(Stopping(level=stop.ask()))
            processes.kill_background()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, asked_to_stop)
        repository = self.repository
        async with opened(
            config=repository.config,
            environment=self.invocation.environment,
            code=repository.code,
            store=repository.store,
            key=self.key,
            choose=repository.choose,
            redactor=self.invocation.console.redactor,
            who=repository.who,
            stop=stop,
            stacks=repository.by_name,
            wait=self.wait,
            tell=tell,
        ) as session:
            return await work(session)
