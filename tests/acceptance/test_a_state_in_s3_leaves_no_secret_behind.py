from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from program import Program

SECRET = "s3cr3t-of-the-state-bucket"
KEY_ID = "AKIASTATEBUCKETONLY1"
CODE = """
    terraform {
      backend "s3" {}
    }
    variable "n" {
      type = number
    }
    resource "terraform_data" "a" {
      input = var.n
    }
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a real S3 service on loopback."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, tmp_path: Path) -> Iterator[Any]:
    name = f"acme-dev-{abs(hash(tmp_path)) % 10**9}"
    resource = boto3.resource(
        "s3", endpoint_url=s3, region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="y"
    )
    made = resource.Bucket(name)
    made.create(CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    yield made
    resource.meta.client.close()


def one_stack(holdfast: Program, s3: str, bucket: Any, more: str = "") -> None:
    holdfast.write(
        "holdfast.yaml",
        f"""
        version: 1
        company: acme
        environments: {{dev: {{match: [dev]}}}}
        stacks:
          - variables: Accounts/{{account}}/{{name}}.tfvars
            module: app
            environment: dev
            region: eu-west-1
            backend:
              settings:
                bucket: "{{company}}-{{environment}}-{bucket.name.rpartition("-")[2]}"
                key: "{{account}}/{{name}}/terraform.tfstate"
                region: "{{region}}"
                access_key: {{secret: "env:STATE_KEY_ID"}}
                secret_key: {{secret: "env:STATE_SECRET"}}
                endpoints: {{s3: "{s3}", sts: "{s3}", iam: "{s3}"}}
                use_path_style: true
                skip_credentials_validation: true
                skip_region_validation: true
                skip_requesting_account_id: true
                skip_metadata_api_check: true
                {more}
        """,
    )
    holdfast.write("app/main.tf", CODE)
    holdfast.write("Accounts/one/db.tfvars", "n = 1\n")
    holdfast.environment["STATE_KEY_ID"] = KEY_ID
    holdfast.environment["STATE_SECRET"] = SECRET


def holding(folder: Path, *texts: str) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts)
    ]


def test_plan_apply_and_bundle_leave_no_secret_anywhere(
    holdfast: Program, s3: str, bucket: Any, tmp_path: Path
) -> None:
    """Not in `.terraform`, the work directory, the record, the bundle or on the screen; and it works."""
    one_stack(holdfast, s3, bucket)
    bundle = tmp_path / "bundle"
    shown = holdfast.ok("plan", "--verbose").text
    shown += holdfast.ok("plan", "--out", str(bundle)).text
    assert holding(holdfast.home, SECRET, KEY_ID) == []
    shown += holdfast.ok("apply", "--plan", str(bundle)).text
    stored = json.loads(bucket.Object("one/db/terraform.tfstate").get()["Body"].read())
    assert [one["type"] for one in stored["resources"]] == ["terraform_data"]
    assert holdfast.results("plan")["Accounts/one/db"]["status"] == "unchanged"
    assert SECRET not in shown
    for folder in (holdfast.folder, holdfast.home, bundle):
        assert holding(folder, SECRET, KEY_ID) == []


@pytest.mark.long
def test_a_secret_inside_a_nested_setting_leaves_nothing_either(
    holdfast: Program, s3: str, bucket: Any
) -> None:
    """What init had to write down goes after the run, also after one that fails, and init is repeated."""
    arn = "arn:aws:iam::123456789012:role/state"
    role = f'assume_role: {{role_arn: "{arn}", external_id: {{secret: "env:STATE_X"}}}}'
    one_stack(holdfast, s3, bucket, role)
    holdfast.environment["STATE_X"] = "external-id-that-is-secret"
    for _ in range(2):
        holdfast.ok("apply", "--yes")
        assert holding(holdfast.home, SECRET, KEY_ID, "external-id-that-is-secret") == []
    holdfast.write("app/main.tf", CODE + '\noutput "x" {\n  value = nothing.there\n}\n')
    assert holdfast.run("plan").code == 1
    assert holding(holdfast.home, SECRET, KEY_ID, "external-id-that-is-secret") == []
    assert [one.key for one in bucket.objects.all()] == ["one/db/terraform.tfstate"]


def test_the_backends_identity_is_not_the_providers(with_lab: Program, s3: str, bucket: Any) -> None:
    """Keys for the state's account must not decide in whose account a provider makes its resources."""
    one_stack(with_lab, s3, bucket)
    with_lab.write(
        "app/main.tf",
        CODE
        + """
    terraform {
      required_providers {
        lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
      }
    }
    variable "objects" {}
    provider "lab" {
      directory = var.objects
    }
    data "lab_environment" "here" {
      names = ["AWS_ACCESS_KEY_ID", "AWS_PROFILE"]
    }
    output "seen" {
      value = data.lab_environment.here.values
    }
    """,
    )
    applied = with_lab.results("apply", "--yes", env={"AWS_ACCESS_KEY_ID": "of-the-caller"})
    seen = applied["Accounts/one/db"]["outputs"]["seen"]["value"]
    assert seen["AWS_ACCESS_KEY_ID"] == "of-the-caller"


def test_a_workspace_has_a_key_of_its_own(holdfast: Program, s3: str, bucket: Any) -> None:
    """`workspace:` is honoured by a backend that has workspaces."""
    one_stack(holdfast, s3, bucket)
    text = (holdfast.folder / "holdfast.yaml").read_text()
    (holdfast.folder / "holdfast.yaml").write_text(
        text.replace("module: app", "module: app\n    workspace: blue")
    )
    holdfast.ok("apply", "--yes")
    assert [one.key for one in bucket.objects.all()] == ["env:/blue/one/db/terraform.tfstate"]


def test_backend_settings_come_from_a_file(holdfast: Program, s3: str, bucket: Any) -> None:
    """One per environment; its change selects the stacks, and two environments cannot share a state."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: {}, prod: {} }
        stacks:
          - name: "{environment}/app"
            matrix: { environment: [dev, prod] }
            module: app
            backend: { files: [backends/all.hcl, "backends/{environment}.hcl"] }
            variables: { n: 1 }
        """,
    )
    holdfast.write("app/main.tf", CODE)
    holdfast.write(
        "backends/all.hcl",
        f"""
        bucket         = "{bucket.name}"
        region         = "eu-west-1"
        endpoints      = {{ s3 = "{s3}", sts = "{s3}", iam = "{s3}" }}
        use_path_style = true
        use_lockfile   = true

        skip_credentials_validation = true
        skip_requesting_account_id  = true
        skip_metadata_api_check     = true
        """,
    )
    for environment in ("dev", "prod"):
        holdfast.write(f"backends/{environment}.hcl", f'key = "{environment}/app.tfstate"\n')
    holdfast.write(".gitignore", ".holdfast/\n")
    holdfast.commit_all()
    holdfast.environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
    holdfast.ok("apply", "--yes")
    assert {one.key for one in bucket.objects.all()} == {"dev/app.tfstate", "prod/app.tfstate"}

    holdfast.write("backends/dev.hcl", 'key = "prod/app.tfstate"\n')
    (error,) = holdfast.json("plan", code=64)["errors"]
    assert error["code"] == "HF-STACK-2"
    holdfast.write("backends/dev.hcl", 'key = "dev/app.tfstate"\naccess_key = "AKIAABCDEFGHIJKLMNOP"\n')
    document = holdfast.json("stacks", "--since", "main")
    assert [one["name"] for one in document["stacks"]] == ["dev/app"]
    assert "its backend file backends/dev.hcl changed" in document["stacks"][0]["reasons"]
    findings = holdfast.json("check", code=3)["findings"]
    assert ("backends/dev.hcl", 2) in {
        (one["file"], one["line"]) for one in findings if one["rule"] == "HF120"
    }
