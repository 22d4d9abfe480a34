"""A link in the repository that leads out of it: nothing behind it reaches a work directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import Program

SECRET = "outside-and-secret"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    (folder / "more.tf").write_text(f'output "more" {{\n  value = "{SECRET}"\n}}\n')
    (folder / "more.tfvars").write_text(f'x = "{SECRET}"\n')
    return folder


def repository(program: Program, code: str) -> None:
    program.write(
        "infra/holdfast.yaml",
        "version: 1\nenvironments: { dev: {} }\n"
        "stacks: [{ name: a, module: m, environment: dev, variables_files: [a.tfvars] }]\n",
    )
    program.write("infra/m/main.tf", f'variable "x" {{\n  default = ""\n}}\n{code}\n')
    program.write("infra/a.tfvars", "")


def copied(program: Program) -> set[str]:
    """Files in work directories that hold what is outside."""
    return {
        path.name
        for path in (program.home / "work").rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    }


def run(program: Program, *arguments: str, code: int = 0) -> Any:
    return program.json(*arguments, code=code, cwd=program.folder / "infra")


COMPUTED = 'output "read" {\n  value = fileexists("../${substr(timestamp(), 0, 0)}b/secret.txt")\n}'
READS = {
    "a file that is read": ("b.txt", "secret.txt", 'output "read" {\n  value = file("../b.txt")\n}'),
    "a file in a linked folder": ("b", ".", 'output "read" {\n  value = file("../b/secret.txt")\n}'),
    "files of a folder": ("b", ".", 'output "read" {\n  value = fileset("../b", "*.txt")\n}'),
    "a file among others": ("m/d/s.txt", "secret.txt", 'output "l" {\n  value = fileset("d", "*.txt")\n}'),
    "code": ("m/more.tf", "more.tf", ""),
    "a module": ("b", ".", 'module "m" {\n  source = "../b"\n}'),
    "variables": ("m/x.auto.tfvars", "more.tfvars", ""),
}


@pytest.mark.parametrize("what", READS)
def test_a_stack_that_reads_through_a_link_is_refused(holdfast: Program, outside: Path, what: str) -> None:
    """The plan would lack what is behind the link, and could delete what depends on it."""
    link, target, code = READS[what]
    repository(holdfast, code)
    holdfast.commit_all()
    place = holdfast.folder / "infra" / link
    place.parent.mkdir(exist_ok=True)
    # Over another link: only the end counts.
    (outside / "between").symlink_to(outside / target)
    place.symlink_to(outside / "between")
    (result,) = run(holdfast, "plan", code=3)["stacks"]
    assert result["error"]["code"] == "HF-WORK-3"
    assert "leads out of the repository" in result["error"]["message"]
    assert copied(holdfast) == set()
    findings = run(holdfast, "check", code=3)["findings"]
    assert {one["file"] for one in findings if one["rule"] == "HF309"} == {link}
    place.unlink()
    assert copied(holdfast) == set()


def test_a_link_copies_nothing_even_if_every_file_counts(holdfast: Program, outside: Path) -> None:
    """A stack with a computed path gets the whole tree, without what links outside lead to."""
    repository(holdfast, COMPUTED)
    top = holdfast.folder / "infra"
    (top / "b").symlink_to(outside)
    (top / "c.txt").symlink_to("/proc/self/environ")
    holdfast.write("infra/folder/x.txt", "x")
    (top / "folder/deep").symlink_to("../b")
    holdfast.commit_all()
    (top / "git").symlink_to("../.git/config")
    document = run(holdfast, "apply", "--yes")
    (result,) = document["stacks"]
    assert result["outputs"]["read"]["value"] is False
    notes = " ".join(result["notes"])
    assert all(
        f"{link} leads out of the repository" in notes for link in ("b", "c.txt", "folder/deep", "git")
    )
    assert copied(holdfast) == set()
    names = {path.name for path in (holdfast.home / "work").rglob("*")}
    assert "x.txt" in names
    assert not names & {"c.txt", "deep", "git"}
    findings = run(holdfast, "check", code=3)["findings"]
    assert {one["file"] for one in findings if one["rule"] == "HF309"} == {"b", "c.txt", "folder/deep", "git"}


def test_links_inside_the_git_repository_are_followed(holdfast: Program) -> None:
    """Also out of the folder of holdfast.yaml: code that the repository shares is part of it."""
    code = 'output "read" {\n  value = [for f in fileset("d", "*") : file("d/${f}")]\n}'
    repository(holdfast, code)
    holdfast.write("shared/more.tf", 'output "more" {\n  value = "shared"\n}\n')
    holdfast.write("shared/data/x.txt", "data")
    (holdfast.folder / "infra/m/more.tf").symlink_to("../../shared/more.tf")
    (holdfast.folder / "infra/m/d").symlink_to("../../shared/data")
    holdfast.commit_all()
    (result,) = run(holdfast, "apply", "--yes")["stacks"]
    assert result["outputs"]["more"]["value"] == "shared"
    assert result["outputs"]["read"]["value"] == ["data"]
    assert [one for one in run(holdfast, "check")["findings"] if one["rule"] == "HF309"] == []


def test_a_folder_of_terraform_in_the_repository_is_not_used(holdfast: Program) -> None:
    """It would say that a module is in another folder than the code says, which nobody reviewed."""
    code = 'module "m" {\n  source = "../good"\n}\noutput "m" {\n  value = module.m.who\n}\n'
    code += 'output "list" {\n  value = fileexists(".terraform/modules/modules.json")\n}\n'
    code += 'output "evil" {\n  value = fileset("../evil", "*")\n}\n'
    repository(holdfast, code)
    for name in ("good", "evil"):
        holdfast.write(f"infra/{name}/main.tf", f'output "who" {{\n  value = "{name}"\n}}\n')
    modules = [{"Key": "", "Source": "", "Dir": "."}, {"Key": "m", "Source": "../good", "Dir": "../evil"}]
    for folder in (".terraform", ".Terraform"):
        holdfast.write(f"infra/m/{folder}/modules/modules.json", json.dumps({"Modules": modules}))
    holdfast.commit_all()
    for _ in range(2):
        run(holdfast, "plan")
    (result,) = run(holdfast, "apply", "--yes")["stacks"]
    assert result["outputs"]["m"]["value"] == "good"


@pytest.mark.parametrize("place", ["/proc/self/environ", "outside", "key"])
def test_holdfast_itself_reads_nothing_through_a_link(holdfast: Program, outside: Path, place: str) -> None:
    """Its own process is not confined: a template or a matrix could show its environment or its key."""
    repository(holdfast, "")
    top, secret = holdfast.folder / "infra", "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I="
    (outside / "more.tfvars").write_text(secret)
    holdfast.write("infra/key", secret)
    (top / "key").chmod(0o600)
    if place != "key":
        (top / "link").symlink_to(outside / "more.tfvars" if place == "outside" else place)
    name = "key" if place == "key" else "link"
    entry, matrix = "{ name: a, module: m, environment: dev", 'name: "a{x}",'
    for read in (
        f"{entry}, generate: {{ x.txt: {{ template: {name} }} }} }}",
        f"{entry}, backend: {{ type: local, files: [{name}] }} }}",
        f"{entry.replace('name: a,', matrix)}, matrix: {{ x: {{ file: {name} }} }} }}",
    ):
        text = f"version: 1\nenvironments: {{ dev: {{}} }}\nstacks:\n  - {read}\n"
        holdfast.write("infra/holdfast.yaml", text)
        env = {"HOLDFAST_KEY": None, "HOLDFAST_KEY_FILE": str(top / "key"), "SHOWN": secret}
        shown = holdfast.ok("plan", code=1, cwd=top, env=env).text
        assert "leads out of the repository" in shown
        assert secret[:12] not in shown
