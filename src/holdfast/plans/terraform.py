"""The Terraform commands of one stack: run them in its work directory, and turn failures into errors."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from holdfast.hcl.eval.code import is_downloaded
from holdfast.kernel.errors import EngineError, HoldfastError, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.environment.outside_content import downloaded_modules, files_outside, provider_overrides
from holdfast.plans.errors import StateLocked, TerraformFailed, command_error, warnings_in
from holdfast.plans.events import Note, PhaseStarted
from holdfast.plans.hooks import Hooks
from holdfast.plans.init_cache import InitCache, InitResult, starts_no_program
from holdfast.plans.provider_configuration import warm_configuration
from holdfast.plans.retry import Retrying
from holdfast.plans.stale_locks import held_by_dead_process, plan_marker
from holdfast.plans.workdir import StackWorkdir
from holdfast.stacks.generated import code_of
from holdfast.supervisor.request import StateWriter, supervision_request
from holdfast.system import files
from holdfast.terraform import argv
from holdfast.terraform.addresses import import_blocks
from holdfast.terraform.diagnostics import read_validation
from holdfast.terraform.engine.environment import cli_config
from holdfast.terraform.engine.interface import Command, CommandResult, Product
from holdfast.terraform.lock_file import NO_PROVIDERS, read_lock, versions_digest
from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.statefile.model import is_blank_state
from holdfast.terraform.stream import CommandOutput, Event, UnknownEvent
from holdfast.terraform.tables.transient import Phase
from holdfast.terraform.versions import Version
from holdfast.terraform.workdirs.workdir import remove_files

_INIT_JSON_SINCE = {Product.TERRAFORM: Version.parse("1.9.0"), Product.TOFU: Version.parse("1.9.0")}
_EARLY_SINCE = Version.parse("1.8.0")
"""From this version, OpenTofu takes variables in every command, because code may need them in every one."""
_GOGC_ALONE = "400"
"""Less garbage collection saves a fifth of the CPU of a short command. Providers must not inherit it."""
_IMPORTS = "zz_holdfast_imports.tf"
_TARGETING = "Resource targeting is in effect"
"""A warning that says nothing new: the result names the targets, and the guard has a rule for them."""
_EDITED = "holdfast.states"

T = TypeVar("T")


class Terraform:
    """The commands of one stack."""

    def __init__(
        self, context: ChangeContext, workdir: StackWorkdir, retrying: Retrying | None = None
    ) -> None:
        self.context = context
        self.workdir = workdir
        self.retrying = retrying or context.retrying(workdir.stack.name)
        self.identity = workdir.engine.identity
        self.warnings: tuple[str, ...] = ()
        """Of the plan."""
        self.reported: set[str] = set()
        """The types of the lines that the plan wrote, such as `resource_drift`."""
        self.lock: bytes | None = None
        """The dependency lock file as init left it, with its hashes."""
        self.providers = NO_PROVIDERS
        """A digest of the provider versions that init chose."""
        self._laid_lock: bytes | None = None
        self._shown: CommandResult | None = None
        """Of `show`, which the worker runs after a plan."""
        self._skipped = False
        self._plain = True
        self._configuration: str | None = None
        """Of warm providers."""
        self._limits = context.project.config.engine.time_limits
        self.init_cache = InitCache(context, workdir)
        self.hooks = Hooks(context, workdir)

    async def _run(
        self,
        phase: str,
        words: argv.Argv,
        *,
        output: CommandOutput | None = None,
        providers: str | None = None,
        cancel_level: int = 1,
        writes: StateWriter | None = None,
        folder: Path | None = None,
        then: argv.Argv = (),
        must_succeed: bool = False,
    ) -> CommandResult:
        """Run one command. `output` gets its lines as they come; `writes` names the run that may write.

        `folder` is another place than the module, without code. `then` is the command that follows it.
        """
        workdir, name = self.workdir, self.workdir.stack.name
        limit = {"init": self._limits.init, "apply": self._limits.apply}.get(phase, self._limits.plan)
        tofu = self.identity.product is Product.TOFU and Version.parse(self.identity.version) >= _EARLY_SINCE
        if tofu and folder is None:
            words = argv.with_variables(words, workdir.variables_files)
            then = then and argv.with_variables(then, workdir.variables_files)
        command = Command(
            phase=phase,
            argv=words,
            folder=folder or workdir.work.module,
            environment=self._environment,
            providers=providers,
            warm=self.init_cache.warm_providers(self.lock, self._configuration) if providers else None,
            seconds=limit,
            cancel_level=cancel_level,
            managed_state=workdir.home.managed,
            writes=workdir.home.file.parent if workdir.home.file is not None else None,
            own=self.context.engines.own,
            supervision=await supervision_request(
                self.context.store, name, self.context.identity.who, writes, managed=workdir.home.managed
            ),
        )
        if then:
            command = structs.replace(command, then=structs.replace(command, phase=then[0], argv=then))
        if phase in {"init", "validate", "plan", "show", "apply"}:
            self.context.control.tell(PhaseStarted(stack=name, phase=phase))
        listen = output.line if output is not None else None
        try:
            result = await workdir.engine.run(command, stop=self.context.control.stop, listen=listen)
        except BaseException:
            self.context.engines.spoil()
            raise
        if result.left_running:
            self.context.engines.spoil()
        if must_succeed and result.code != 0:
            raise command_error(workdir, phase, result, output or CommandOutput())
        return result

    @property
    def _environment(self) -> Mapping[str, str]:
        """Plugin TLS is off if every provider works without it: its socket is in a private folder.

        Init starts no provider, so it can share a process with the commands after it.
        """
        environment = dict(self.workdir.environment)
        if not self._tls:
            environment["TF_DISABLE_PLUGIN_TLS"] = "1"
        if self._alone and self.providers == NO_PROVIDERS:
            # The environment is part of a worker's key: it never serves a stack that starts a provider.
            environment.setdefault("GOGC", _GOGC_ALONE)
        return environment

    @property
    def _tls(self) -> bool:
        return not self._plain or self.context.project.config.engine.plugin_tls == "always"

    @functools.cached_property
    def _alone(self) -> bool:
        """Whether the stack starts no program but the engine, by its code and the CLI configuration."""
        modules = map(code_of(self.context.project.code, self.workdir.stack).module, self.workdir.modules)
        return starts_no_program(modules, cli_config(self.workdir.environment))

    async def init(self) -> None:
        """Initialise the work directory, from the cache if possible; its hooks run in any case."""
        await self.hooks.run("before_init")
        self._laid_lock = files.content_of(self.workdir.work.lock_file)
        known = self.init_cache.lookup()
        if known is None:
            await self._init_for_real()
        else:
            self._take(known, skipped=True)
        await self.hooks.run("after_init")

    async def _init_for_real(self) -> None:
        cache = self.init_cache
        if self._laid_lock is not None:
            self.workdir.work.lock_file.write_bytes(self._laid_lock)
        async with cache.hold_mirror():
            # While this run waited for the mirror, another may have done the same init.
            known = None if self._skipped else cache.lookup()
            if known is None:
                await self._init_with_settings()
        if known is not None:
            self._take(known, skipped=True)
        else:
            self._take(cache.store(self._laid_lock), skipped=False)

    async def _init_with_settings(self) -> None:
        """The backend settings are in a private file only while init reads it."""
        work, settings = self.workdir.work, self.workdir.home.settings
        try:
            if settings:
                work.private_file(argv.BACKEND_FILE, json.dumps(settings))
            with self.context.hosts.watch(self.workdir.stack.name, self.workdir.environment) as attempts:
                await self.retrying.run(Phase.INIT, "init", self._init, attempts)
        finally:
            remove_files(work, (argv.BACKEND_FILE,))

    def _take(self, initialised: InitResult, *, skipped: bool) -> None:
        self.lock = initialised.lock
        self._skipped = skipped
        self._plain = initialised.plain
        self.providers = versions_digest(read_lock(self.lock)) if self.lock is not None else NO_PROVIDERS
        self._configuration = (
            warm_configuration(self.context, self.workdir, tls=self._tls)
            if self.workdir.stack.warm_providers and self.providers != NO_PROVIDERS
            else None
        )

    async def _init(self) -> None:
        version = Version.parse(self.identity.version)
        as_json = version >= _INIT_JSON_SINCE[self.identity.product]
        words = argv.init(
            backend_file=bool(self.workdir.home.settings),
            json=as_json,
            reconfigure=self.workdir.home.type != "cloud",
            backend=not self.workdir.bare,
        )
        # Init may look for a module in `.terraform/modules` before it downloads it: the next one finds it.
        for last in (False, True) if any(map(is_downloaded, self.workdir.modules)) else (True,):
            output = CommandOutput() if as_json else None
            result = await self._run("init", words, output=output, must_succeed=last)
            if result.code == 0:
                break
        if (workspace := self.workdir.stack.workspace) != "default":
            await self._run("init", argv.select_workspace(workspace), must_succeed=True)

    def destination(self) -> dict[str, str]:
        """Where the plan applies and with what: the environment, and content outside the repository."""
        workdir = self.workdir
        user = Path(workdir.environment.get("HOME", "/"))
        return {
            **workdir.destination,
            **files_outside(workdir.stack.name, workdir.outside_reads, user),
            **provider_overrides(
                cli_config(workdir.environment), workdir.work.module, self.context.engines.hashes
            ),
        }

    def downloaded_modules(self) -> dict[str, str]:
        """Their hashes, after init."""
        return downloaded_modules(self.workdir.stack.name, self.workdir.work, self.context.engines.hashes)

    def changed_modules(self) -> tuple[str, ...]:
        """Before init: those in the work directory that are no longer as an earlier init downloaded them."""
        return self.init_cache.changed_modules()

    def require_unchanged_providers(self, lock: bytes) -> None:
        """Before a saved plan is restored: the mirror still has the providers of its lock file, or none."""
        self.init_cache.require_unchanged(lock)

    def verify_providers(self) -> None:
        """Just before an apply: they are still those of the lock file."""
        self.init_cache.require_verified(self.lock)

    async def _with_init(self, command: Callable[[], Awaitable[T]]) -> T:
        """If init came from the cache and the command needs an init, run a real one and try again."""
        try:
            return await command()
        except TerraformFailed as error:
            if not self._skipped or not error.needs_init:
                raise
        await self._init_for_real()
        return await command()

    async def validate(self) -> None:
        """Once per content of the code, for all stacks of the same module."""
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
            validations[key] = asyncio.create_task(self._validate_with_retries())
        try:
            await asyncio.shield(validations[key])
        except TerraformFailed:
            if self._skipped:
                # Perhaps only because init was skipped: the result after a real one counts.
                validations.pop(key, None)
            raise
        except HoldfastError:
            if ours:
                raise
            # The other stack's engine failed, not the code.
            await self._validate_with_retries()
        files.private_folder(known.parent)
        known.touch(mode=files.PRIVATE_FILE)

    async def _validate_with_retries(self) -> None:
        await self.retrying.run(Phase.PLAN, "validate", self._validate)

    async def _validate(self) -> None:
        result = await self._run("validate", argv.VALIDATE, providers=self.providers)
        if result.code == 0:
            return
        output = CommandOutput()
        try:
            output.diagnostics.extend(read_validation(result.out).diagnostics)
        except EngineError:
            output.noise.append(result.out.decode(errors="replace"))
        raise command_error(self.workdir, "validate", result, output)

    async def plan(self, options: argv.PlanOptions, *, show: bool = True) -> int:
        """Exit code 0 or 2; the plan file is in the work directory.

        Without `show`, the plan is not shown in the same go: see `reported`.
        """

        def plan() -> Awaitable[int]:
            return self.retrying.run(Phase.PLAN, "plan", lambda: self._plan(options, show=show))

        with plan_marker(self.context.store, self.workdir):
            try:
                return await self._with_init(plan)
            except StateLocked as error:
                name = self.workdir.stack.name
                if error.lock is None or not held_by_dead_process(self.context.store, name, error.lock):
                    raise
                await self.force_unlock(error.lock.id)
                text = f"released the lock of a killed plan: {error.lock}"
                self.context.control.tell(Note(stack=name, text=text))
            return await self._with_init(plan)

    async def _plan(self, options: argv.PlanOptions, *, show: bool) -> int:
        if options.excludes and self.identity.product is not Product.TOFU:
            raise UsageError(
                "HF-ENG-24",
                f"{self.workdir.stack.name}: {self.identity} has no --exclude",
                hint="Only OpenTofu does. Use --target, or set `engine: {use: tofu}` for the stack.",
            )
        self.reported, self._shown = set(), None
        output = CommandOutput(on_event=self._note_type)
        words = argv.plan(
            options,
            variables_files=self.workdir.variables_files,
            lock_seconds=self.context.control.wait,
            lock=not self.workdir.home.managed,
            parallelism=self.workdir.stack.terraform_parallelism,
        )
        try:
            if options.imports:
                self.workdir.work.private_file(_IMPORTS, import_blocks(options.imports))
            # Imports are removed before anything else reads.
            then = () if options.imports or not show else argv.SHOW_PLAN
            result = await self._run("plan", words, output=output, providers=self.providers, then=then)
            self._shown = result.then
        finally:
            # A plan saves no state: only code that it runs can have written one.
            remove_files(self.workdir.work, (argv.UNSAVED_FILE, _IMPORTS))
        # Terraform 1.15 plans with defaults if a variables file cannot be read, and exits with 0 or 2.
        has_errors = any(diagnostic.is_error for diagnostic in output.diagnostics)
        if result.code not in (0, 2) or result.interrupted or has_errors:
            raise command_error(self.workdir, "plan", result, output)
        output.diagnostics[:] = [told for told in output.diagnostics if told.summary != _TARGETING]
        self.warnings = warnings_in(self.workdir, output)
        return result.code

    def _note_type(self, event: Event) -> None:
        if isinstance(event, UnknownEvent):
            self.reported.add(event.type)

    async def show(self) -> tuple[Plan, bytes]:
        document = (await self.retrying.run(Phase.SHOW, "show", self._show)).out
        return read_plan(document), document

    async def _show(self) -> CommandResult:
        shown, self._shown = self._shown, None
        if shown is None:
            return await self._run("show", argv.SHOW_PLAN, providers=self.providers, must_succeed=True)
        if shown.code != 0:
            raise command_error(self.workdir, "show", shown, CommandOutput())
        return shown

    async def apply(
        self, variables_files: tuple[str, ...], output: CommandOutput, run: str, *, journal: str | None = None
    ) -> CommandResult:
        """Each line is in a journal before `output` gets it: the run's, unless another is named.

        The providers are verified also where no saved plan is restored, as in a reconcile.
        """
        self.verify_providers()
        return await self._run(
            "apply",
            argv.apply(
                variables_files=variables_files,
                lock_seconds=self.context.control.wait,
                parallelism=self.workdir.stack.terraform_parallelism,
            ),
            output=output,
            providers=self.providers,
            writes=StateWriter(run=run, why="apply", journal=journal or run),
        )

    async def outputs(self) -> bytes:
        return (await self._run("output", argv.OUTPUT, must_succeed=True)).out

    async def state_pull(self, *, cancel_level: int = 1) -> bytes:
        def pull() -> Awaitable[CommandResult]:
            return self._run("state", argv.STATE_PULL, cancel_level=cancel_level, must_succeed=True)

        state = (await self.retrying.run(Phase.PLAN, "state pull", pull)).out
        return b"" if is_blank_state(state) else state

    async def state_push(self, file: str, writes: StateWriter) -> None:
        """With a journal, only a second Ctrl-C interrupts it, and its process counts for the claim."""
        level = 1 if writes.journal is None else 2
        await self._run("state", argv.state_push(file), writes=writes, cancel_level=level, must_succeed=True)

    async def edit_states(self, words: argv.Argv, states: Mapping[str, bytes]) -> dict[str, bytes]:
        """Copies of states after `state mv` or `state rm`. Neither a backend nor code is involved."""
        folder = files.private_folder(self.workdir.work.module / _EDITED)
        try:
            for name, content in states.items():
                files.write(folder / name, content, durable=False)
            await self._run("state", words, folder=folder, must_succeed=True)
            return {name: (folder / name).read_bytes() for name in states}
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def force_unlock(self, lock: str) -> None:
        """Release a lock whose holder is proved or declared dead; Terraform compares the id."""
        await self._run("state", argv.force_unlock(lock), must_succeed=True)

    async def read(self, words: argv.Argv) -> CommandResult:
        return await self._run("read", words, providers=self.providers)
