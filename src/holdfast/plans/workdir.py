"""The work directory of a stack: the files, environment, credentials and backend that Terraform needs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import posixpath
from collections.abc import AsyncIterator, Iterable, Mapping

from msgspec import field
from msgspec.structs import replace

from holdfast.config.settings import DEFAULT_STORE
from holdfast.hcl.eval.code import LOCK_FILE, Code
from holdfast.kernel.errors import ConfigError, EngineError, HoldfastError, Problem, Refused, UsageError
from holdfast.kernel.secret import reveal_all
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import NO_INPUTS, ChangeContext, InputValues, Project
from holdfast.plans.environment.backend_config import OVERRIDE_FILE, StateHome, state_home, stateless_home
from holdfast.plans.environment.destination import Destination
from holdfast.plans.environment.stack_environment import digest_of, resolve_all, stack_environment
from holdfast.plans.events import PhaseStarted
from holdfast.plans.kept_files import left_out_note, restore_kept_files
from holdfast.plans.state_continuity import (
    require_no_leftover_state,
    require_state_saved,
    state_files_read,
    store_errored_states,
    unrelated_states,
)
from holdfast.secrets.redact import Redactor
from holdfast.secrets.sources.interface import is_local
from holdfast.secrets.stack_secrets import references_of
from holdfast.stacks.backend import code_backend, state_location
from holdfast.stacks.generated import code_of
from holdfast.stacks.reads.inputs import OutsideRead, StackInputs
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.stack import Stack
from holdfast.stacks.unreadable import UnreadableFiles, require_readable
from holdfast.store.kept_files import KeptFiles
from holdfast.store.run_store import RunStore
from holdfast.system import files
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.terraform.argv import INLINE_FILE, PLAN_FILE
from holdfast.terraform.engine.environment import (
    terraform_variables,
)
from holdfast.terraform.engine.interface import Engine
from holdfast.terraform.engine.selection import NoEngineError
from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state, sensitive_variables
from holdfast.terraform.workdirs.created_files import FileStamps, list_files
from holdfast.terraform.workdirs.workdir import (
    WORKSPACE_FILE,
    CopiedSources,
    WorkDirectory,
    copy_sources,
    hold_workdir,
    remove_files,
    remove_state_copies,
)


class HookRun(MaskedStruct, frozen=True, kw_only=True):
    """What a hook did."""

    when: str
    run: tuple[str, ...]
    code: int
    seconds: float
    output: str
    """Its end, redacted."""


class StackWorkdir(MaskedStruct, frozen=True, kw_only=True):
    """A stack that Terraform can run."""

    stack: Stack
    engine: Engine
    work: WorkDirectory
    home: StateHome
    environment: Mapping[str, str]
    variables_files: tuple[str, ...]
    """Relative to the module, where Terraform runs."""
    inputs: str
    """A digest of every file and value that the stack reads."""
    code_digest: str
    """Of the code alone: stacks that share it share the result of `validate`."""
    modules: frozenset[str]
    """Folders of the root module and of every local module it calls."""
    source_lock: bytes | None
    laid_out: FileStamps
    kept: KeptFiles
    """Files that Terraform wrote beside the code in earlier applies."""
    destination: Destination
    """What the environment says about where; the content that is used comes after init."""
    outside_reads: frozenset[OutsideRead]
    not_passed: frozenset[str] = frozenset()
    """Names of the caller's variables that Terraform does not get."""
    notes: tuple[str, ...] = ()
    bare: bool = False
    """Without its backend: for commands that need no state."""
    for_state: bool = False
    """For commands that read or write the state, which a failing hook does not stop."""
    hook_runs: list[HookRun] = field(default_factory=list)
    """Filled as hooks run."""
    read: InputValues = NO_INPUTS
    """What it reads of other stacks; also in `inputs` and in a variables file."""


@contextlib.asynccontextmanager
async def open_workdir(
    context: ChangeContext,
    stack: Stack,
    *,
    read: InputValues = NO_INPUTS,
    for_state: bool = False,
    stateless: bool = False,
) -> AsyncIterator[StackWorkdir]:
    """Hold a work directory for the stack; secret files in it are removed at the end.

    `read` are the values of its inputs, which a plan needs.

    `for_state` is for commands that read or write a state: they must work even if nothing can be planned.
    `stateless` is for commands without a backend. They have a work directory of their own, because their
    init is not complete.
    """
    project = context.project
    # An encrypted file may contain the backend: then even the place of the state is unknown.
    require_readable(project.code, stack, only_encrypted=True)
    bare_home = stateless_home(stack, project.code_backend(stack)) if stateless else None
    if bare_home is not None:
        stack = replace(stack, backend=None, workspace="default")
    context.control.tell(PhaseStarted(stack=stack.name, phase="layout"))
    references = references_of(stack)
    if not all(map(is_local, references)):
        # Requests over a network take time; other stacks continue meanwhile.
        await asyncio.to_thread(context.secrets.read_all, references)
    choice = context.engines.choose(stack)
    settings = resolve_all(context, stack.backend.settings if stack.backend else {})
    home = bare_home or _home(project, stack, settings)
    store_errored_states(project, context.store, stack)
    if not for_state:
        require_no_leftover_state(project.root, context.store, stack, home)
        require_state_saved(context.store, stack)
    environment, destination = stack_environment(context, stack, home)
    inline = {key: reveal_all(value) for key, value in resolve_all(context, stack.variables).items()}
    own = json.dumps(inline, sort_keys=True)
    inline.update(read.values)
    if read is NO_INPUTS:
        _register_read_outputs(context, stack)
    _register_variables(code_of(project.code, stack), context.redactor, stack, environment, inline)
    inputs = stack_inputs(project.code, stack, terraform_variables(environment))
    if not for_state:
        _require_files(project, stack, inputs)
    name = stack.name if bare_home is None else f"{stack.name}~"  # Not a valid stack name.
    with (
        hold_workdir(project.environment.home, project.root, name, stack.module) as place,
        context.engines.hold_tree(place) as work,
    ):
        layout = _copy_sources(project, stack, work, inputs, home)
        for path, content in stack.generated.items():
            files.write(work.tree / path, content, durable=False)
        kept = KeptFiles()
        with contextlib.suppress(*((HoldfastError, OSError) if for_state else ())):
            kept = restore_kept_files(context.store, work, name)
        remove_files(work, (WORKSPACE_FILE,))
        try:
            if home.override is not None:
                work.private_file(OVERRIDE_FILE, home.override)
            if inline:
                work.private_file(INLINE_FILE, json.dumps(inline))
            yield StackWorkdir(
                stack=stack,
                engine=context.engines.open(choice.engine),
                work=work,
                home=home,
                environment=environment,
                variables_files=(
                    *(work.path_of(file) for file in stack.variables_files),
                    *((INLINE_FILE,) if inline else ()),
                ),
                inputs=digest_of(
                    layout.digest,
                    own,
                    *(f"{hook.when} {hook.time_limit} {json.dumps(hook.run)}" for hook in stack.hooks),
                    *(f"{path}\0{content}" for path, content in sorted(stack.generated.items())),
                    *(f"{name} {content}" for name, content in sorted(kept.files.items())),
                ),
                code_digest=layout.digest if inputs.everything else _code_digest(work, inputs),
                modules=frozenset(inputs.modules.values()),
                source_lock=files.content_of(project.root / stack.module / LOCK_FILE),
                laid_out=list_files(work),
                kept=kept,
                destination=destination,
                outside_reads=inputs.outside_reads,
                not_passed=frozenset(project.environment.variables) - environment.keys(),
                notes=(
                    *(f"{reason}: its work directory contains every file" for reason in inputs.reasons),
                    *inputs.outside,
                    *(f"{link} leads out of the repository and was not copied" for link in layout.links_out),
                    *unrelated_states(project.root, stack, home),
                    *read.notes,
                    *left_out_note(kept),
                ),
                read=read,
                bare=bare_home is not None,
                for_state=for_state,
            )
        finally:
            # Plans, settings and values are secret; what init stored of a secret setting is too.
            remove_files(work, (PLAN_FILE, INLINE_FILE))
            remove_state_copies(work)
            if home.secret_on_disk:
                remove_files(work, (".terraform/terraform.tfstate",))


def _require_files(project: Project, stack: Stack, inputs: StackInputs) -> None:
    if inputs.broken:
        raise Refused(
            "HF-WORK-3",
            f"{stack.name}: {inputs.broken[0]}",
            hint="Put holdfast.yaml at the root, name the file by an absolute path, or replace the link with "
            "what it leads to.",
        )
    require_readable(project.code, stack, inputs.files)


def require_homes(context: ChangeContext, stacks: tuple[Stack, ...]) -> None:
    """Raise every backend error of all stacks at once, before anything runs. Reads no secret.

    A stack without an engine fails by itself when its run starts, unless none of them has one.
    """
    problems: list[Problem] = []
    without_engine: list[Problem] = []
    can_run = False
    for stack in stacks:
        try:
            require_readable(context.project.code, stack, only_encrypted=True)
            home_of(context.project, stack)
            context.engines.choose(stack)
        except NoEngineError as error:
            without_engine += error.problems
            continue
        except UsageError as error:
            problems += error.problems
        except (EngineError, UnreadableFiles):
            pass  # Only this stack fails, when its run starts.
        can_run = True
    if not can_run:
        problems += without_engine
    if problems:
        raise ConfigError(tuple(dict.fromkeys(problems)))
    require_own_states(context, stacks)


def require_own_states(context: ChangeContext, stacks: Iterable[Stack]) -> None:
    """Refuse stacks whose variables, as given on the command line, point to the state of another stack.

    OpenTofu computes backend settings from variables. Another stack has the state that the configuration
    names, and the one of its last apply.
    """
    project, given = context.project, {stack.name: stack for stack in stacks}
    moving = {name: stack for name, stack in given.items() if _computes_backend(project.code, stack)}
    if not moving:
        return
    owners: dict[str, set[str]] = {}
    for name, stack in {**project.stacks, **given}.items():
        seen = context.store.last_seen(name) if not context.store.empty else None
        applied = seen.place if seen is not None and seen.resources != 0 else None
        for place in {_known_place(project, stack), applied} - {None}:
            owners.setdefault(str(place), set()).add(name)
    problems = tuple(
        Problem(
            code="HF-STACK-2",
            message=f"{name}: with these variables, its state is that of {min(others)} ({place})",
            hint="Nothing was started. Its backend is computed from variables: check -var, -var-file and "
            f"the values in: holdfast config show {name}",
            place=stack.place,
        )
        for name, stack in moving.items()
        if (place := _known_place(project, stack)) is not None and (others := owners[place] - {name})
    )
    if problems:
        raise ConfigError(problems)


def _computes_backend(code: Code, stack: Stack) -> bool:
    backend = code_backend(code, stack.module)
    return backend is not None and bool(backend.computed)


def _known_place(project: Project, stack: Stack) -> str | None:
    """None if Holdfast manages the state, or if its location is not known before init."""
    with contextlib.suppress(HoldfastError):
        if state_location(stack, project.code_backend(stack)) is not None:
            return home_of(project, stack).place
    return None


def _home(project: Project, stack: Stack, settings: Mapping[str, object]) -> StateHome:
    home = state_home(stack, project.code_backend(stack), settings, root=project.root)
    if project.run_store is not None and home.file is not None and home.file.is_relative_to(project.root):
        raise UsageError(
            "HF-BACK-7",
            f"{stack.name}: the local backend would keep the state beside the code, which a worker removes",
            hint="Remove the backend from the code: the server then keeps the state. Or use a remote one.",
            place=stack.place,
        )
    return home


def home_of(project: Project, stack: Stack) -> StateHome:
    """Reads no secret."""
    return _home(project, stack, stack.backend.settings if stack.backend else {})


def state_without_terraform(store: RunStore, workdir: StackWorkdir) -> bytes | None:
    return state_at(store, workdir.stack.name, workdir.home)


def state_at(store: RunStore, stack: str, home: StateHome) -> bytes | None:
    """A managed or local state; empty if there is none. None: only Terraform can read it."""
    if home.managed:
        version = store.states.current(stack) if not store.empty else None
        return version.state if version is not None else b""
    if home.file is not None:
        return files.content_of(home.file) or b""
    return None


def _copy_sources(
    project: Project, stack: Stack, work: WorkDirectory, inputs: StackInputs, home: StateHome
) -> CopiedSources:
    """Also named files that did not exist when the code was read: a dependency may have written its state."""
    named = (path for names in inputs.names for path in names.paths)
    return copy_sources(
        work,
        project.root,
        frozenset((*inputs.files, *inputs.reads, *named, *stack.variables_files)),
        everything=inputs.everything,
        store=project.root / (project.config.store if "://" not in project.config.store else DEFAULT_STORE),
        state=home.file,
        read_states=state_files_read(project, stack) - inputs.reads,
        forbidden=ForbiddenFiles(project.environment),
    )


def _register_variables(
    code: Code, redactor: Redactor, stack: Stack, environment: Mapping[str, str], inline: Mapping[str, object]
) -> None:
    """Values of sensitive variables are known before the plan, which may fail and quote them."""
    caller = {name: environment[f"TF_VAR_{name}"] for name in terraform_variables(environment)}
    redactor.register_all(
        sensitive_variables(code, stack.module, stack.variables_files, {**caller, **inline})
    )


def _register_read_outputs(context: ChangeContext, stack: Stack) -> None:
    """What it read when it was applied may be in its state and outputs: as far as no Terraform is needed."""
    for name in {reference.stack for reference in stack.inputs.values()}:
        with contextlib.suppress(HoldfastError, OSError):
            other = context.project.stacks[name]
            content = state_at(context.store, name, home_of(context.project, other))
            context.redactor.register_all(sensitive_in_state(read_state(content or b"")))


def _code_digest(work: WorkDirectory, inputs: StackInputs) -> str:
    """Paths are relative to the root module: the same code in another folder has the same digest."""
    parts = []
    for file in sorted(inputs.files):
        if file.endswith((".tf", ".tofu", ".tf.json", ".tofu.json")):
            content = hashlib.sha256(files.content_of(work.tree / file) or b"").hexdigest()
            parts.append(f"{posixpath.relpath(file, work.module_path)}\0{content}")
    return digest_of(*parts)
