"""The work directory of a stack: the files, environment, credentials and backend that Terraform needs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import posixpath
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.hcl.eval.code import LOCK_FILE, Code
from holdfast.kernel.errors import ConfigError, EngineError, Problem, Refused, UsageError
from holdfast.kernel.secret import Secret, reveal_all
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.backend_config import OVERRIDE_FILE, StateHome, state_home, stateless_home
from holdfast.plans.context import NO_INPUTS, ChangeContext, InputValues, Project
from holdfast.plans.destination import AwsProfile, Destination, aws_profile, variables_destination
from holdfast.plans.events import PhaseStarted
from holdfast.plans.kept_files import left_out_note, restore_kept_files
from holdfast.plans.outside_content import clusters
from holdfast.plans.state_continuity import (
    require_no_leftover_state,
    require_state_saved,
    store_errored_states,
    unrelated_states,
)
from holdfast.secrets.entropy import is_secret_name
from holdfast.secrets.redact import Redactor
from holdfast.secrets.sources.interface import is_local
from holdfast.secrets.stack_secrets import references_of
from holdfast.stacks.reads.inputs import OutsideRead, StackInputs
from holdfast.stacks.reads.walk import stack_inputs
from holdfast.stacks.stack import Stack
from holdfast.store.kept_files import KeptFiles
from holdfast.store.run_store import RunStore
from holdfast.system import files
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.terraform.argv import PLAN_FILE
from holdfast.terraform.engine.credentials import Caller, build_identity, profile_settings
from holdfast.terraform.engine.environment import (
    INHERITED_PREFIXES,
    child_environment,
    mirrored_providers,
    terraform_variables,
    user_config_file,
    with_mirror,
)
from holdfast.terraform.engine.interface import Engine, Product
from holdfast.terraform.statefile.sensitive import sensitive_variables
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

INLINE_FILE = "holdfast.inline.tfvars.json"


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
    bare_home = stateless_home(stack, project.code_backend(stack.module)) if stateless else None
    if bare_home is not None:
        stack = replace(stack, backend=None, workspace="default")
    context.control.tell(PhaseStarted(stack=stack.name, phase="layout"))
    references = references_of(stack)
    if not all(map(is_local, references)):
        # Requests over a network take time; other stacks continue meanwhile.
        await asyncio.to_thread(context.secrets.read_all, references)
    choice = context.engines.choose(stack)
    settings = _resolve_all(context, stack.backend.settings if stack.backend else {})
    home = bare_home or _home(project, stack, settings)
    store_errored_states(project, context.store, stack)
    if not for_state:
        require_no_leftover_state(project.root, context.store, stack, home)
        require_state_saved(context.store, stack)
    environment, destination = _environment(context, stack, home)
    inline = {key: reveal_all(value) for key, value in _resolve_all(context, stack.variables).items()}
    inline.update(read.values)
    _register_variables(project.code, context.redactor, stack, environment, inline)
    inputs = stack_inputs(project.code, stack, terraform_variables(environment))
    if inputs.broken and not for_state:
        raise Refused(
            "HF-WORK-3",
            f"{stack.name}: {inputs.broken[0]}",
            hint="Put holdfast.yaml at the root, name the file by an absolute path, or replace the link with "
            "what it leads to.",
        )
    name = stack.name if bare_home is None else f"{stack.name}~"  # Not a valid stack name.
    with hold_workdir(project.environment.home, project.root, name, stack.module) as work:
        layout = _copy_sources(project, stack, work, inputs, home)
        kept = restore_kept_files(context.store, work, stack.name) if bare_home is None else KeptFiles()
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
                inputs=_digest(
                    layout.digest,
                    json.dumps(inline, sort_keys=True),
                    *(f"{hook.when} {hook.time_limit} {json.dumps(hook.run)}" for hook in stack.hooks),
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
                    *(inputs.reasons if inputs.everything else ()),
                    *inputs.outside,
                    *(f"{link} leads out of the repository and was not copied" for link in layout.links_out),
                    *unrelated_states(project.root, stack, home),
                    *read.notes,
                    *left_out_note(kept),
                ),
                read=read,
                bare=bare_home is not None,
            )
        finally:
            # Plans, settings and values are secret; what init stored of a secret setting is too.
            remove_files(work, (PLAN_FILE, INLINE_FILE))
            remove_state_copies(work)
            if home.secret_on_disk:
                remove_files(work, (".terraform/terraform.tfstate",))


def require_homes(context: ChangeContext, stacks: Iterable[Stack]) -> None:
    """Raise every engine or backend error of all stacks at once, before anything runs. Reads no secret."""
    problems: list[Problem] = []
    for stack in stacks:
        try:
            context.engines.choose(stack)
            home_of(context.project, stack)
        except UsageError as error:
            problems += error.problems
        except EngineError:
            # Only this stack fails, when its run starts.
            continue
    if problems:
        raise ConfigError(tuple(problems))


def _home(project: Project, stack: Stack, settings: Mapping[str, object]) -> StateHome:
    return state_home(stack, project.code_backend(stack.module), settings, root=project.root)


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
        store=project.root / (project.config.store if "://" not in project.config.store else ".holdfast"),
        state=home.file,
        forbidden=ForbiddenFiles(project.environment),
    )


def _environment(
    context: ChangeContext, stack: Stack, home: StateHome
) -> tuple[dict[str, str], dict[str, str]]:
    """The environment of Terraform, and what it says about where."""
    named = {key: _text(value) for key, value in _resolve_all(context, stack.env).items()}
    settings = {
        provider: {key: _text(value) for key, value in _resolve_all(context, values).items()}
        for provider, values in stack.credentials.items()
    }
    identity = _identity(context, settings) if settings else None
    passed = _passed(context, stack, identity or {})
    environment = child_environment(
        caller=_caller(context, stack),
        named={**passed, **home.variables, **named},
        credentials=identity,
        scratch=str(context.engines.scratch),
    )
    references = (value for value in stack.env.values() if isinstance(value, SecretRef))
    destination = variables_destination(
        environment,
        {**{name: value for name, value in passed.items() if _says_where(name)}, **stack.env},
        settings,
        versions={reference: context.secrets.version(reference) for reference in references},
        profile=_profile(context.project, environment),
    )
    return environment, {**destination, **clusters(environment)}


def _passed(context: ChangeContext, stack: Stack, identity: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that `pass_env` names; those of the stack's own identity win."""
    caller = context.project.environment.variables
    passed = {name: caller[name] for name in stack.pass_env if name in caller and name not in identity}
    context.redactor.register_all(value for name, value in passed.items() if is_secret_name(name))
    return passed


def _says_where(name: str) -> bool:
    """Credentials, and what a stack without its own inherits anyway, are no part of a destination."""
    return not is_secret_name(name) and not name.startswith(INHERITED_PREFIXES)


def _profile(project: Project, environment: Mapping[str, str]) -> AwsProfile:
    """The AWS profile that Terraform finds; read once for all stacks."""
    name = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    places = _aws_files(environment)
    return project.code.once(
        ("AWS profile", name, places), lambda: aws_profile(profile_settings(name, *map(_text_of, places)))
    )


def _aws_files(variables: Mapping[str, str]) -> tuple[Path, Path]:
    """The AWS configuration and the credentials of a user."""
    user = Path(variables.get("HOME", "/"))
    return (
        Path(variables.get("AWS_CONFIG_FILE") or user / ".aws/config"),
        Path(variables.get("AWS_SHARED_CREDENTIALS_FILE") or user / ".aws/credentials"),
    )


def _caller(context: ChangeContext, stack: Stack) -> dict[str, str]:
    """The caller's variables, with the CLI configuration to use.

    A missing one is left out: Terraform would warn on every command.
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
    """Credential files are in a folder named by their content: stacks with the same ones share a process."""
    variables = context.project.environment.variables
    config, credentials = map(_text_of, _aws_files(variables))
    caller = Caller(variables=variables, aws_config=config, aws_credentials=credentials)
    identity = build_identity(settings, caller)
    digest = _digest(*(f"{name}\0{text}" for name, text in sorted(identity.files.items())))
    folder = files.private_folder(context.engines.scratch / digest[:16])
    for name, text in identity.files.items():
        files.write(folder / name, text, durable=False)
    return {name: value.replace("{folder}", str(folder)) for name, value in identity.variables.items()}


def _resolve_all(context: ChangeContext, values: Mapping[str, Value]) -> dict[str, object]:
    return {key: resolve(context, value) for key, value in values.items()}


def resolve(context: ChangeContext, value: Value) -> object:
    """References become secrets, which the redactor knows from then on."""
    match value:
        case SecretRef():
            secret = context.secrets.read(value)
            context.redactor.register(secret.reveal())
            return secret
        case Mapping():
            return _resolve_all(context, value)
        case tuple():
            return [resolve(context, item) for item in value]
        case _:
            return value


def _register_variables(
    code: Code, redactor: Redactor, stack: Stack, environment: Mapping[str, str], inline: Mapping[str, object]
) -> None:
    """Values of sensitive variables are known before the plan, which may fail and quote them."""
    caller = {name: environment[f"TF_VAR_{name}"] for name in terraform_variables(environment)}
    redactor.register_all(
        sensitive_variables(code, stack.module, stack.variables_files, {**caller, **inline})
    )


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


def _code_digest(work: WorkDirectory, inputs: StackInputs) -> str:
    """Paths are relative to the root module: the same code in another folder has the same digest."""
    parts = []
    for file in sorted(inputs.files):
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
