"""What the runs of one change share: small values, and one context for the code that needs most of them."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from holdfast.audit.actor import Actor, actor_from, current_actor
from holdfast.audit.log import Audit
from holdfast.config.engine import EngineSettings
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.events import Listener, ignore_events
from holdfast.plans.retry import Retrying
from holdfast.plans.unreachable import UnreachableHosts
from holdfast.secrets.keys import index_key
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.reads.remote_states import stack_backend
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import Approval
from holdfast.store.place import folders_of
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.system.environment import Environment
from holdfast.system.repository import repository_of
from holdfast.terraform.engine.confinement import WorkerConfinement
from holdfast.terraform.engine.environment import terraform_variables
from holdfast.terraform.engine.folder_hashes import FolderHashes
from holdfast.terraform.engine.interface import CancelTimeouts, Engine, EngineId, Stop
from holdfast.terraform.engine.pool import WorkerPool
from holdfast.terraform.engine.selection import EngineSelection
from holdfast.terraform.statefile.model import StateFile
from holdfast.terraform.workdirs.compartments import Compartment
from holdfast.terraform.workdirs.scratch import open_scratch_folder
from holdfast.terraform.workdirs.workdir import WorkDirectory


class Project(Struct, frozen=True, kw_only=True):
    """The repository: its configuration, its code and its stacks."""

    config: Config
    environment: Environment
    code: Code
    stacks: Mapping[str, Stack] = field(default_factory=dict)
    """Every stack of the repository, by name: a dependency may be outside the change."""
    base: BaseRules | None = None
    """The rules of the base, if it is known and has other rules than the change."""
    verified_ci: Callable[[], bool] | None = None
    """Whether a server verified that this is CI; None without one, which leaves only the environment."""

    verify_actor: Callable[[], Actor] | None = None
    """Verifies who acts, without a server; None where nothing is applied."""
    run_store: str | None = None
    """The address of the run store of a worker, whatever the configuration names."""

    @property
    def in_ci(self) -> bool:
        return self.verified_ci() if self.verified_ci is not None else self.environment.ci

    @property
    def unproved(self) -> str | None:
        """Why CI is not proved, or None: a server has verified it, or the token of the job did."""
        if self.verified_ci is not None:
            return None if self.in_ci else "the server did not verify that this is CI"
        if self.verify_actor is None:
            return "who acts is not known here"
        actor = self.code.once("who acts, verified", self.verify_actor)
        return None if actor.verified else actor.because

    @property
    def root(self) -> Path:
        return self.config.root

    @property
    def repository(self) -> str:
        """See `repository_of`."""
        return self.code.once("repository", lambda: repository_of(self.root, self.environment.variables))

    @property
    def weakened(self) -> tuple[str, ...]:
        return self.base.weakened if self.base is not None else ()

    def code_backend(self, stack: Stack) -> CodeBackend | None:
        return stack_backend(self.code, stack, terraform_variables(self.environment.variables))


class Control(Struct, frozen=True, kw_only=True):
    """How the caller follows a change and stops it, and how long it waits for others."""

    tell: Listener = ignore_events
    stop: Stop = field(default_factory=Stop)
    wait: float = 0.0
    """Seconds to wait for a lock or a stack that another run holds."""


class Identity:
    """Who acts, and the id of the change: claims, lanes and the audit log name both."""

    def __init__(
        self,
        store: RunStore,
        environment: Environment,
        redactor: Redactor,
        *,
        root: Path | None = None,
        change: str | None = None,
        runs: Mapping[str, str] | None = None,
    ) -> None:
        self.change = change or clock.new_id()
        self.runs = runs or {}
        """The ids of its runs, by stack, if they were given before; otherwise each run gets a new one."""
        self._store = store
        self._redactor = redactor
        self._environment = environment
        self._root = root
        self._proved = False

    @functools.cached_property
    def audit(self) -> Audit:
        return Audit(self._store, self._actor, redactor=self._redactor, change=self.change)

    @property
    def who(self) -> str:
        return self._actor.shown

    @functools.cached_property
    def _actor(self) -> Actor:
        return actor_of(self._store, self._environment)

    async def prove(self) -> None:
        """Verify who acts, as far as possible: only where a rule needs it. A server has done it already."""
        if not self._proved and not self._store.on_server:
            self._proved = True
            self.audit.who = await asyncio.to_thread(
                verified_actor, self.audit.who, self._environment, self._root
            )


def actor_of(store: RunStore, environment: Environment) -> Actor:
    """Whom the server of the run store verified, or what the environment says."""
    document = store.server_actor()
    return actor_from(document) if document is not None else current_actor(environment)


def verified_actor(actor: Actor, environment: Environment, root: Path | None) -> Actor:
    """Without the caller's `GIT_` variables, which can name another repository."""
    from holdfast.audit.proof import verify_actor  # noqa: PLC0415 - few commands need it
    from holdfast.system import git  # noqa: PLC0415 - as above

    def remotes() -> tuple[str, ...]:
        own = {name: value for name, value in environment.variables.items() if not name.startswith("GIT_")}
        tree = git.find(root, own) if root is not None else None
        return tree.remotes() if tree is not None else ()

    return verify_actor(actor, environment, remotes)


class Engines:
    """The engines of one change: one is chosen per stack, started on first use, and closed at the end."""

    def __init__(
        self,
        settings: EngineSettings,
        choose: Callable[[Stack], EngineSelection],
        *,
        scratch: Path,
        confinement: WorkerConfinement,
        hashes: FolderHashes | None = None,
    ) -> None:
        self._settings = settings
        self.confinement = confinement
        self.choose = choose
        self._engines: dict[EngineId, Engine] = {}
        self._expected = 1
        self._kept = False
        self.scratch = scratch
        """Private, with a short path: providers create their sockets there."""
        self._scratch_of_workers = scratch
        self.slots = asyncio.Semaphore(settings.parallelism)
        """As many stacks at once as the configuration allows."""
        self.hashes = hashes or FolderHashes()
        """Of providers and downloaded modules, which are verified before every use."""
        self.mirror_lock = asyncio.Lock()
        """Held by the one run that fetches providers into the mirror."""
        self.validations: dict[str, asyncio.Task[None]] = {}
        """`validate` of each content of the code, shared by the stacks that use it."""
        self.compartment: Compartment | None = None
        """On a server: nothing outside of it can read what the change has there."""

    def expect(self, stacks: int) -> None:
        """How many stacks the change has: for many, workers are started ahead."""
        self._expected = stacks

    def open(self, identity: EngineId) -> Engine:
        if identity not in self._engines:
            self._engines[identity] = WorkerPool(
                identity,
                scratch=self._scratch_of_workers,
                limit=self._settings.parallelism,
                timeouts=CancelTimeouts(apply=self._settings.time_limits.grace),
                expected=self._expected,
                confinement=self.confinement,
            )
        return self._engines[identity]

    def shared(self, choose: Callable[[Stack], EngineSelection], compartment: Compartment) -> Engines:
        """For one more change, with the same workers, which stay when that ends."""
        engines = copy.copy(self)
        engines.choose, engines._kept, engines._expected = choose, True, 1  # noqa: SLF001 - of this class
        engines.compartment, engines.scratch = compartment, compartment.scratch
        engines.slots = asyncio.Semaphore(self._settings.parallelism)
        engines.validations = {}
        return engines

    @contextlib.contextmanager
    def hold_tree(self, work: WorkDirectory) -> Iterator[WorkDirectory]:
        """Where programs of this change may read it, and no other ones."""
        if self.compartment is None:
            yield work
            return
        with self.compartment.hold_tree(work) as inside:
            yield inside

    @property
    def own(self) -> tuple[Path, ...]:
        """The folders of the compartment."""
        return self.compartment.folders if self.compartment is not None else ()

    def spoil(self) -> None:
        """A program may have been left running in the compartment."""
        if self.compartment is not None:
            self.compartment.spoiled = True

    async def end_idle(self) -> None:
        """When little follows: what does starts another worker."""
        if self._kept:
            return
        await asyncio.gather(*(engine.end_idle() for engine in self._engines.values()))

    async def end_expired(self) -> None:
        """Warm providers must not wait for ever for the next command."""
        await asyncio.gather(*(engine.end_expired() for engine in self._engines.values()))

    async def close(self) -> None:
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))


class InputValues(MaskedStruct, frozen=True, kw_only=True):
    """What a stack reads of other stacks."""

    values: Mapping[str, object] = field(default_factory=dict)
    """By variable, mocks included."""
    mocks: Mapping[str, object] = field(default_factory=dict)
    """Those of `values` that are mocks. A plan with mocks is never applied."""
    notes: tuple[str, ...] = ()


NO_INPUTS = InputValues()


class SharedStates:
    """States that stacks of a change read from each other: each is read once, until its stack is applied."""

    def __init__(self) -> None:
        self._reads: dict[str, asyncio.Task[StateFile]] = {}

    async def read(self, stack: str, read: Callable[[], Coroutine[None, None, StateFile]]) -> StateFile:
        if stack not in self._reads:
            self._reads[stack] = asyncio.create_task(read())
        return await asyncio.shield(self._reads[stack])

    def forget(self, stack: str) -> None:
        self._reads.pop(stack, None)


class ChangeContext(Struct, frozen=True, kw_only=True):
    """For code that prepares a stack, runs Terraform and records outcomes. Other code takes parts of it."""

    project: Project
    store: RunStore
    engines: Engines
    secrets: SecretReader
    """Each secret is read once in a change, when it is first needed."""
    redactor: Redactor
    identity: Identity
    control: Control
    states: SharedStates = field(default_factory=SharedStates)
    given: Callable[[str, str, str], tuple[Approval, ...]] = lambda *_: ()
    """Decisions that came with the request, by stack, run and digest of its plan."""
    hosts: UnreachableHosts = field(default_factory=UnreachableHosts)

    def retrying(self, stack: str) -> Retrying:
        """The retries of one stack, as configured."""
        retries = self.project.config.engine.retries
        return Retrying(stack=stack, retries=retries, stop=self.control.stop, tell=self.control.tell)


@contextlib.asynccontextmanager
async def open_context(
    project: Project,
    store: RunStore,
    *,
    choose: Callable[[Stack], EngineSelection],
    redactor: Redactor,
    control: Control,
) -> AsyncIterator[ChangeContext]:
    """The context of one change. All engine processes have ended when it is closed."""
    with open_scratch_folder() as scratch:
        engines = open_engines(project, store, choose, scratch)
        try:
            yield ChangeContext(
                project=project,
                store=store,
                engines=engines,
                secrets=SecretReader(project.environment, project.root),
                redactor=redactor,
                identity=Identity(store, project.environment, redactor, root=project.root),
                control=control,
            )
        finally:
            await engines.close()


def open_engines(
    project: Project, store: RunStore, choose: Callable[[Stack], EngineSelection], scratch: Path
) -> Engines:
    """To be closed: it starts processes."""
    confinement = WorkerConfinement(
        project.environment,
        store=next(iter(folders_of(store.blobs)), None),
        required=project.config.engine.confine == "required",
    )
    hashes = FolderHashes(load=lambda: index_key(project.environment))
    return Engines(project.config.engine, choose, scratch=scratch, confinement=confinement, hashes=hashes)
