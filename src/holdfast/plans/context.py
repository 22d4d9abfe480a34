"""What all runs of one change share: engines, work, record, and the wish to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from holdfast.audit.actor import current_actor
from holdfast.audit.log import Audit
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.plans.events import Listener, nobody
from holdfast.plans.retry import Retrying
from holdfast.secrets.keys import Key
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor
from holdfast.stacks.backend import CodeBackend, code_backend
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.system.environment import Environment
from holdfast.terraform.engine.interface import CancelTimeouts, Engine, EngineId, Stop
from holdfast.terraform.engine.pool import WorkerPool
from holdfast.terraform.engine.selection import EngineSelection
from holdfast.terraform.workdirs.scratch import open_scratch_folder

if TYPE_CHECKING:
    from holdfast.review.plan_checks import PlanChecks


class Session(Struct, kw_only=True):
    """One change in this process. Opened with `opened`, which also ends every engine process."""

    config: Config
    environment: Environment
    code: Code
    store: RunStore
    key: Callable[[], Key]
    """Asked for only when something must be sealed: a plan that is only shown needs no key."""
    choose: Callable[[Stack], EngineSelection]
    redactor: Redactor
    who: str
    stop: Stop
    scratch: Path
    change: str = field(default_factory=clock.new_id)
    """The id of this change: its runs, claims and lanes name it."""
    expected: int = 1
    """How many stacks the change has: for many, engines are started ahead."""
    wait: float = 0.0
    """Seconds to wait for a lock or a stack that somebody else holds."""
    tell: Listener = nobody
    stacks: Mapping[str, Stack] = field(default_factory=dict)
    """Every stack of the repository, by name: a dependency may lie outside the change."""
    filling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one run that fetches providers into the mirror."""
    policies: dict[tuple[str | None, bool], str] = field(default_factory=dict)
    """The digests of the policies that stacks are judged by, each worked out once."""
    checks: PlanChecks | None = None
    """The checks of this change: whoever begins one says what they are about."""
    validations: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _secrets: SecretReader | None = None
    _audit: Audit | None = None
    _proved: bool = False
    _engines: dict[EngineId, Engine] = field(default_factory=dict)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(4))

    @property
    def root(self) -> Path:
        return self.config.root

    @property
    def places(self) -> asyncio.Semaphore:
        """As many stacks at once as the configuration allows."""
        return self._places

    @property
    def secrets(self) -> SecretReader:
        """Each secret is read once in a change, when it is first needed."""
        if self._secrets is None:
            self._secrets = SecretReader(self.environment, self.root)
        return self._secrets

    @property
    def audit(self) -> Audit:
        if self._audit is None:
            who = current_actor(self.environment)
            self._audit = Audit(self.store, who, redactor=self.redactor, change=self.change)
        return self._audit

    def stack(self, name: str) -> Stack:
        return self.stacks[name]

    def code_backend(self, module: str) -> CodeBackend | None:
        return code_backend(self.code, module)

    def retrying(self, stack: str) -> Retrying:
        """The further tries of one stack, as the configuration says."""
        return Retrying(stack=stack, retries=self.config.engine.retries, stop=self.stop, tell=self.tell)

    def engine(self, identity: EngineId) -> Engine:
        if identity not in self._engines:
            settings = self.config.engine
            timeouts = CancelTimeouts(apply=settings.time_limits.grace)
            made = WorkerPool
            self._engines[identity] = made(
                identity,
                scratch=self.scratch,
                limit=settings.parallelism,
                timeouts=timeouts,
                expected=self.expected,
            )
        return self._engines[identity]

    async def prove(self) -> None:
        """Who acts, with the proof that can be had: asked for only where a rule needs one."""
        if not self._proved:
            from holdfast.audit.proof import verify_actor  # noqa: PLC0415 - see above

            self._proved = True
            self.audit.who = await asyncio.to_thread(verify_actor, self.audit.who, self.environment)

    async def close(self) -> None:
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))


@contextlib.asynccontextmanager
async def opened(
    *,
    config: Config,
    environment: Environment,
    code: Code,
    store: RunStore,
    key: Callable[[], Key],
    choose: Callable[[Stack], EngineSelection],
    redactor: Redactor,
    who: str,
    stop: Stop,
    stacks: Mapping[str, Stack],
    tell: Listener = nobody,
    wait: float = 0.0,
) -> AsyncIterator[Session]:
    """The scratch folder is private and its path short: providers put their sockets there."""
    with open_scratch_folder() as scratch:
        session = Session(
            config=config,
            environment=environment,
            code=code,
            store=store,
            key=key,
            choose=choose,
            redactor=redactor,
            who=who,
            stop=stop,
            scratch=scratch,
            wait=wait,
            tell=tell,
            stacks=stacks,
            _places=asyncio.Semaphore(config.engine.parallelism),
        )
        try:
            yield session
        finally:
            await session.close()
