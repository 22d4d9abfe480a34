"""A bundle is refused if what says where it applies, or content from elsewhere, changed since the plan."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import lab_module
from program import Program

BODY = """
variable "objects" {}
provider "lab" {
  directory = var.objects
}
resource "lab_object" "it" {
  name = "made"
}
"""
SECRET = "the-value-of-the-token"
OUTSIDE = {"AWS_REGION": "eu-west-1", "ARM_SUBSCRIPTION_ID": "sub-1", "AWS_ACCESS_KEY_ID": "AKIAPLAN"}


def configure(program: Program, **entry: Any) -> None:
    config = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [{"name": "a", "module": "m", "environment": "dev", **entry}],
    }
    program.write("holdfast.yaml", json.dumps(config))


def refused(program: Program, *parts: str, code: str = "HF-BUND-12", **env: str | None) -> str:
    """The message with which the bundle is refused; it names these parts."""
    result = program.results("apply", "--plan", "out", code=3, env=env)["a"]
    assert result["error"]["code"] == code, result["error"]
    message = str(result["error"]["message"])
    assert [part for part in parts if part not in message] == [], message
    assert SECRET not in message
    return message


def test_another_region_subscription_or_value_is_refused(with_lab: Program) -> None:
    """The message names what changed; a secret's value is never part of it. Who applies does not count."""
    with_lab.write("m/main.tf", lab_module(BODY))
    env: dict[str, Any] = {
        "VENDOR_URL": "https://one.example",
        "VENDOR_TOKEN": {"secret": "env:TOKEN_A"},
        "GOOGLE_PROJECT": {"secret": "env:PROJECT"},
    }
    role = {"role_arn": "arn:aws:iam::111111111111:role/plan", "region": "eu-west-1"}
    with_lab.environment |= {"TOKEN_A": SECRET, "TOKEN_B": SECRET, "PROJECT": "p1", **OUTSIDE}
    configure(with_lab, env=env)
    with_lab.ok("plan", "--out", "out")
    objects = Path(with_lab.environment["TF_VAR_objects"])

    assert "AWS_REGION (eu-west-1 → us-east-1)" in refused(with_lab, AWS_REGION="us-east-1")
    refused(with_lab, "AWS_REGION (eu-west-1 → not set)", AWS_REGION=None)
    refused(with_lab, "ARM_SUBSCRIPTION_ID (sub-1 → sub-2)", ARM_SUBSCRIPTION_ID="sub-2")
    refused(
        with_lab,
        "AWS_ENDPOINT_URL_S3 (not set → http://localhost:1)",
        AWS_ENDPOINT_URL_S3="http://localhost:1",
    )
    assert "p2" not in refused(with_lab, "GOOGLE_PROJECT", PROJECT="p2")
    configure(with_lab, env=env | {"VENDOR_URL": "https://two.example"})
    refused(with_lab, "VENDOR_URL")
    configure(with_lab, env=env | {"VENDOR_TOKEN": {"secret": "env:TOKEN_B"}})
    refused(with_lab, "VENDOR_TOKEN (secret env:TOKEN_A → secret env:TOKEN_B)")
    configure(with_lab, env=env, credentials={"aws": role})
    refused(with_lab, "AWS account (not set → 111111111111)")
    assert not list(objects.iterdir())

    configure(with_lab, env=env)
    session = {"AWS_ACCESS_KEY_ID": "AKIAAPPLY", "AWS_SESSION_TOKEN": "t", "TOKEN_A": "rotated-token-value"}
    applied = with_lab.results("apply", "--plan", "out", env=session)["a"]
    assert applied["status"] == "applied", applied
    assert len(list(objects.iterdir())) == 1


def test_two_roles_of_one_account_are_one_destination(with_lab: Program) -> None:
    """Another account is another destination, in the configuration and in the caller's profile."""
    with_lab.write("m/main.tf", lab_module(BODY))

    def credentials(account: str, role: str) -> dict[str, Any]:
        return {"aws": {"role_arn": f"arn:aws:iam::{account}:role/{role}", "region": "eu-west-1"}}

    objects = {"TF_VAR_objects": with_lab.environment["TF_VAR_objects"]}
    configure(with_lab, env=objects, credentials=credentials("111111111111", "plan"))
    with_lab.ok("plan", "--out", "out")
    configure(with_lab, env=objects, credentials=credentials("222222222222", "plan"))
    refused(with_lab, "AWS account (111111111111 → 222222222222)")
    configure(with_lab, env=objects)
    refused(with_lab, "AWS account (111111111111 → not set)")
    configure(with_lab, env=objects, credentials=credentials("111111111111", "deploy"))
    assert with_lab.results("apply", "--plan", "out")["a"]["status"] == "applied"

    user = Path(with_lab.environment["HOME"]) / ".aws"
    user.mkdir()
    profiles = "".join(
        f"[profile {name}]\nrole_arn = arn:aws:iam::{account}:role/{name}\nregion = {region}\n"
        for name, account, region in (
            ("plan", "333333333333", "eu-west-1"),
            ("deploy", "333333333333", "eu-west-1"),
            ("other", "444444444444", "eu-west-1"),
            ("far", "333333333333", "us-east-1"),
        )
    )
    (user / "config").write_text(profiles)
    configure(with_lab, env=objects)
    shutil.rmtree(with_lab.folder / "out")
    with_lab.ok("plan", "--out", "out", env={"AWS_PROFILE": "plan"})
    refused(with_lab, "AWS account of the caller (333333333333 → 444444444444)", AWS_PROFILE="other")
    refused(with_lab, "AWS_REGION (eu-west-1 → us-east-1)", AWS_PROFILE="far")
    assert (
        with_lab.results("apply", "--plan", "out", env={"AWS_PROFILE": "deploy"})["a"]["status"]
        == "unchanged"
    )


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A module in a Git repository of its own, which reads a file beside its code."""
    folder = tmp_path / "network"
    folder.mkdir()
    (folder / "main.tf").write_text('output "text" {\n  value = file("${path.module}/text.txt")\n}\n')
    commit(folder, "as reviewed")
    return folder


def commit(folder: Path, text: str) -> None:
    (folder / "text.txt").write_text(text)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", text]):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


def test_other_content_of_a_downloaded_module_is_refused(holdfast: Program, module: Path) -> None:
    """In the work directory, and on a machine that downloads the moved branch again."""
    configure(holdfast)
    holdfast.write(
        "m/main.tf",
        f"""
        module "net" {{
          source = "git::file://{module}?ref=main"
        }}
        output "text" {{
          value = module.net.text
        }}
        resource "terraform_data" "it" {{}}
        """,
    )
    holdfast.ok("plan", "--out", "out")
    (file,) = (holdfast.home / "work").glob("*/a/*/tree/m/.terraform/modules/net/text.txt")
    before = file.stat()
    file.write_text("as swapped.")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused(holdfast, "downloaded module net")
    shutil.rmtree(holdfast.home / "work")
    commit(module, "moved")
    refused(holdfast, "downloaded module net")
    commit(module, "as reviewed")
    shutil.rmtree(holdfast.home / "work")
    assert holdfast.results("apply", "--plan", "out")["a"]["status"] == "applied"

    (module / "link").symlink_to("/etc")
    commit(module, "linked")
    shutil.rmtree(holdfast.home / "work")
    result = holdfast.results("plan", code=3)["a"]
    assert result["error"]["code"] == "HF-WORK-5"


def test_another_file_outside_the_repository_is_refused(with_lab: Program, tmp_path: Path) -> None:
    """Read by a function, by a pattern, or named where a resource reads a file."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("function.txt", "named.txt", "one.json"):
        (folder / name).write_text("planned")
    home = Path(with_lab.environment["HOME"])
    (home / "home.txt").write_text("planned")
    configure(with_lab)
    with_lab.write(
        "m/main.tf",
        f"""
        resource "terraform_data" "it" {{
          input = [
            try(file("{folder}/function.txt"), ""), fileset("{folder}", "*.json"), fileexists("~/home.txt"),
            try(file("{folder}"), ""),
          ]
          provisioner "file" {{
            source      = "{folder}/named.txt"
            destination = "/tmp/x"
            connection {{
              host    = "192.0.2.1"
              timeout = "1s"
            }}
          }}
        }}
        """,
    )
    with_lab.ok("plan", "--out", "out")
    for file in (folder / "function.txt", folder / "named.txt", folder / "one.json", home / "home.txt"):
        file.write_text("swapped")
        assert file.parent == home or str(folder) in refused(with_lab)
        refused(with_lab, "changed since the plan was made")
        file.unlink()
        refused(with_lab, "changed since the plan was made")
        file.write_text("planned")
    (folder / "two.json").write_text("")
    refused(with_lab, f"files {folder}/*.json")
    (folder / "two.json").unlink()
    result = with_lab.results("apply", "--plan", "out", code=1)["a"]
    assert "192.0.2.1" in str(result["error"]), "everything is as planned, so Terraform runs"


def other_provider(folder: Path, marker: Path, mirror: Path) -> None:
    """A provider that is in no lock file, and writes a file when it runs."""
    folder.mkdir(exist_ok=True)
    (real,) = mirror.glob("holdfast.dev/labs/lab/1.0.0/*/terraform-provider-lab*")
    head, _, rest = real.read_text().partition("\n")
    (folder / real.name).write_text(f"{head}\necho x > '{marker}'\n{rest}")
    (folder / real.name).chmod(0o755)


@pytest.mark.parametrize("place", ["folder", "JSON"])
def test_another_override_of_a_provider_is_refused(with_lab: Program, tmp_path: Path, place: str) -> None:
    """In a file that only Terraform reads, or in JSON: `dev_overrides` start what no lock file names."""
    marks, folder = tmp_path / "marks", tmp_path / "override"
    marks.mkdir()
    cli = Path(with_lab.environment["TF_CLI_CONFIG_FILE"])
    mirror = Path(re.findall(r'path = "([^"]+)"', cli.read_text())[0])
    user = Path(with_lab.environment["HOME"]) / ".terraform.d"
    other_provider(folder, marks / "first", mirror)
    overrides = {"holdfast.dev/labs/lab": str(folder)}
    installation = {"dev_overrides": [overrides], "filesystem_mirror": [{"path": str(mirror)}]}
    document = json.dumps({"provider_installation": [installation]})
    with_lab.write("m/main.tf", lab_module(BODY))
    configure(with_lab)
    if place == "folder":
        del with_lab.environment["TF_CLI_CONFIG_FILE"]
        shutil.copytree(mirror, user / "plugins")
        with_lab.ok("plan", "--lockfile", "update")
        with_lab.ok("plan", "--out", "out")
        (user / "more.tfrc.json").write_text(document)
    else:
        with_lab.environment["TF_CLI_CONFIG_FILE"] = str(tmp_path / "cli.tfrc")
        (tmp_path / "cli.tfrc").write_text(document)
        with_lab.ok("plan", "--out", "out")
        other_provider(folder, marks / "second", mirror)
        (marks / "first").unlink()
    refused(with_lab, "provider override")
    assert not list(marks.iterdir())
