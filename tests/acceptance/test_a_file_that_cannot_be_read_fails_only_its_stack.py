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
    files = {finding["file"] for finding in findings if finding["rule"] in {"HF904", "HF307"}}
    assert files == {file for _, file in CAUSES.values()}
