"""A provider that was swapped in the mirror between plan and apply is refused before it runs."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from lab_stacks import ended
from program import Program, eventually

from holdfast.terraform.engine.folder_hashes import package_hash

CODE = """
    terraform {
      required_providers {
        lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
      }
    }
    variable "objects" {}
    variable "name" {}
    variable "delay" { default = 0 }
    provider "lab" {
      directory = var.objects
      delay     = var.delay
    }
    resource "lab_object" "o" { name = var.name }
    """
CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks:
      - variables: "vars/{name}.tfvars"
        module: module
        name: "{name}"
        environment: dev
        warm_providers: WARM
    """


@pytest.fixture(params=("false", "true"), ids=("cold", "warm"))
def program(with_lab: Program, request: pytest.FixtureRequest) -> Program:
    """With warm providers, too: Terraform compares nothing of a provider that Holdfast starts."""
    with_lab.write("holdfast.yaml", CONFIG.replace("WARM", request.param))
    with_lab.write("module/main.tf", CODE)
    with_lab.write("vars/a.tfvars", 'name = "a"\n')
    return with_lab


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Written by a provider that runs and should not. Its folder has no key, so that programs can write."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder / "ran"


def mirrored(program: Program) -> Path:
    """The program of the provider in the mirror."""
    (file,) = (program.home / "providers").glob("[0-9a-f]*/package/terraform-provider-lab*")
    return file


def swap(file: Path, marker: Path) -> None:
    """Another program in the same file: same inode, size, mode and modification time."""
    before, size = file.stat(), file.stat().st_size
    file.chmod(0o700)
    evil = f"#!/bin/sh\necho x > '{marker}'\nexit 1\n".ljust(size - 1, "#") + "\n"
    assert len(evil) == size
    with file.open("r+") as stream:
        stream.write(evil)
    file.chmod(before.st_mode)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def forge(record: Path, file: Path) -> None:
    """Record the files as they are now, as if they had been verified. The key is not known."""
    document = json.loads(record.read_text())
    (stamp,) = document["files"]
    document["files"] = [[*stamp[:-1], file.stat().st_ctime_ns]]
    record.write_text(json.dumps(document))


def test_a_provider_that_was_swapped_in_place_is_refused(program: Program, marker: Path) -> None:
    """Also with forged records; a new plan fetches the provider again and says so."""
    objects = Path(program.environment["TF_VAR_objects"])
    program.ok("plan")
    program.ok("plan", "--out", "out")
    file = mirrored(program)
    record = file.parent.parent / "verified.json"
    assert record.is_file(), "verified files are indexed"
    kept = {path: path.read_bytes() for path in (record, file)}
    swap(file, marker)
    for forged in (False, True):
        if forged:
            forge(record, file)
        refused = program.results("apply", "--plan", "out", code=3)["a"]
        assert refused["error"]["code"] == "HF-MIRR-3"
        assert "holdfast.dev/labs/lab 1.0.0" in refused["error"]["message"]
        assert "holdfast plan a" in refused["error"]["hint"]
        assert file.read_bytes() != kept[file], "the evidence is kept"
        assert not marker.exists()
        assert not list(objects.iterdir())

    ran = program.ok("plan", "--out", "again")
    assert "was changed in" in ran.err
    assert not marker.exists()
    assert mirrored(program).read_bytes() == kept[file]
    assert program.results("apply", "--plan", "again")["a"]["status"] == "applied"
    assert len(list(objects.iterdir())) == 1


def test_a_provider_that_is_swapped_while_another_stack_is_applied_is_refused(
    program: Program, marker: Path
) -> None:
    """Both are planned before one is applied: the providers are verified again before each apply."""
    objects = Path(program.environment["TF_VAR_objects"])
    budget = "\nguard: { deletions: { per_change: 9 } }\nengine: { parallelism: 1 }\n"
    program.write("holdfast.yaml", (program.folder / "holdfast.yaml").read_text() + budget)
    for name in ("a", "b"):
        program.write(f"vars/{name}.tfvars", f'name  = "{name}"\ndelay = 3\n')
    process = program.start("apply", "--yes", "--json")
    eventually(lambda: any(objects.iterdir()), what="the first apply began")
    swap(mirrored(program), marker)
    results, _ = ended(process, code=3)
    assert sorted(result["status"] for result in results.values()) == ["applied", "refused"]
    (refused,) = (result for result in results.values() if result["status"] == "refused")
    assert refused["error"]["code"] == "HF-MIRR-3"
    assert not marker.exists()
    assert len(list(objects.iterdir())) == 1


def forge_package(program: Program, marker: Path) -> str:
    """Another package in the mirror, under its own hash. Returns the hash."""
    other = program.home / "providers/other"
    shutil.copytree(mirrored(program).parent.parent, other)
    swap(next((other / "package").iterdir()), marker)
    hash_ = package_hash(other / "package")
    other.rename(other.with_name(base64.b64decode(hash_.removeprefix("h1:")).hex()))
    return hash_


def test_a_forged_record_of_init_names_no_other_provider(program: Program, marker: Path) -> None:
    """Code in an earlier plan can write into work directories and the mirror, but has no key."""
    program.ok("plan", "--lockfile", "update")
    program.ok("plan")
    hash_ = forge_package(program, marker)
    work = program.home / "work"
    forged = [*work.glob("*/a/*/init.json"), *(program.home / "templates").iterdir()]
    assert len(forged) > 1
    for file in forged:
        record = json.loads(file.read_text())
        lock = base64.b64decode(record["document"]["lock"]).decode()
        lock = re.sub(r'"h1:[^"]+"', json.dumps(hash_), lock)
        record["document"]["lock"] = base64.b64encode(lock.encode()).decode()
        file.write_text(json.dumps(record))
    planned = program.results("plan", "--out", "out")["a"]
    assert planned["status"] == "planned"
    assert not any("lock file" in note for note in planned["notes"])
    assert program.results("apply", "--plan", "out")["a"]["status"] == "applied"
    assert not marker.exists()
