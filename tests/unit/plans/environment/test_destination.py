"""Where a plan applies: places count, credentials do not, and no secret is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.secret_refs import SecretRef
from holdfast.plans.environment.destination import (
    AwsProfile,
    aws_profile,
    clusters_of,
    differences,
    variables_destination,
)
from holdfast.terraform.engine.credentials import profile_settings

REF = SecretRef(scheme="aws-sm", locator="vendor")


def destination(
    environment: Mapping[str, str] | None = None,
    configured: Mapping[str, Any] | None = None,
    role: str | None = None,
    *,
    version: str | None = None,
    profile: AwsProfile | None = None,
) -> dict[str, str]:
    return variables_destination(
        environment or {},
        configured or {},
        {"aws": {"role_arn": role}} if role is not None else {},
        versions={REF: version},
        profile=profile or AwsProfile(),
    )


WHERE = (
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT",
    "ARM_SUBSCRIPTION_ID", "ARM_TENANT_ID", "ARM_ENVIRONMENT", "ARM_METADATA_HOSTNAME", "AZURE_TENANT_ID",
    "GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GOOGLE_REGION", "GOOGLE_ZONE",
    "GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "KUBE_HOST", "KUBE_CTX",
)  # fmt: skip
WHO = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "ARM_CLIENT_ID", "ARM_CLIENT_SECRET",
    "ARM_OIDC_TOKEN", "AZURE_CLIENT_ID", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "KUBE_TOKEN",
    "TF_VAR_x", "TF_TOKEN_app_terraform_io", "PATH", "HOME", "LANG", "HTTPS_PROXY",
)  # fmt: skip


@pytest.mark.parametrize("name", WHERE)
def test_an_inherited_place_counts(name: str) -> None:
    (changed,) = differences(destination({name: "one"}), destination({name: "two"}))
    assert changed.endswith("(one → two)")
    assert differences(destination({name: "one"}), destination())


@pytest.mark.parametrize("name", WHO)
def test_an_inherited_credential_does_not_count(name: str) -> None:
    assert not differences(destination({name: "one"}), destination({name: "two"}))
    assert not differences(destination({name: "one"}), destination())


@given(
    name=st.sampled_from((*WHERE, *WHO, "VENDOR")),
    one=st.text(min_size=9),
    two=st.text(min_size=9),
    secret=st.booleans(),
)
def test_a_configured_value_counts_and_is_shown_only_if_it_is_a_place(
    name: str, one: str, two: str, *, secret: bool
) -> None:
    """A secret is compared by its reference, or, where it names a place, by its value, and never shown."""
    value = REF if secret else "configured"
    changed = differences(destination({name: one}, {name: value}), destination({name: two}, {name: value}))
    assert bool(changed) == (one != two and not (secret and name not in WHERE))
    if secret or name not in WHERE:
        assert not any(text in part for part in changed for text in (one, two) if text.isalnum())


def test_a_reference_counts_by_its_name_and_version() -> None:
    then = destination({"T": "v"}, {"T": REF}, version="1")
    assert differences(then, destination({"T": "rotated"}, {"T": REF}, version="1")) == ()
    assert differences(then, destination({"T": "v"}, {"T": REF}, version="2")) == (
        "T (secret aws-sm:vendor version 1 → secret aws-sm:vendor version 2)",
    )
    other = SecretRef(scheme="aws-sm", locator="other")
    assert len(differences(then, destination({"T": "v"}, {"T": other}))) == 1


def test_a_place_that_may_hold_a_password_is_not_shown() -> None:
    name = "AWS_ENDPOINT_URL"
    then, now = destination({name: "https://u:hunter2@one"}), destination({name: "https://u:hunter2@two"})
    assert differences(then, now) == (name,)
    assert "hunter2" not in str(then)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("arn:aws:iam::111111111111:role/a", "arn:aws:iam::111111111111:role/path/b", True),
        ("arn:aws:iam::111111111111:role/a", "arn:aws:iam::222222222222:role/a", False),
        ("arn:aws:iam::111111111111:role/a", "arn:aws-cn:iam::111111111111:role/a", False),
        ("not an arn", "another", False),
    ],
)
def test_roles_of_one_account_are_one_destination(one: str, two: str, *, same: bool) -> None:
    assert (not differences(destination(role=one), destination(role=two))) is same
    inherited = (destination({"AWS_ROLE_ARN": one}), destination({"AWS_ROLE_ARN": two}))
    assert (not differences(*inherited)) is same
    profiles = (aws_profile({"role_arn": one}), aws_profile({"role_arn": two}))
    assert (not differences(*(destination(profile=profile) for profile in profiles))) is same


def test_the_callers_account_counts_only_where_it_is_known() -> None:
    """Keys say nothing about their account, and win over a profile. A configured role always counts."""
    profile = AwsProfile(account="111111111111")
    keys = {"AWS_ACCESS_KEY_ID": "AKIA"}
    assert not differences(destination(profile=profile), destination(keys, profile=profile))
    role = "arn:aws:iam::111111111111:role/a"
    assert differences(destination(role=role), destination())


def test_a_profile_is_read_as_aws_reads_it() -> None:
    text = "[default]\nregion = eu-west-1\ns3 =\n  region = no\n"
    text += "[profile p]\nsso_account_id=123\n[p2]\nregion=x\n"
    assert aws_profile(profile_settings("default", text)) == AwsProfile(region="eu-west-1")
    assert aws_profile(profile_settings("p", text)) == AwsProfile(account="123")
    assert aws_profile(profile_settings("p2", "", text)) == AwsProfile(region="x")
    assert aws_profile(profile_settings("missing", text)) == AwsProfile()
    assert destination(profile=AwsProfile(region="r"))["AWS_REGION"] == "r"
    assert destination({"AWS_DEFAULT_REGION": "d"}, profile=AwsProfile(region="r")) == {
        "AWS_DEFAULT_REGION": "d"
    }


def kubeconfig(server: str = "one", current: str = "c", user: str = "u", **context: str) -> dict[str, Any]:
    return {
        "clusters": [{"name": "k", "cluster": {"server": f"https://{server}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": user, **context}}],
        "current-context": current,
        "users": [{"name": user, "user": {"token": user}}],
    }


def test_a_cluster_counts_without_its_credentials() -> None:
    """An address, the chosen context, and which cluster and namespace a context means."""
    same = clusters_of(kubeconfig())
    assert clusters_of(kubeconfig(user="other")) == same
    others = (kubeconfig("two"), kubeconfig(current="d"), kubeconfig(cluster="l"), kubeconfig(namespace="n"))
    assert len({same, *map(clusters_of, others)}) == 5
    unusable: list[object] = [None, [], {"clusters": 1}, {"clusters": [1], "contexts": [{"context": 2}]}]
    for broken in unusable:
        assert clusters_of(broken) != same
