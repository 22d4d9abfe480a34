"""Each command of Terraform on a prepared stack: run it, hear it, and say what its end means."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from holdfast.kernel.errors import (
    EngineError,
    HoldfastError,
)
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import (
    StateLocked,
    TerraformFailed,
    command_error,
    problem_from_diagnostic,
)
from holdfast.plans.events import Note, PhaseStarted
from holdfast.plans.init_cache import InitCache, InitResult, starts_no_program
from holdfast.plans.retry import Retrying, retried
from holdfast.plans.stale_locks import held_by_dead_process, plan_marker
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.stacks.stack import Stack
from holdfast.supervisor.request import StateWriter, supervision_request
from holdfast.system import files
from holdfast.terraform import argv
from holdfast.terraform.diagnostics import read_validation
from holdfast.terraform.engine.interface import Command, CommandResult, Product
from holdfast.terraform.lock_file import NO_PROVIDERS, read_lock, versions_digest
from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.statefile.model import is_blank_state, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state
from holdfast.terraform.stream import CommandOutput
from holdfast.terraform.tables.transient import Phase
from holdfast.terraform.versions import Version
from holdfast.terraform.workdirs.workdir import remove_files

_INIT_JSON_SINCE = {Product.TERRAFORM: Version.parse("1.9.0"), Product.TOFU: Version.parse("1.9.0")}
_EARLY_SINCE = Version.parse("1.8.0")
"""OpenTofu takes variables in every command from here on, because code may need them in every one."""
_MOST_WARNINGS = 5
_GOGC_ALONE = "400"
"""Go collects garbage less often, which saves a fifth of the CPU of a short command. Providers must not
inherit it.
"""
_INIT_NEEDED = (
    "Backend initialization required",
    "Inconsistent dependency lock file",
    "Required plugins are not installed",
    "Missing required provider",
    "Module not installed",
    "Module source has changed",
    "Module version requirements have changed",
)
"""Summaries by which Terraform asks for an init."""

_SHOW_VALUES = (("console",), ("output",), ("show",), ("state",))
"""What prints values of the state, and marks in the text none of those that are sensitive."""

T = TypeVar("T")


class Terraform:
    """The commands of one stack, in the order a run needs them."""

    def __init__(
        self, context: ChangeContext, workdir: StackWorkdir, retrying: Retrying | None = None
    ) -> None:
        self.context = context
        self.workdir = workdir
        self.retrying = retrying or context.retrying(workdir.stack.name)
        self.identity = workdir.engine.identity
        self.warnings: tuple[str, ...] = ()
        """Of the plan, in words."""
        self.lock: bytes | None = None
        """The dependency lock file as init left it, with its hashes."""
        self.providers = NO_PROVIDERS
        """A digest of the provider versions that init chose."""
        self._laid_lock: bytes | None = None
        self._skipped = False
        self._plain = True
        self._limits = context.project.config.engine.time_limits

    async def _run(
        self,
        phase: str,
        words: argv.Argv,
        *,
        heard: CommandOutput | None = None,
        providers: str | None = None,
        cancel_level: int = 1,
        writes: StateWriter | None = None,
    ) -> CommandResult:
        """One command. With `heard`, its lines are read as they come; one that writes says for whom."""
        workdir = self.workdir
        limit = {"init": self._limits.init, "apply": self._limits.apply}.get(phase, self._limits.plan)
        if self.identity.product is Product.TOFU and Version.parse(self.identity.version) >= _EARLY_SINCE:
            words = argv.with_variables(words, workdir.variables_files)
        command = Command(
            phase=phase,
            argv=words,
            folder=workdir.work.module,
            environment=self._environment,
            providers=providers,
            seconds=limit,
            cancel_level=cancel_level,
            managed_state=workdir.home.managed,
            supervision=supervision_request(
                self.context.store,
                workdir.stack.name,
                self.context.identity.who,
                writes,
                managed=workdir.home.managed,
            ),
        )
        if phase in {"init", "validate", "plan", "show", "apply"}:
            self.context.control.tell(PhaseStarted(stack=workdir.stack.name, phase=phase))
        listen = heard.line if heard is not None else None
        return await workdir.engine.run(command, stop=self.context.control.stop, listen=listen)

    @property
    def _environment(self) -> Mapping[str, str]:
        """Plugin TLS is off where every provider was probed: its socket lies in a folder of ours alone.

        Init starts no provider, so that it can share a process with what comes after it.
        """
        environment = dict(self.workdir.environment)
        if self._plain and self.context.project.config.engine.plugin_tls != "always":
            environment["TF_DISABLE_PLUGIN_TLS"] = "1"
        if self._alone and self.providers == NO_PROVIDERS:
            # The environment is part of a worker's key: it never serves a stack that starts a provider.
            environment.setdefault("GOGC", _GOGC_ALONE)
        return environment

    @functools.cached_property
    def _alone(self) -> bool:
        """By its code and the CLI configuration, the stack starts no program but the engine."""
        config = self.workdir.environment.get("TF_CLI_CONFIG_FILE")
        content = files.content_of(Path(config)) if config is not None else None
        text = content.decode(errors="replace") if content is not None else None
        return starts_no_program(map(self.context.project.code.module, self.workdir.modules), text)

    async def init(self) -> None:
        """Make the work directory ready, without Terraform where what decides it is known already."""
        self._laid_lock = files.content_of(self.workdir.work.lock_file)
        known = InitCache(self.context, self.workdir).lookup()
        if known is None:
            await self._init_for_real()
        else:
            self._take(known, skipped=True)

    async def _init_for_real(self) -> None:
        initialiser = InitCache(self.context, self.workdir)
        if self._laid_lock is not None:
            self.workdir.work.lock_file.write_bytes(self._laid_lock)
        async with initialiser.filling():
            # While this run waited for the mirror, another may have done what was needed.
            known = None if self._skipped else initialiser.lookup()
            if known is None:
                await self._init_with_settings()
        if known is not None:
            self._take(known, skipped=True)
        else:
            self._take(initialiser.store(self._laid_lock), skipped=False)

    async def _init_with_settings(self) -> None:
        """The backend's settings lie in a private file as long as init reads it, and no longer."""
        work, settings = self.workdir.work, self.workdir.home.settings
        try:
            if settings:
                work.private_file(argv.BACKEND_FILE, json.dumps(settings))
            await self._init()
        finally:
            remove_files(work, (argv.BACKEND_FILE,))

    def _take(self, initialised: InitResult, *, skipped: bool) -> None:
        self.lock = initialised.lock
        self._skipped = skipped
        self._plain = initialised.plain
        self.providers = versions_digest(read_lock(self.lock)) if self.lock is not None else NO_PROVIDERS

    @retried(Phase.INIT, "init")
    async def _init(self) -> None:
        version = Version.parse(self.identity.version)
        as_json = version >= _INIT_JSON_SINCE[self.identity.product]
        heard = CommandOutput()
        answer = await self._run(
            "init",
            argv.init(
                backend_file=bool(self.workdir.home.settings),
                json=as_json,
                reconfigure=self.workdir.home.type != "cloud",
                backend=not self.workdir.bare,
            ),
            heard=heard if as_json else None,
        )
        if answer.code != 0:
            raise command_error(self.workdir, "init", answer, heard)
        workspace = self.workdir.stack.workspace
        if workspace != "default":
            chosen = await self._run("init", argv.select_workspace(workspace))
            if chosen.code != 0:
                raise command_error(self.workdir, "init", chosen, CommandOutput())

    async def _with_init(self, command: Callable[[], Awaitable[T]]) -> T:
        """A command that answers "init needed" when init was skipped gets one real init, and a second try."""
        try:
            return await command()
        except TerraformFailed as error:
            if not self._skipped or not any(one.message.startswith(_INIT_NEEDED) for one in error.problems):
                raise
        await self._init_for_real()
        return await command()

    async def validate(self) -> None:
        """Once per content of the code, its answer reused by every stack on the same module."""
        await self._with_init(self._validate_once)

    async def _validate_once(self) -> None:
        engine = f"{self.identity.product} {self.identity.version}"
        key = hashlib.sha256(f"{engine} {self.providers} {self.workdir.code_digest}".encode()).hexdigest()
        known = self.context.project.environment.home / "validated" / key
        if known.exists():
            return
        validations = self.context.engines.validations
        ours = key not in validations
        if ours:
            validations[key] = asyncio.create_task(self._validate())
        try:
            await asyncio.shield(validations[key])
        except TerraformFailed:
            if self._skipped:
                # Perhaps for want of an init: the answer after one counts, not this.
                validations.pop(key, None)
            raise
        except HoldfastError:
            if ours:
                raise
            # The other stack's engine failed, not the code: that is no answer about this one.
            await self._validate()
        files.private_folder(known.parent)
        known.touch(mode=files.PRIVATE_FILE)

    @retried(Phase.PLAN, "validate")
    async def _validate(self) -> None:
        answer = await self._run("validate", argv.VALIDATE, providers=self.providers)
        if answer.code == 0:
            return
        heard = CommandOutput()
        try:
            heard.diagnostics.extend(read_validation(answer.out).diagnostics)
        except EngineError:
            heard.noise.append(answer.out.decode(errors="replace"))
        raise command_error(self.workdir, "validate", answer, heard)

    async def plan(self, options: argv.PlanOptions) -> int:
        """Exit code 0 or 2; the plan lies in the work directory."""
        with plan_marker(self.context.store, self.workdir):
            try:
                return await self._with_init(lambda: self._plan(options))
            except StateLocked as error:
                name = self.workdir.stack.name
                if error.lock is None or not held_by_dead_process(self.context.store, name, error.lock):
                    raise
                await self.force_unlock(error.lock.id)
                self.context.control.tell(
                    Note(stack=name, text=f"released the lock of a killed plan: {error.lock}")
                )
            return await self._with_init(lambda: self._plan(options))

    @retried(Phase.PLAN, "plan")
    async def _plan(self, options: argv.PlanOptions) -> int:
        heard = CommandOutput()
        answer = await self._run(
            "plan",
            argv.plan(
                options,
                variables_files=self.workdir.variables_files,
                lock_seconds=self.context.control.wait,
                lock=not self.workdir.home.managed,
            ),
            heard=heard,
            providers=self.providers,
        )
        # Terraform 1.15 plans with defaults when a variables file cannot be read: its exit code says nothing.
        faulty = any(one.is_error for one in heard.diagnostics)
        if answer.code not in (0, 2) or answer.interrupted or faulty:
            raise command_error(self.workdir, "plan", answer, heard)
        self.warnings = self._warnings(heard)
        return answer.code

    def _warnings(self, heard: CommandOutput) -> tuple[str, ...]:
        """What Terraform warns of, each once, with its place in the source."""
        found = [
            problem_from_diagnostic(self.workdir, "", one) for one in heard.diagnostics if not one.is_error
        ]
        texts = [
            f"warning: {one.message}{f' ({one.place})' if one.place is not None else ''}" for one in found
        ]
        unique = tuple(dict.fromkeys(texts))
        more = len(unique) - _MOST_WARNINGS
        return (*unique[:_MOST_WARNINGS], *((f"and {more} more warnings",) if more > 0 else ()))

    @retried(Phase.SHOW, "show")
    async def show(self) -> tuple[Plan, bytes]:
        answer = await self._run("show", argv.SHOW_PLAN, providers=self.providers)
        if answer.code != 0:
            raise command_error(self.workdir, "show", answer, CommandOutput())
        return read_plan(answer.out), answer.out

    async def apply(
        self, variables_files: tuple[str, ...], heard: CommandOutput, run: str, *, journal: str | None = None
    ) -> CommandResult:
        """Its every line goes into a journal before it is heard here: the run's, unless another is named."""
        return await self._run(
            "apply",
            argv.apply(variables_files=variables_files, lock_seconds=self.context.control.wait),
            heard=heard,
            providers=self.providers,
            writes=StateWriter(run=run, why="apply", journal=journal or run),
        )

    async def outputs(self) -> bytes:
        answer = await self._run("output", argv.OUTPUT)
        if answer.code != 0:
            raise command_error(self.workdir, "output", answer, CommandOutput())
        return answer.out

    @retried(Phase.PLAN, "state pull")
    async def state_pull(self, *, cancel_level: int = 1) -> bytes:
        answer = await self._run("state", argv.STATE_PULL, cancel_level=cancel_level)
        if answer.code != 0:
            raise command_error(self.workdir, "state", answer, CommandOutput())
        return b"" if is_blank_state(answer.out) else answer.out

    async def state_push(self, file: str, run: str) -> None:
        answer = await self._run("state", argv.state_push(file), writes=StateWriter(run=run, why="push"))
        if answer.code != 0:
            raise command_error(self.workdir, "state push", answer, CommandOutput())

    async def force_unlock(self, lock: str) -> None:
        """Of a lock whose holder is proved or declared dead; Terraform compares the id."""
        answer = await self._run("state", argv.force_unlock(lock))
        if answer.code != 0:
            raise command_error(self.workdir, "state", answer, CommandOutput())

    async def read(self, words: argv.Argv) -> CommandResult:
        return await self._run("read", words, providers=self.providers)


async def run_read_only(context: ChangeContext, stack: Stack, words: tuple[str, ...]) -> CommandResult:
    """Any read-only command on a stack, with its files, environment and backend."""
    async with open_workdir(context, stack, for_state=True) as ready:
        terraform = Terraform(context, ready)
        await terraform.init()
        if words[:1] in _SHOW_VALUES:
            context.redactor.register_all(sensitive_in_state(read_state(await terraform.state_pull())))
        return await terraform.read(words)
