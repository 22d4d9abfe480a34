"""From a stack to a place where Terraform can run it: files, environment, identity, backend, engine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import posixpath
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.hcl.eval.code import LOCK_FILE, Code
from holdfast.kernel.errors import ConfigError, Problem, Refused, UsageError
from holdfast.kernel.secret import Secret, reveal_all
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.backend_config import OVERRIDE_FILE, StateHome, state_home, stateless_home
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.events import PhaseStarted
from holdfast.plans.state_continuity import (
    require_no_leftover_state,
    require_state_saved,
    store_errored_states,
    unrelated_states,
)
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor
from holdfast.secrets.sources.catalogue import is_local
from holdfast.secrets.stack_secrets import references_of
from holdfast.stacks.reads.inputs import StackInputs
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.system import files
from holdfast.terraform.argv import PLAN_FILE
from holdfast.terraform.engine.credentials import Caller, build_identity
from holdfast.terraform.engine.environment import (
    child_environment,
    mirrored_providers,
    terraform_variables,
    user_config_file,
    with_mirror,
)
from holdfast.terraform.engine.interface import Engine, Product
from holdfast.terraform.statefile.sensitive import sensitive_variables
from holdfast.terraform.workdirs.workdir import (
    WORKSPACE_FILE,
    FileStamps,
    WorkDirectory,
    copy_sources,
    hold_workdir,
    list_files,
    remove_files,
    remove_state_copies,
)

INLINE_FILE = "holdfast.inline.tfvars.json"


class StackWorkdir(MaskedStruct, frozen=True, kw_only=True):
    """A stack that is laid out and may be given to its engine."""

    stack: Stack
    engine: Engine
    work: WorkDirectory
    home: StateHome
    environment: Mapping[str, str]
    variables_files: tuple[str, ...]
    """As Terraform, running in the module, must name them."""
    inputs: str
    """A digest of every file and value that goes into the stack."""
    code_digest: str
    """Of the code alone: stacks that share it share the answer of `validate`."""
    modules: frozenset[str]
    """Folders of the root module and of every local module it reaches."""
    source_lock: bytes | None
    laid_out: FileStamps
    notes: tuple[str, ...] = ()
    bare: bool = False
    """Without its backend: for commands that need no state."""


@contextlib.asynccontextmanager
async def open_workdir(
    context: ChangeContext, stack: Stack, *, for_state: bool = False, stateless: bool = False
) -> AsyncIterator[StackWorkdir]:
    """Hold a work directory for the stack; what is secret in it goes when the run ends.

    `for_state` is for commands that bring or read a state, which must work when nothing else may.
    `stateless` is for those that need none: the backend is neither asked nor told anything, and they have a
    work directory of their own, so that what init did for them is never taken for all of it.
    """
    unasked = stateless_home(stack, context.project.code_backend(stack.module)) if stateless else None
    if unasked is not None:
        stack = replace(stack, backend=None, workspace="default")
    context.control.tell(PhaseStarted(stack=stack.name, phase="layout"))
    references = references_of(stack)
    if not all(map(is_local, references)):
        # What lies behind a network takes its time, and other stacks go on.
        await asyncio.to_thread(context.secrets.read_all, references)
    choice = context.engines.choose(stack)
    given = stack.backend.settings if stack.backend else {}
    settings = {key: _filled(context.secrets, context.redactor, value) for key, value in given.items()}
    home = unasked or _home(context.project, stack, settings)
    store_errored_states(context.project, context.store, stack)
    if not for_state:
        require_no_leftover_state(context.project.root, context.store, stack, home)
        require_state_saved(context.store, stack)
    environment = _environment(context, stack, home)
    inline = {
        key: reveal_all(_filled(context.secrets, context.redactor, value))
        for key, value in stack.variables.items()
    }
    _register_variables(context.project.code, context.redactor, stack, environment, inline)
    reached = stack_inputs(context.project.code, stack, terraform_variables(environment))
    if not for_state:
        _refuse_beyond(stack, reached)
    name = stack.name if unasked is None else f"{stack.name}~"  # No stack is called so.
    with hold_workdir(context.project.environment.home, context.project.root, name, stack.module) as work:
        layout = _lay_out(context.project, stack, work, reached, home)
        remove_files(work, (WORKSPACE_FILE,))
        try:
            _private_files(work, home, inline)
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
                inputs=_digest(layout, json.dumps(inline, sort_keys=True)),
                code_digest=layout if reached.everything else _code_digest(work, reached),
                modules=frozenset(reached.modules.values()),
                source_lock=files.content_of(context.project.root / stack.module / LOCK_FILE),
                laid_out=list_files(work),
                notes=(
                    *(reached.reasons if reached.everything else ()),
                    *reached.outside,
                    *unrelated_states(context.project.root, stack, home),
                ),
                bare=unasked is not None,
            )
        finally:
            _leave_nothing(work, home)


def require_homes(context: ChangeContext, stacks: Iterable[Stack]) -> None:
    """Every mistake about an engine or a backend, of all stacks at once, before anything runs.

    No secret is asked for.
    """
    problems: list[Problem] = []
    for stack in stacks:
        try:
            context.engines.choose(stack)
            _home(context.project, stack, stack.backend.settings if stack.backend else {})
        except UsageError as error:
            problems += error.problems
    if problems:
        raise ConfigError(tuple(problems))


def _home(project: Project, stack: Stack, settings: Mapping[str, object]) -> StateHome:
    return state_home(
        stack,
        project.code_backend(stack.module),
        settings,
        root=project.root,
    )


def state_without_terraform(store: RunStore, ready: StackWorkdir) -> bytes | None:
    """The state's content where it can be had without Terraform; empty for none. None: only Terraform can."""
    if ready.home.managed:
        version = store.states.current(ready.stack.name)
        return version.state if version is not None else b""
    if ready.home.file is not None:
        return files.content_of(ready.home.file) or b""
    return None


def _lay_out(
    project: Project, stack: Stack, work: WorkDirectory, reached: StackInputs, home: StateHome
) -> str:
    return copy_sources(
        work,
        project.root,
        _wanted(stack, reached),
        everything=reached.everything,
        store=project.root / (project.config.store if "://" not in project.config.store else ".holdfast"),
        state=home.file,
    )


def _wanted(stack: Stack, reached: StackInputs) -> frozenset[str]:
    """What was named and not there when the code was read may be there by now: a dependency's state, say."""
    named = (path for names in reached.names for path in names.paths)
    return frozenset((*reached.files, *reached.reads, *named, *stack.variables_files))


def _private_files(work: WorkDirectory, home: StateHome, inline: Mapping[str, object]) -> None:
    if home.override is not None:
        work.private_file(OVERRIDE_FILE, home.override)
    if inline:
        work.private_file(INLINE_FILE, json.dumps(inline))


def _leave_nothing(work: WorkDirectory, home: StateHome) -> None:
    """Plans, settings and values are secret; what init wrote down of a secret setting is too."""
    remove_files(work, (PLAN_FILE, INLINE_FILE))
    remove_state_copies(work)
    if home.secret_on_disk:
        remove_files(work, (".terraform/terraform.tfstate",))


def _environment(context: ChangeContext, stack: Stack, home: StateHome) -> dict[str, str]:
    named = {
        key: _text(_filled(context.secrets, context.redactor, value)) for key, value in stack.env.items()
    }
    own: dict[str, str] | None = None
    if stack.credentials:
        settings = {
            provider: {
                key: _text(_filled(context.secrets, context.redactor, value)) for key, value in given.items()
            }
            for provider, given in stack.credentials.items()
        }
        own = _identity(context, settings)
    return child_environment(
        caller=_caller(context, stack),
        named={**home.variables, **named},
        credentials=own,
        scratch=str(context.engines.scratch),
    )


def _caller(context: ChangeContext, stack: Stack) -> dict[str, str]:
    """The caller's variables, with the CLI configuration that counts.

    One that is not there only makes Terraform complain, on every command.
    """
    caller = dict(context.project.environment.variables)
    tofu = context.engines.choose(stack).engine.product is Product.TOFU
    own = user_config_file(caller, tofu=tofu)
    if named := context.project.config.engine.mirror:
        mirror = (context.project.root / named).absolute()
        text = with_mirror(_text_of(own) if own is not None else "", mirror, mirrored_providers(mirror))
        file = context.engines.scratch / f"cli-{_digest(text)[:12]}.tfrc"
        files.write(file, text, durable=False)
        own = file
    caller.pop("TF_CLI_CONFIG_FILE", None)
    if own is not None and own.is_file():
        caller["TF_CLI_CONFIG_FILE"] = str(own.absolute())
    return caller


def _identity(context: ChangeContext, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Files of an identity lie in a folder named by their content, so that equal stacks share a process."""
    variables = context.project.environment.variables
    user = Path(variables.get("HOME", "/"))
    caller = Caller(
        variables=variables,
        aws_config=_text_of(Path(variables.get("AWS_CONFIG_FILE") or user / ".aws/config")),
        aws_credentials=_text_of(
            Path(variables.get("AWS_SHARED_CREDENTIALS_FILE") or user / ".aws/credentials")
        ),
    )
    one = build_identity(settings, caller)
    folder = files.private_folder(
        context.engines.scratch
        / _digest(*(f"{name}\0{text}" for name, text in sorted(one.files.items())))[:16]
    )
    for name, text in one.files.items():
        files.write(folder / name, text, durable=False)
    return {name: value.replace("{folder}", str(folder)) for name, value in one.variables.items()}


def _filled(secrets: SecretReader, redactor: Redactor, value: Value) -> object:
    """References become secrets, known to the redactor from then on."""
    match value:
        case SecretRef():
            secret = secrets.read(value)
            redactor.register(secret.reveal())
            return secret
        case Mapping():
            return {key: _filled(secrets, redactor, one) for key, one in value.items()}
        case tuple():
            return [_filled(secrets, redactor, one) for one in value]
        case _:
            return value


def _register_variables(
    code: Code, redactor: Redactor, stack: Stack, environment: Mapping[str, str], inline: Mapping[str, object]
) -> None:
    """What the code declares sensitive is known before there is a plan: a plan may fail and quote it."""
    caller = {name: environment[f"TF_VAR_{name}"] for name in terraform_variables(environment)}
    given = {**caller, **inline}
    redactor.register_all(sensitive_variables(code, stack.module, stack.variables_files, given))


def _text(value: object) -> str:
    match value:
        case Secret():
            return value.reveal()
        case bool():
            return "true" if value else "false"
        case Mapping() | list():
            return json.dumps(reveal_all(value))
        case _:
            return str(value)


def _refuse_beyond(stack: Stack, reached: StackInputs) -> None:
    """A file that is missing must never change a plan, and no work directory can hold these."""
    if reached.broken:
        raise Refused(
            "HF-WORK-3",
            f"{stack.name}: {reached.broken[0]}",
            hint="Put holdfast.yaml at the root, name the file by an absolute path, or fix the link.",
        )


def _code_digest(work: WorkDirectory, reached: StackInputs) -> str:
    """As files lie to the root module: the same code in another folder is the same."""
    parts = []
    for file in sorted(reached.files):
        if file.endswith((".tf", ".tofu", ".tf.json", ".tofu.json")):
            content = hashlib.sha256(files.content_of(work.tree / file) or b"").hexdigest()
            parts.append(f"{posixpath.relpath(file, work.module_path)}\0{content}")
    return _digest(*parts)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogateescape")
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def _text_of(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
