"""A file that cannot be read: its own stack fails, with the cause; the others are planned."""

from __future__ import annotations

import os
from typing import Any

from program import Program

ENCRYPTED = b"\0GITCRYPT\0\x01\x02\x03\xff"
CONFIG = """
    version: 1
    environments: { dev: {} }
    stacks:
      - folder: live/{name}
        environment: dev
"""
CAUSES = {
    "live/code": ("HF-HCL-6", "live/code/secret.tf"),
    "live/json": ("HF-HCL-6", "live/json/secret.tf.json"),
    "live/latin": ("HF-HCL-2", "live/latin/main.tf"),
    "live/large": ("HF-HCL-5", "live/large/terraform.tfvars"),
    "live/lock": ("HF-HCL-6", "live/lock/.terraform.lock.hcl"),
    "live/pipe": ("HF-HCL-5", "live/pipe/pipe.tf"),
    "live/values": ("HF-HCL-6", "live/values/terraform.tfvars"),
}
TEMPLATE = {"live/template": ("HF-HCL-6", "live/template/a.tpl")}


def causes(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        stack["name"]: (stack["error"]["code"], stack["error"]["file"])
        for stack in document["stacks"]
        if stack["error"] is not None
    }


def repository(program: Program) -> None:
    program.write("holdfast.yaml", CONFIG)
    for name in ("good", *(stack.removeprefix("live/") for stack in (*CAUSES, *TEMPLATE))):
        program.write(f"live/{name}/main.tf", 'variable "a" { default = "" }\noutput "o" { value = var.a }\n')
    for path in (
        "code/secret.tf",
        "json/secret.tf.json",
        "lock/.terraform.lock.hcl",
        "values/terraform.tfvars",
    ):
        (program.folder / "live" / path).write_bytes(ENCRYPTED)
    program.write(
        "live/template/main.tf", 'output "o" { value = templatefile("${path.module}/a.tpl", {}) }\n'
    )
    (program.folder / "live/template/a.tpl").write_bytes(ENCRYPTED)
    (program.folder / "live/latin/main.tf").write_bytes(b'locals { a = "\xe9" }\n')
    with (program.folder / "live/large/terraform.tfvars").open("wb") as large:
        large.truncate(3 * 2**30)
    os.mkfifo(program.folder / "live/pipe/pipe.tf")


def test_every_command_names_the_cause_and_goes_on(holdfast: Program) -> None:
    """Encrypted, not UTF-8, gigantic, not a file: in code, variables, lock file and template."""
    repository(holdfast)
    listed = holdfast.json("stacks", code=1)
    assert causes(listed) == CAUSES
    assert len(listed["stacks"]) == len(CAUSES) + 2
    shown = holdfast.ok("stacks", code=1).out
    assert "✗ HF-HCL-6  live/code/secret.tf  the file is encrypted with git-crypt" in shown
    assert "Unlock the repository first: git-crypt unlock" in shown
    assert causes(holdfast.json("graph", code=1)) == CAUSES

    planned = holdfast.json("plan", code=1)
    status = {stack["name"]: stack["status"] for stack in planned["stacks"]}
    assert status.pop("live/good") == "planned"
    assert set(status.values()) <= {"failed", "refused"}
    reported = causes(planned)
    assert reported.pop("live/pipe")[0] == "HF-WORK-3"
    assert reported == {name: cause for name, cause in (CAUSES | TEMPLATE).items() if name != "live/pipe"}


def test_selection_and_checks_report_it_too(holdfast: Program) -> None:
    """A stack that cannot be read is never reported as fine."""
    repository(holdfast)
    changed = (f"--changed={file}" for file in ("live/good/main.tf", *(file for _, file in CAUSES.values())))
    affected = holdfast.json("stacks", *changed, code=1)
    assert {stack["name"] for stack in affected["stacks"]} == {*CAUSES, "live/good"}
    assert causes(affected) == CAUSES
    findings = holdfast.json("check", code=3)["findings"]
    unread = [finding for finding in findings if finding["rule"] in {"HF904", "HF307"}]
    files = {place["file"] for finding in unread for place in (finding, *finding["also"])}
    assert files == {file for _, file in CAUSES.values()}


ENTRIES = """
    version: 1
    environments: { dev: {} }
    stacks:
      - { folder: "live/{name}", environment: dev }
      - { name: "app/{region}", module: code, environment: dev, matrix: { region: { file: regions.yaml } } }
      - { name: site, module: code, environment: dev, generate: { x.tf: { template: x.tpl } } }
      - { name: latin, module: code, environment: dev, generate: { x.tf: { template: latin.tpl } } }
      - { name: pipe, module: code, environment: dev, generate: { x.tf: { template: pipe } } }
      - { name: keys, module: s3, environment: dev, backend: { files: [keys.hcl] } }
      - { name: hook, module: code, environment: dev, hooks: [{ when: before_plan, run: [./x], files: [x] }] }
      - { name: after, module: code, environment: dev, depends_on: [app/eu] }
"""
OF_ENTRIES = {
    "app/{region}": ("HF-HCL-6", "regions.yaml"),
    "site": ("HF-HCL-6", "x.tpl"),
    "latin": ("HF-HCL-2", "latin.tpl"),
    "pipe": ("HF-HCL-5", "pipe"),
    "keys": ("HF-HCL-6", "keys.hcl"),
}


def test_files_of_an_entry_fail_only_its_stacks(holdfast: Program) -> None:
    """Values of a matrix, templates, backend files, files of hooks. No stack of the matrix counts as gone."""
    holdfast.write("holdfast.yaml", ENTRIES)
    for folder in ("live/good", "code"):
        holdfast.write(f"{folder}/main.tf", 'output "o" {\n  value = 1\n}\n')
    holdfast.write("s3/main.tf", 'terraform {\n  backend "s3" {}\n}\n')
    holdfast.write("regions.yaml", "[eu, us]\n")
    holdfast.git("init", "--quiet")
    holdfast.git("add", "--all")
    holdfast.git("commit", "--quiet", "--message", "one")
    for path in ("regions.yaml", "x.tpl", "keys.hcl", "x"):
        (holdfast.folder / path).write_bytes(ENCRYPTED)
    (holdfast.folder / "latin.tpl").write_bytes(b"# \xe9\n")
    os.mkfifo(holdfast.folder / "pipe")
    assert causes(holdfast.json("stacks", code=1)) == OF_ENTRIES
    planned = holdfast.json("plan", code=1)
    status = {stack["name"]: stack["status"] for stack in planned["stacks"]}
    assert status["live/good"] == "planned"
    assert status["after"] == "blocked"
    reported = causes(planned)
    assert reported["hook"] == ("HF-HCL-6", "x")
    assert {name: reported[name] for name in OF_ENTRIES} == OF_ENTRIES
    named = holdfast.json("plan", "app/eu", code=1)
    assert [stack["name"] for stack in named["stacks"]] == ["app/{region}"]
    assert "regions.yaml" in holdfast.ok("state", "versions", "app/eu", code=1).err
    findings = holdfast.json("check", code=3)["findings"]
    files = {finding["file"] for finding in findings if finding["rule"] == "HF906"}
    assert files == {file for _, file in OF_ENTRIES.values()}
    since = holdfast.json("stacks", "--since", "HEAD", code=1)
    assert "app/{region}" in {stack["name"] for stack in since["stacks"]}
    assert since["removed"] == []
