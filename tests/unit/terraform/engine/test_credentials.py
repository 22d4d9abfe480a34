"""One identity per stack: what is written for it, and from whom it is taken."""

from __future__ import annotations

import configparser

import pytest

from holdfast.kernel.errors import UsageError
from holdfast.terraform.engine.credentials import (
    Caller,
    Identity,
    aws_identity,
    azure_identity,
    build_identity,
)

ROLE = "arn:aws:iam::123456789012:role/deploy"


def caller(aws_config: str = "", aws_credentials: str = "", **variables: str) -> Caller:
    return Caller(variables=variables, aws_config=aws_config, aws_credentials=aws_credentials)


def profile(made: Identity, section: str = "profile holdfast") -> dict[str, str]:
    parser = configparser.RawConfigParser()
    parser.read_string(made.files["aws-config"])
    return dict(parser[section])


def keys(made: Identity, section: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    parser.read_string(made.files["aws-credentials"])
    return dict(parser[section])


def test_everything_about_the_role_is_in_the_profile() -> None:
    """Role, external id, session name, duration and region reach the one who takes the role."""
    made = aws_identity(
        {
            "role_arn": ROLE,
            "external_id": "ext-1",
            "session_name": "deploys",
            "duration": "3600",
            "region": "eu-west-1",
        },
        caller(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="SK"),
    )
    assert profile(made) == {
        "role_arn": ROLE,
        "role_session_name": "deploys",
        "external_id": "ext-1",
        "duration_seconds": "3600",
        "region": "eu-west-1",
        "source_profile": "holdfast-source",
    }
    assert made.variables["AWS_REGION"] == made.variables["AWS_DEFAULT_REGION"] == "eu-west-1"


def test_an_unset_setting_is_left_out() -> None:
    """Without an external id or a region none is sent; the session still has a name."""
    made = aws_identity({"role_arn": ROLE}, caller(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="SK"))
    assert profile(made) == {
        "role_arn": ROLE,
        "role_session_name": "holdfast",
        "source_profile": "holdfast-source",
    }
    assert made.variables == {
        "AWS_CONFIG_FILE": "{folder}/aws-config",
        "AWS_SHARED_CREDENTIALS_FILE": "{folder}/aws-credentials",
        "AWS_PROFILE": "holdfast",
        "AWS_SDK_LOAD_CONFIG": "1",
    }


def test_keys_of_the_environment_become_a_source_and_no_variable() -> None:
    """The caller's keys take the role; no variable of the stack holds them."""
    made = aws_identity(
        {"role_arn": ROLE},
        caller(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="SK", AWS_SESSION_TOKEN="TK", AWS_PROFILE="me"),
    )
    assert keys(made, "holdfast-source") == {
        "aws_access_key_id": "AK",
        "aws_secret_access_key": "SK",
        "aws_session_token": "TK",
    }
    assert not {"AK", "SK", "TK"} & set(made.variables.values())


def test_keys_without_a_session_token_have_none() -> None:
    """An empty token would make every call fail."""
    made = aws_identity(
        {"role_arn": ROLE},
        caller(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="SK", AWS_SESSION_TOKEN=""),
    )
    assert "aws_session_token" not in keys(made, "holdfast-source")


def test_a_token_file_that_the_stack_names_comes_first() -> None:
    """Federation by a token file uses no other credentials, even where keys are set."""
    made = aws_identity(
        {"role_arn": ROLE, "web_identity_token_file": "/token"}, caller(AWS_ACCESS_KEY_ID="AK")
    )
    assert profile(made)["web_identity_token_file"] == "/token"
    assert "source_profile" not in profile(made)
    assert "AK" not in made.files["aws-credentials"]


def test_a_profile_that_the_stack_names_comes_before_keys() -> None:
    """The stack said who takes the role; the caller's files are there to say how."""
    made = aws_identity(
        {"role_arn": ROLE, "profile": "ops"},
        caller(
            aws_config="[profile ops]\nregion = x\n",
            aws_credentials="[ops]\naws_access_key_id = A\n",
            AWS_ACCESS_KEY_ID="AK",
        ),
    )
    assert profile(made)["source_profile"] == "ops"
    assert profile(made, "profile ops") == {"region": "x"}
    assert keys(made, "ops") == {"aws_access_key_id": "A"}
    assert "AK" not in made.files["aws-credentials"]


def test_a_web_identity_of_the_environment() -> None:
    """A pod with a service account, or CI with a federated token, takes the role from its own."""
    made = aws_identity(
        {"role_arn": ROLE},
        caller(
            AWS_WEB_IDENTITY_TOKEN_FILE="/var/token", AWS_ROLE_ARN="arn:base", AWS_ROLE_SESSION_NAME="pod"
        ),
    )
    assert profile(made)["source_profile"] == "holdfast-source"
    assert profile(made, "profile holdfast-source") == {
        "role_arn": "arn:base",
        "web_identity_token_file": "/var/token",
        "role_session_name": "pod",
    }
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" not in made.variables
    assert "AWS_ROLE_ARN" not in made.variables


def test_the_profile_of_the_environment() -> None:
    """`AWS_PROFILE` of the caller is who takes the role; the stack itself has another."""
    made = aws_identity(
        {"role_arn": ROLE}, caller(aws_config="[profile me]\nsso_session = s\n", AWS_PROFILE="me")
    )
    assert profile(made)["source_profile"] == "me"
    assert made.variables["AWS_PROFILE"] == "holdfast"


@pytest.mark.parametrize(
    ("config", "credentials"),
    [
        ("", "[default]\naws_access_key_id = A\naws_secret_access_key = S\n"),
        ("[default]\nregion = x\nsso_session = s\n", ""),
        ("[profile other]\nregion = x\n[default]\ncredential_process = /bin/x\n", ""),
        ("[default]\nregion = x\n", "[other]\nx = y\n\n[ default ]\n  aws_access_key_id = A\n"),
    ],
)
def test_a_default_profile_that_proves_something(config: str, credentials: str) -> None:
    """Someone who signed in with the default profile takes the role with it."""
    made = aws_identity({"role_arn": ROLE}, caller(aws_config=config, aws_credentials=credentials))
    assert profile(made)["source_profile"] == "default"


@pytest.mark.parametrize(
    ("config", "credentials"),
    [
        ("", ""),
        ("[default]\nregion = eu-west-1\n", ""),
        (
            "[default]\nregion = x\n[profile other]\naws_access_key_id = A\n",
            "[other]\naws_access_key_id = A\n",
        ),
    ],
)
def test_a_machine_without_keys_uses_its_own_identity(config: str, credentials: str) -> None:
    """A default profile that holds a region only hides neither the container's identity nor the machine's."""
    alone = aws_identity({"role_arn": ROLE}, caller(aws_config=config, aws_credentials=credentials))
    assert profile(alone)["credential_source"] == "Ec2InstanceMetadata"
    container = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/var/run/token",
    }
    made = aws_identity({"role_arn": ROLE}, caller(config, credentials, **container))
    assert profile(made)["credential_source"] == "EcsContainer"
    assert made.variables.items() >= container.items()


def test_azure_by_a_token_file() -> None:
    """A federated identity reaches provider, backend and the Azure SDK under their own names."""
    made = azure_identity(
        {"client_id": "c", "tenant_id": "t", "subscription_id": "s", "oidc_token_file": "/token"},
        caller(ARM_CLIENT_SECRET="callers", ACTIONS_ID_TOKEN_REQUEST_TOKEN="callers"),
    )
    assert made.files == {}
    assert made.variables == {
        "ARM_CLIENT_ID": "c",
        "AZURE_CLIENT_ID": "c",
        "ARM_TENANT_ID": "t",
        "AZURE_TENANT_ID": "t",
        "ARM_SUBSCRIPTION_ID": "s",
        "ARM_OIDC_TOKEN_FILE_PATH": "/token",
        "AZURE_FEDERATED_TOKEN_FILE": "/token",
        "ARM_USE_OIDC": "true",
        "ARM_USE_AZUREAD": "true",
        "ARM_USE_CLI": "false",
    }


def test_azure_by_the_token_of_github_actions() -> None:
    """Where CI can ask for a token, the stack's identity is what asks."""
    made = azure_identity(
        {"client_id": "c", "use_oidc": "true"},
        caller(ACTIONS_ID_TOKEN_REQUEST_TOKEN="tok", ACTIONS_ID_TOKEN_REQUEST_URL="https://x"),
    )
    assert made.variables["ARM_OIDC_REQUEST_TOKEN"] == "tok"
    assert made.variables["ARM_OIDC_REQUEST_URL"] == "https://x"
    assert made.variables["ARM_USE_OIDC"] == "true"


def test_azure_by_a_client_secret() -> None:
    """A secret is an identity too; nothing federated is switched on, and access keys can be kept."""
    made = azure_identity({"client_id": "c", "client_secret": "hush", "use_azuread": "false"}, caller())
    assert made.variables["ARM_CLIENT_SECRET"] == made.variables["AZURE_CLIENT_SECRET"] == "hush"
    assert made.variables["ARM_USE_AZUREAD"] == "false"
    assert "ARM_USE_OIDC" not in made.variables


def test_both_clouds_at_once() -> None:
    """A stack may live in two clouds and has an identity in each."""
    made = build_identity({"aws": {"role_arn": ROLE}, "azure": {"client_id": "c"}}, caller())
    assert made.variables["AWS_PROFILE"] == "holdfast"
    assert made.variables["ARM_CLIENT_ID"] == "c"
    assert set(made.files) == {"aws-config", "aws-credentials"}


def test_no_identity_shows_itself() -> None:
    """Neither a caller nor an identity prints what it holds."""
    one = caller(aws_credentials="[default]\naws_access_key_id = SK", AWS_SECRET_ACCESS_KEY="SK")
    assert "SK" not in repr(one)
    assert "SK" not in repr(aws_identity({"role_arn": ROLE, "external_id": "SK"}, one))


def test_a_line_break_in_a_value_is_refused() -> None:
    """A secret with a line break would write settings of its own; it is refused and not shown."""
    with pytest.raises(UsageError) as caught:
        aws_identity({"role_arn": ROLE, "external_id": "hush\nrole_arn = other"}, caller())
    assert caught.value.problem.code == "HF-CRED-1"
    assert "external_id" in caught.value.problem.message
    assert "hush" not in str(caught.value)
