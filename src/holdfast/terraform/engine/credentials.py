"""One identity per stack: a role or a federated identity becomes a private configuration.

Only that stack's engine sees it. The caller's own keys are used to assume the role and never reach the stack
through its environment. Pure: the caller's credentials come in as `Caller`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.values import MaskedStruct

PROFILE = "holdfast"
_SOURCE = "holdfast-source"


class Caller(MaskedStruct, frozen=True, kw_only=True):
    """The credentials of the caller."""

    variables: Mapping[str, str]
    aws_config: str = ""
    aws_credentials: str = ""
    """The content of the caller's own AWS files, if any."""


class Identity(MaskedStruct, frozen=True, kw_only=True):
    """Files to write (0600) and variables to set. `{folder}` in a value is the folder of the files."""

    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


def build_identity(credentials: Mapping[str, Mapping[str, str]], caller: Caller) -> Identity:
    files: dict[str, str] = {}
    variables: dict[str, str] = {}
    for provider, build in (("aws", aws_identity), ("azure", azure_identity)):
        if provider in credentials:
            identity = build(credentials[provider], caller)
            files.update(identity.files)
            variables.update(identity.variables)
    return Identity(files=files, variables=variables)


def aws_identity(settings: Mapping[str, str], caller: Caller) -> Identity:
    """A configuration file with one profile that assumes the role."""
    profile = {
        "role_arn": settings["role_arn"],
        "role_session_name": settings.get("session_name", "holdfast"),
    }
    for key, name in (("external_id", "external_id"), ("duration", "duration_seconds"), ("region", "region")):
        if key in settings:
            profile[name] = settings[key]
    source = _source(settings, caller)
    variables = {
        "AWS_CONFIG_FILE": "{folder}/aws-config",
        "AWS_SHARED_CREDENTIALS_FILE": "{folder}/aws-credentials",
        "AWS_PROFILE": PROFILE,
        "AWS_SDK_LOAD_CONFIG": "1",
        **source.passed,
    }
    if "region" in settings:
        variables["AWS_REGION"] = variables["AWS_DEFAULT_REGION"] = settings["region"]
    return Identity(
        files={
            "aws-config": source.config + _section(f"profile {PROFILE}", {**profile, **source.profile}),
            "aws-credentials": source.keys,
        },
        variables=variables,
    )


class _Source(Struct, frozen=True, kw_only=True):
    """Who assumes the role: lines for the profile, the content of both files, variables to pass on."""

    profile: Mapping[str, str]
    config: str
    keys: str
    passed: Mapping[str, str] = field(default_factory=dict)


def _source(settings: Mapping[str, str], caller: Caller) -> _Source:
    """The first of: a configured source, keys, a web identity, the caller's profile, the machine."""
    config, keys, has = caller.aws_config, caller.aws_credentials, caller.variables.get
    profile, passed = {"source_profile": _SOURCE}, {}
    if token := settings.get("web_identity_token_file"):
        profile = {"web_identity_token_file": token}
    elif named := settings.get("profile"):
        profile = {"source_profile": named}
    elif has("AWS_ACCESS_KEY_ID"):
        keys += _section(
            _SOURCE,
            {
                "aws_access_key_id": has("AWS_ACCESS_KEY_ID"),
                "aws_secret_access_key": has("AWS_SECRET_ACCESS_KEY"),
                "aws_session_token": has("AWS_SESSION_TOKEN"),
            },
        )
    elif has("AWS_WEB_IDENTITY_TOKEN_FILE") and has("AWS_ROLE_ARN"):
        config += _section(
            f"profile {_SOURCE}",
            {
                "role_arn": has("AWS_ROLE_ARN"),
                "web_identity_token_file": has("AWS_WEB_IDENTITY_TOKEN_FILE"),
                "role_session_name": has("AWS_ROLE_SESSION_NAME") or "holdfast",
            },
        )
    elif has("AWS_PROFILE") or _has_credentials("default", config, keys):
        profile = {"source_profile": has("AWS_PROFILE") or "default"}
    elif container := [name for name in caller.variables if name.startswith("AWS_CONTAINER_")]:
        profile = {"credential_source": "EcsContainer"}
        passed = {name: caller.variables[name] for name in container}
    else:
        profile = {"credential_source": "Ec2InstanceMetadata"}
    return _Source(profile=profile, config=config, keys=keys, passed=passed)


_CREDENTIALS = pattern(
    r"^\s*(aws_access_key_id|role_arn|sso_|credential_process|credential_source|web_identity|login_session)",
    re.MULTILINE,
)
_SETTING = pattern(r"^(\w+)[ \t]*=[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def _has_credentials(profile: str, *texts: str) -> bool:
    """Whether a profile has credentials. On a machine with an identity it often has a region only."""
    return any(_CREDENTIALS.search(section) for section in _sections(profile, *texts))


def profile_settings(profile: str, *texts: str) -> dict[str, str]:
    """The settings of a profile in AWS configuration files; the first file that has one wins."""
    settings: dict[str, str] = {}
    for section in _sections(profile, *texts):
        for key, value in _SETTING.findall(section):
            settings.setdefault(key, value)
    return settings


def _sections(profile: str, *texts: str) -> Iterator[str]:
    header = re.compile(rf"^\s*\[\s*(?:profile\s+)?{re.escape(profile)}\s*\]\s*$", re.MULTILINE)
    for text in texts:
        for match in header.finditer(text):
            yield re.split(r"^\s*\[", text[match.end() :], maxsplit=1, flags=re.MULTILINE)[0]


def _section(name: str, values: Mapping[str, str | None]) -> str:
    for key, value in values.items():
        if value and ("\n" in value or "\r" in value):
            raise UsageError(
                "HF-CRED-1",
                f"credentials: `{key}` contains a line break, which AWS configuration files do not allow",
                hint="Check the secret or variable it comes from.",
            )
    lines = "".join(f"{key} = {value}\n" for key, value in values.items() if value)
    return f"\n[{name}]\n{lines}"


_AZURE = {
    "client_id": ("ARM_CLIENT_ID", "AZURE_CLIENT_ID"),
    "tenant_id": ("ARM_TENANT_ID", "AZURE_TENANT_ID"),
    "subscription_id": ("ARM_SUBSCRIPTION_ID",),
    "client_secret": ("ARM_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
    "oidc_token_file": ("ARM_OIDC_TOKEN_FILE_PATH", "AZURE_FEDERATED_TOKEN_FILE"),
}
_ACTIONS_TOKEN = {
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "ARM_OIDC_REQUEST_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "ARM_OIDC_REQUEST_URL",
}


def azure_identity(settings: Mapping[str, str], caller: Caller) -> Identity:
    """Variables for a federated identity (or a client secret), with Entra sign-in to the state."""
    variables = {
        variable: settings[key] for key, names in _AZURE.items() if key in settings for variable in names
    }
    variables["ARM_USE_AZUREAD"] = settings.get("use_azuread", "true")
    variables["ARM_USE_CLI"] = "false"
    if settings.get("use_oidc") == "true" or "oidc_token_file" in settings:
        variables["ARM_USE_OIDC"] = "true"
        if "oidc_token_file" not in settings:
            variables.update(
                {
                    ours: caller.variables[theirs]
                    for theirs, ours in _ACTIONS_TOKEN.items()
                    if caller.variables.get(theirs)
                }
            )
    return Identity(variables=variables)
