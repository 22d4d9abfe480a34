"""A stack's own identity: its role is taken as it says, and nobody else's keys reach it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_stacks import lab_module, none_left, with_engine
from program import Program
from recording_sts import Cloud

_SEEN = """
data "lab_environment" "here" {
  names = [
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
    "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "TF_VAR_secret", "GITHUB_TOKEN",
  ]
}

output "seen" {
  value = sort(keys(data.lab_environment.here.values))
}

output "profile" {
  value = lookup(data.lab_environment.here.values, "AWS_PROFILE", "")
}
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Cloud() as running:
        running.make_bucket("states")
        yield running


def entry(name: str, cloud: Cloud, **more: object) -> dict[str, object]:
    return {
        "name": name,
        "module": "m",
        "backend": {
            "type": "s3",
            "settings": {
                "bucket": "states",
                "key": f"{name}.tfstate",
                "region": "eu-west-1",
                "use_path_style": True,
                "use_lockfile": True,
                "skip_requesting_account_id": True,
                "skip_region_validation": True,
            },
        },
        "env": {
            "AWS_ENDPOINT_URL_S3": cloud.url,
            "AWS_ENDPOINT_URL_STS": cloud.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REGION": "eu-west-1",
        },
        **more,
    }


def role(name: str) -> str:
    return f"arn:aws:iam::123456789012:role/{name}"


@pytest.mark.parametrize(
    "use", ["embedded", pytest.param("binary", marks=[pytest.mark.binary, pytest.mark.long])]
)
def test_each_stack_takes_its_own_role(
    with_lab: Program, cloud: Cloud, terraform_folder: Path, use: str
) -> None:
    """External id and session name reach AWS; two stacks in one change never use each other's session."""
    stacks = [
        entry(
            f"blue-{use}",
            cloud,
            credentials={
                "aws": {
                    "role_arn": role(f"blue-{use}"),
                    "external_id": {"secret": "env:BLUE_ID"},
                    "session_name": "blue-session",
                }
            },
        ),
        entry(f"green-{use}", cloud, credentials={"aws": {"role_arn": role(f"green-{use}")}}),
    ]
    config = {
        "version": 1,
        "stacks": stacks,
        "engine": {"use": with_engine(with_lab, use, terraform_folder), "parallelism": 2},
    }
    with_lab.write("holdfast.yaml", json.dumps(config))
    with_lab.write("m/main.tf", 'terraform {\n  backend "s3" {}\n}\n\nresource "terraform_data" "it" {}\n')
    with_lab.environment |= {
        "AWS_ACCESS_KEY_ID": "AKIACALLER",
        "AWS_SECRET_ACCESS_KEY": "callers-secret-key",
        "BLUE_ID": "blue-external-id",
    }
    before = len(cloud.signers)
    ran = with_lab.ok("apply", "--yes", "--json")
    assert {one["status"] for one in json.loads(ran.out)["stacks"]} == {"applied"}
    mine = {each for each in cloud.assumed if use in each.role}
    assert {(each.role, each.session, each.external_id, each.by) for each in mine} == {
        (role(f"blue-{use}"), "blue-session", "blue-external-id", "AKIACALLER"),
        (role(f"green-{use}"), "holdfast", None, "AKIACALLER"),
    }
    calls = cloud.signers[before:]
    used = {
        name: {signer for signer, path in calls if f"{name}-{use}.tfstate" in path}
        for name in ("blue", "green")
    }
    assert used["blue"]
    assert used["green"]
    assert "AKIACALLER" not in used["blue"] | used["green"]
    assert not used["blue"] & used["green"]
    for secret in ("blue-external-id", "callers-secret-key"):
        assert secret not in ran.text
    assert not [
        file
        for file in [*with_lab.home.rglob("*"), *with_lab.folder.rglob("*")]
        if file.is_file() and b"blue-external-id" in file.read_bytes()
    ]
    none_left(with_lab)


def test_the_callers_keys_reach_only_who_has_none(with_lab: Program, cloud: Cloud) -> None:
    """With credentials a stack sees its own identity only; without, it is the caller."""
    stacks = [
        {"name": "own", "module": "m", "credentials": {"aws": {"role_arn": role("own")}}},
        {"name": "callers", "module": "m"},
    ]
    config = {"version": 1, "stacks": stacks, "engine": {"use": "embedded", "parallelism": 1}}
    with_lab.write("holdfast.yaml", json.dumps(config))
    with_lab.write("m/main.tf", lab_module(_SEEN))
    with_lab.environment |= {
        "AWS_ACCESS_KEY_ID": "AKIACALLER",
        "AWS_SECRET_ACCESS_KEY": "callers-secret-key",
        "AWS_SESSION_TOKEN": "callers-token",
        "AWS_PROFILE": "callers",
        "TF_VAR_secret": "callers",
        "GITHUB_TOKEN": "callers",
        "AWS_ENDPOINT_URL_STS": cloud.url,
    }
    results = with_lab.results("apply", "--yes")
    assert results["own"]["outputs"]["seen"]["value"] == [
        "AWS_CONFIG_FILE",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
    ]
    assert results["own"]["outputs"]["profile"]["value"] == "holdfast"
    assert results["callers"]["outputs"]["seen"]["value"] == [
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "TF_VAR_secret",
    ]
    assert results["callers"]["outputs"]["profile"]["value"] == "callers"
