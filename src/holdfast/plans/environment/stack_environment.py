"""The environment of Terraform for one stack: what it inherits, what is configured, and its credentials."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.kernel.patterns import pattern
from holdfast.kernel.secret import Secret, reveal_all
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.environment.backend_config import StateHome
from holdfast.plans.environment.destination import AwsProfile, aws_profile, variables_destination
from holdfast.plans.environment.outside_content import clusters
from holdfast.secrets.entropy import is_secret_name
from holdfast.stacks.engine_requirement import ENCRYPTION
from holdfast.stacks.stack import Stack
from holdfast.system import files
from holdfast.terraform.engine.credentials import Caller, build_identity, profile_settings
from holdfast.terraform.engine.environment import (
    INHERITED_PREFIXES,
    child_environment,
    mirrored_providers,
    user_config_file,
    with_mirror,
)
from holdfast.terraform.engine.interface import Product

_ASSIGNED = pattern(r'(\w+)"?\s*[=:]\s*"((?:[^"\\]|\\.)+)"')


def stack_environment(
    context: ChangeContext, stack: Stack, home: StateHome
) -> tuple[dict[str, str], dict[str, str]]:
    """The environment of Terraform, and what it says about where."""
    named = {key: _text(value) for key, value in resolve_all(context, stack.env).items()}
    settings = {
        provider: {key: _text(value) for key, value in resolve_all(context, values).items()}
        for provider, values in stack.credentials.items()
    }
    identity = _identity(context, settings) if settings else None
    passed = _passed_variables(context, stack, identity or {})
    environment = child_environment(
        caller=_caller(context, stack),
        named={**passed, **home.variables, **named},
        credentials=identity,
        scratch=str(context.engines.scratch),
    )
    context.redactor.register_all(_encryption_keys(environment.get(ENCRYPTION, "")))
    references = (value for value in stack.env.values() if isinstance(value, SecretRef))
    destination = variables_destination(
        environment,
        {**{name: value for name, value in passed.items() if _says_where(name)}, **stack.env},
        settings,
        versions={reference: context.secrets.version(reference) for reference in references},
        profile=_profile(context.project, environment),
    )
    return environment, {**destination, **clusters(environment)}


def _passed_variables(context: ChangeContext, stack: Stack, identity: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that `pass_env` names; those of the stack's own identity win."""
    caller = context.project.environment.variables
    passed = {name: caller[name] for name in stack.pass_env if name in caller and name not in identity}
    context.redactor.register_all(value for name, value in passed.items() if is_secret_name(name))
    return passed


def _says_where(name: str) -> bool:
    """Keys, credentials and what a stack without its own inherits anyway are no part of a destination."""
    return name != ENCRYPTION and not is_secret_name(name) and not name.startswith(INHERITED_PREFIXES)


def _encryption_keys(settings: str) -> Iterator[str]:
    """Keys and passphrases in OpenTofu's encryption settings, which are HCL or JSON."""
    return (text for name, text in _ASSIGNED.findall(settings) if name == "key" or is_secret_name(name))


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
        file = context.engines.scratch / f"cli-{digest_of(text)[:12]}.tfrc"
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
    digest = digest_of(*(f"{name}\0{text}" for name, text in sorted(identity.files.items())))
    folder = files.private_folder(context.engines.scratch / digest[:16])
    for name, text in identity.files.items():
        files.write(folder / name, text, durable=False)
    return {name: value.replace("{folder}", str(folder)) for name, value in identity.variables.items()}


def resolve_all(context: ChangeContext, values: Mapping[str, Value]) -> dict[str, object]:
    return {key: resolve(context, value) for key, value in values.items()}


def resolve(context: ChangeContext, value: Value) -> object:
    """References become secrets, which the redactor knows from then on."""
    match value:
        case SecretRef():
            secret = context.secrets.read(value)
            context.redactor.register(secret.reveal())
            return secret
        case Mapping():
            return resolve_all(context, value)
        case tuple():
            return [resolve(context, item) for item in value]
        case _:
            return value


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


def digest_of(*parts: str) -> str:
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
