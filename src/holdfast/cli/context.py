"""Opens what a command works with: repository, key, run store, engines and signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.audit.actor import current_actor
from holdfast.changes import preconditions
from holdfast.changes.repository import Repository, open_repository
from holdfast.cli.command import Invocation
from holdfast.kernel.errors import HoldfastError
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.context import ChangeContext, Control, Project, open_context, verified_actor
from holdfast.plans.events import Listener, Stopping, ignore_events
from holdfast.plans.result import StackResult
from holdfast.secrets.keys import Key, LoadedKey, existing_key, load_or_create_key
from holdfast.stacks.stack import Stack
from holdfast.store.blob_cipher import PULL_REQUESTS
from holdfast.store.place import folders_of
from holdfast.system import processes
from holdfast.terraform.engine.interface import Stop
from holdfast.terraform.workdirs.gc import GcResult, collect_garbage_quickly

T = TypeVar("T")


class CommandContext:
    """An open repository, and what is needed to run something in it."""

    def __init__(self, invocation: Invocation, *, wait: float = 0.0, reads: bool = False) -> None:
        """`reads`: the command stores nothing, so it creates no key."""
        self.invocation = invocation
        self.wait = wait
        self._reads = reads
        self._key: LoadedKey | None = None
        self.repository: Repository = open_repository(invocation.config, invocation.environment, self.key)
        self.repository.store.when_waiting(invocation.console.warn)
        self.repository.tune(invocation.console.redactor)
        self.base: BaseRules | None = None
        """The rules that plans are judged by in addition to those of the repository."""
        self.cleaned: GcResult | None = None

    def key(self) -> Key:
        """The encryption key. Created on first use if none is configured, and the user is told where.

        Never for what is encrypted already: a new key would open none of it.
        """
        if self.repository.store.on_server:
            return self.repository.store.key
        if self._key is None:
            preconditions.require_store_key(self.repository)
            environment = self.invocation.environment
            if self._reads or not self.repository.store.empty:
                self._key = existing_key(environment, f"the run store {self.repository.store.blobs.shown}")
            else:
                self._key = load_or_create_key(environment)
            if self._key.created:
                self.invocation.console.warn(
                    f"Created an encryption key in {self._key.file}. Back it up: "
                    "saved plans and states cannot be read without it."
                )
        return self._key.key

    def bundle_key(self, folder: Path) -> Key:
        """The key for a bundle that exists: never a new one."""
        if self.repository.store.on_server:
            return self.repository.store.key
        if self._key is None:
            self._key = existing_key(self.invocation.environment, f"the bundle {folder}")
        return self._key.key

    def notify_others(self, results: tuple[StackResult, ...], operation: str) -> None:
        """After an apply, channels, and the pull requests that planned the same stacks. Never fails it."""
        if self.repository.config.notify.routes:
            from holdfast.cli.notifications import notify_results

            notify_results(self.invocation, self.repository, results, operation)
        with contextlib.suppress(HoldfastError, OSError):
            if self.repository.store.blobs.names(PULL_REQUESTS):
                from holdfast.cli.views.pull_request import notify_applied

                notify_applied(self.invocation, self.repository.store, results)

    def run(
        self,
        work: Callable[[ChangeContext], Awaitable[T]],
        tell: Listener = ignore_events,
        *,
        storeless: bool = False,
    ) -> T:
        """Run something that needs engines. The first Ctrl-C stops gracefully, the second at once.

        Afterwards, also after an error, the audit log is shipped and old work directories are removed.
        `storeless` work does not use the run store or its key.
        """
        repository = self.repository
        if not storeless and not folders_of(repository.store.blobs):
            preconditions.require_store_key(repository)
        try:
            return asyncio.run(self._run(work, tell))
        finally:
            if not storeless and (warning := repository.ship_audit_log()) is not None:
                self.invocation.console.warn(warning)
            if not storeless and not self._reads and repository.config.notify.routes:
                from holdfast.cli.notifications import finish_command

                finish_command(self.invocation, repository)
            self.cleaned = collect_garbage_quickly(repository.environment.home, repository.config.work)

    async def _run(self, work: Callable[[ChangeContext], Awaitable[T]], tell: Listener) -> T:
        stop = Stop()
        loop = asyncio.get_running_loop()

        def request_stop() -> None:
            tell(Stopping(level=stop.ask()))
            processes.kill_background()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, request_stop)
        repository = self.repository
        project = Project(
            config=repository.config,
            environment=self.invocation.environment,
            code=repository.code,
            stacks=repository.by_name,
            base=self.base,
            verified_ci=(lambda: repository.store.is_ci) if repository.store.on_server else None,
            verify_actor=lambda: verified_actor(
                current_actor(repository.environment), repository.environment, repository.config.root
            ),
        )
        async with open_context(
            project,
            repository.store,
            choose=repository.choose,
            redactor=self.invocation.console.redactor,
            control=Control(tell=tell, stop=stop, wait=self.wait),
        ) as change_context:
            try:
                return await work(change_context)
            except HoldfastError as error:
                raise await _explained(change_context, error) from None


def run_on_stack(
    invocation: Invocation,
    name: str,
    work: Callable[[ChangeContext, Stack], Awaitable[T]],
    *,
    reads: bool = False,
) -> tuple[Stack, T]:
    """The stack of this name, and the result of the work on it."""
    context = CommandContext(invocation, reads=reads)
    stack = context.repository.stack(name)
    return stack, context.run(lambda change_context: work(change_context, stack))


async def _explained(context: ChangeContext, error: HoldfastError) -> HoldfastError:
    """The error of an interrupted run, with what is known of that run."""
    from holdfast.runs.outcome import UnknownRun

    if not isinstance(error, UnknownRun):
        return error
    from holdfast.recovery.crash_report import explain_unknown_run

    return await explain_unknown_run(context, error)
