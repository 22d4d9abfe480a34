"""What a Terraform process sees of the world."""

from __future__ import annotations

import pytest

from holdfast.terraform.engine.environment import FIXED, child_environment, terraform_variables

FIXED_AND_SCRATCH = {**FIXED, "TMPDIR": "/scratch"}


def child(
    caller: dict[str, str],
    *,
    named: dict[str, str] | None = None,
    credentials: dict[str, str] | None = None,
) -> dict[str, str]:
    """Without what is always there."""
    whole = child_environment(caller=caller, named=named or {}, credentials=credentials, scratch="/scratch")
    assert whole.items() >= FIXED_AND_SCRATCH.items()
    return {name: value for name, value in whole.items() if name not in FIXED_AND_SCRATCH}


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_TIME",
        "TZ",
        "HTTP_PROXY",
        "https_proxy",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "AWS_CA_BUNDLE",
        "SSH_AUTH_SOCK",
        "TF_CLI_CONFIG_FILE",
    ],
)
@pytest.mark.parametrize("credentials", [None, {}], ids=["the-callers", "its-own"])
def test_passes_whatever_the_stack(name: str, credentials: dict[str, str] | None) -> None:
    """Without these no Terraform works behind a proxy, a private authority or a mirror."""
    assert child({name: "x"}, credentials=credentials) == {name: "x"}


_NEVER = [
    "TF_CLI_ARGS",
    "TF_CLI_ARGS_plan",
    "TF_CLI_ARGS_apply",
    "TF_WORKSPACE",
    "TF_DATA_DIR",
    "TF_LOG",
    "TF_LOG_PATH",
    "TF_LOG_PROVIDER",
    "TF_LOG_CORE",
    "TF_REATTACH_PROVIDERS",
    "TF_PLUGIN_CACHE_DIR",
    "TF_DISABLE_PLUGIN_TLS",
    "TF_TEMP_LOG_PATH",
    "TF_HTTP_PASSWORD",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    "CI_JOB_TOKEN",
    "VAULT_TOKEN",
    "HOLDFAST_KEY",
    "HOLDFAST_HOME",
    "DATABASE_PASSWORD",
    "PYTHONPATH",
    "LD_PRELOAD",
    "TMPDIR_OTHER",
    "path",
    "MY_AWS_KEY",
]


@pytest.mark.parametrize("name", _NEVER)
@pytest.mark.parametrize("credentials", [None, {}], ids=["the-callers", "its-own"])
def test_never_passes(name: str, credentials: dict[str, str] | None) -> None:
    """Variables that change how Terraform works, and secrets that the stack does not name, stay outside."""
    assert child({name: "x"}, credentials=credentials) == {}


_IDENTITY = [
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "ARM_CLIENT_SECRET",
    "AZURE_CLIENT_ID",
    "GOOGLE_CREDENTIALS",
    "KUBECONFIG",
    "KUBE_TOKEN",
    "TF_VAR_password",
    "TF_TOKEN_app_terraform_io",
]


@pytest.mark.parametrize("name", _IDENTITY)
def test_a_stack_without_credentials_is_the_caller(name: str) -> None:
    """On the command line a stack that names no identity uses that of the person."""
    assert child({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("name", _IDENTITY)
def test_a_stack_with_credentials_is_only_itself(name: str) -> None:
    """No key of the caller reaches a stack that has an identity of its own, whichever provider it is for."""
    assert child({name: "x"}, credentials={"ARM_CLIENT_ID": "own"}) == {"ARM_CLIENT_ID": "own"}


def test_what_the_stack_names_wins_over_identity_and_caller() -> None:
    """The stack's own `env` wins over the rest of the configuration."""
    made = child(
        {"PATH": "/caller", "AWS_REGION": "caller"},
        named={"AWS_REGION": "named", "PATH": "/named", "VENDOR_TOKEN": "t"},
        credentials={"AWS_REGION": "identity", "AWS_PROFILE": "holdfast"},
    )
    assert made == {
        "PATH": "/named",
        "AWS_REGION": "named",
        "VENDOR_TOKEN": "t",
        "AWS_PROFILE": "holdfast",
    }


@pytest.mark.parametrize("name", sorted(FIXED_AND_SCRATCH))
def test_what_holdfast_fixes_cannot_be_changed(name: str) -> None:
    """Neither caller, identity nor stack can make Terraform ask, phone home or leave its room."""
    made = child_environment(
        caller={name: "caller"}, named={name: "named"}, credentials={name: "own"}, scratch="/scratch"
    )
    assert made[name] == FIXED_AND_SCRATCH[name]


def test_the_caller_is_not_changed() -> None:
    """The allow-list makes a new environment and leaves the given one alone."""
    caller = {"PATH": "/bin", "GITHUB_TOKEN": "x"}
    child(caller, named={"PATH": "/named"})
    assert caller == {"PATH": "/bin", "GITHUB_TOKEN": "x"}


def test_variables_that_the_environment_sets() -> None:
    """`TF_VAR_name` sets the variable `name`; nothing else does."""
    environment = {"TF_VAR_region": "x", "TF_VAR_": "y", "XTF_VAR_no": "z", "PATH": "p"}
    assert terraform_variables(environment) == {"region", ""}
