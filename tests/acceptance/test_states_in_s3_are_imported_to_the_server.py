"""`holdfast state import` from S3: from Terraform's own backend, and from a run store in a bucket."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from flaky_s3 import FlakyS3
from program import Program
from served import serving
from state_backend_made import state as state_of

from holdfast.store.s3_blobs import S3Blobs

KEY = base64.b64encode(bytes(range(32))).decode()
CODE = """
    terraform {
      backend "s3" {
        bucket                      = "acme"
        key                         = "old/terraform.tfstate"
        region                      = "eu-west-1"
        use_path_style              = true
        skip_credentials_validation = true
        skip_requesting_account_id  = true
      }
    }
    """
MANAGED = """
    variable "size" { default = 1 }
    resource "terraform_data" "a" { input = var.size }
    """


@pytest.fixture
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as running:
        running.make_bucket("acme")
        yield running


@pytest.mark.long
def test_states_in_s3_are_imported_to_the_server(holdfast: Program, s3: FlakyS3, tmp_path: Path) -> None:
    """With their serials and digests; a second import finds that nothing is missing."""
    holdfast.environment |= {name: value for name, value in s3.variables.items() if name.startswith("AWS_")}
    stacks = [{"name": "old", "module": "old"}, {"name": "net", "module": "net"}]
    holdfast.write("holdfast.yaml", json.dumps({"version": 1, "store": "s3://acme/store", "stacks": stacks}))
    holdfast.write("old/main.tf", CODE)
    holdfast.write("net/main.tf", MANAGED)
    S3Blobs.open("s3://acme/old", s3.variables).create("terraform.tfstate", state_of(7))
    key = {"HOLDFAST_KEY": KEY}
    holdfast.ok("apply", "net", "--yes", env=key)
    holdfast.ok("apply", "net", "--yes", "-var", "size=2", env=key)
    managed = holdfast.ok("state", "pull", "net", env=key).out

    with serving(holdfast, tmp_path / "data") as server:
        env = {**server, **key}
        first = holdfast.json("state", "import", "--stack", "old", "--state", "old/prod", env=env)["states"]
        assert [(row["versions"], row["serial"], row["lineage"]) for row in first] == [(1, 7, "lineage-1")]
        stored = holdfast.ok("state", "pull", "--state", "old/prod", env=env).out
        assert first[0]["digest"] == hashlib.sha256(stored.encode()).hexdigest()
        assert '"input": 7' in stored

        second = holdfast.json("state", "import", "--stack", "net", "--state", "net", env=env)["states"]
        assert second[0]["versions"] >= 2
        assert second[0]["digest"] == hashlib.sha256(managed.encode()).hexdigest()
        again = holdfast.ok("state", "import", "--stack", "net", "--state", "net", env=env).out
        assert "the server has it already" in again
