from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from program import Program, eventually

from holdfast.terraform.engine.folder_hashes import package_hash

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks: [{ variables: "vars/{name}.tfvars", module: module, name: "{name}", environment: dev }]
    """
CODE = """
    terraform {
      required_providers {
        lab = { source = "holdfast.dev/labs/lab", version = "VERSION" }
      }
    }
    variable "objects" {}
    variable "name" {}
    provider "lab" { directory = var.objects }
    resource "lab_object" "o" { name = var.name }
    """


def repository(program: Program, *names: str, version: str = "1.0.0") -> None:
    program.write("holdfast.yaml", CONFIG)
    program.write("module/main.tf", CODE.replace("VERSION", version))
    for name in names:
        program.write(f"vars/{name}.tfvars", f'name = "{name}"\n')


def phases(program: Program, *arguments: str) -> str:
    """What ran is told by what is left in the record of init: its time does not change when it is skipped."""
    program.ok(*arguments)
    records = sorted((program.home / "work").glob("*/*/*/tree/module/.terraform/terraform.tfstate"))
    return " ".join(str(record.stat().st_mtime_ns) for record in records)


def test_a_second_plan_needs_no_init_and_no_network(with_lab: Program, lab: Path) -> None:
    """With everything in the mirror nothing is fetched: the source of providers may be gone."""
    repository(with_lab, "a", "b")
    with_lab.ok("apply", "--yes")
    before = phases(with_lab, "plan")
    empty = with_lab.write("empty.tfrc", "provider_installation {\n}\n")
    with_lab.environment["TF_CLI_CONFIG_FILE"] = str(empty)
    assert phases(with_lab, "plan") == before
    with_lab.write("vars/c.tfvars", 'name = "c"\n')
    applied = with_lab.results("apply", "--yes")
    assert {name: one["status"] for name, one in applied.items()} == {
        "a": "unchanged",
        "b": "unchanged",
        "c": "applied",
    }
    assert lab.exists()


@pytest.mark.long
def test_providers_in_work_directories_are_links_into_the_mirror(with_lab: Program) -> None:
    """A package lies once on this machine, however many stacks use it."""
    repository(with_lab, "a", "b")
    with_lab.ok("plan")
    found = list((with_lab.home / "work").glob("*/*/*/tree/module/.terraform/providers/*/*/*/*/*"))
    assert len(found) == 2
    assert {path.is_symlink() for path in found} == {True}
    assert len({path.resolve() for path in found}) == 1
    assert found[0].resolve().is_relative_to(with_lab.home / "providers")
    lock = (found[0].parents[6] / ".terraform.lock.hcl").read_text()
    assert "h1:" not in lock


@pytest.mark.long
def test_the_lock_file_in_the_source_keeps_its_hashes(with_lab: Program) -> None:
    """The copy without hashes is for the work directory only; what is written back has them."""
    repository(with_lab, "a")
    with_lab.ok("plan", "--lockfile", "update")
    lock = with_lab.folder / "module/.terraform.lock.hcl"
    (package,) = (with_lab.home / "providers").glob("[0-9a-f]*/package")
    assert f'"{package_hash(package)}"' in lock.read_text()
    before = lock.read_bytes()
    found = with_lab.results("plan")["a"]
    assert not [note for note in found["notes"] if "lock file" in note]
    with_lab.ok("plan", "--lockfile", "update")
    assert lock.read_bytes() == before


@pytest.mark.long
def test_another_provider_version_is_another_init(with_lab: Program) -> None:
    """A changed constraint, or a changed lock file, is never answered from memory."""
    repository(with_lab, "a")
    with_lab.ok("apply", "--yes")
    repository(with_lab, "a", version="2.0.0")
    found = with_lab.results("plan")["a"]
    assert found["status"] in {"unchanged", "planned"}
    links = list((with_lab.home / "work").glob("*/a/*/tree/module/.terraform/providers/*/*/*/2.0.0/*"))
    assert len(links) == 1


def test_a_wrong_hash_in_the_lock_file_stops_the_stack(with_lab: Program) -> None:
    """The mirror is no way around the lock file."""
    repository(with_lab, "a")
    with_lab.ok("plan", "--lockfile", "update")
    lock = with_lab.folder / "module/.terraform.lock.hcl"
    text = lock.read_text()
    start = text.index("h1:") + 3
    lock.write_text(text[:start] + "AAAA" + text[start + 4 :])
    failed = with_lab.results("plan", code=1)["a"]
    assert failed["error"]["code"] == "HF-TF-1"


@pytest.mark.long
def test_damage_in_the_mirror_heals(with_lab: Program) -> None:
    """A package that somebody wrote to is not run: it is fetched again."""
    repository(with_lab, "a")
    with_lab.ok("apply", "--yes")
    (program,) = (with_lab.home / "providers").glob("[0-9a-f]*/package/terraform-provider-lab*")
    program.chmod(0o700)
    program.write_text("#!/bin/sh\nexit 1\n")
    assert with_lab.results("plan")["a"]["status"] == "unchanged"
    (healed,) = (with_lab.home / "providers").glob("[0-9a-f]*/package/terraform-provider-lab*")
    assert "exit 1" not in healed.read_text()


def test_a_plan_that_asks_for_init_gets_one(with_lab: Program) -> None:
    """What is known turns out wrong (a folder was emptied by hand): one real init, and on it goes."""
    repository(with_lab, "a")
    with_lab.ok("apply", "--yes")
    (record,) = (with_lab.home / "work").glob("*/a/*/init.json")
    (module,) = (with_lab.home / "work").glob("*/a/*/tree/module")
    backend = module / ".terraform/terraform.tfstate"
    document = json.loads(backend.read_text())
    document["backend"]["hash"] = 1
    backend.write_text(json.dumps(document))
    assert record.exists()
    assert with_lab.results("plan")["a"]["status"] == "unchanged"


def test_a_validation_that_asks_for_init_gets_one(holdfast: Program) -> None:
    """Terraform's own list of modules was emptied by hand: one real init, and on it goes."""
    holdfast.write("holdfast.yaml", "version: 1\nstacks: [{ name: a, module: module }]\n")
    holdfast.write("module/main.tf", 'module "m" {\n  source = "../shared"\n}\n')
    holdfast.write("shared/main.tf", 'resource "terraform_data" "x" {}\n')
    holdfast.ok("apply", "--yes")
    (listed,) = (holdfast.home / "work").glob("*/a/*/tree/module/.terraform/modules/modules.json")
    listed.write_text('{"Modules":[]}')
    shutil.rmtree(holdfast.home / "validated")
    assert holdfast.results("plan")["a"]["status"] == "unchanged"


def test_the_same_code_in_another_folder_needs_no_init_of_its_own(holdfast: Program) -> None:
    """Folders count as they lie to each other. A module that lies elsewhere is another init, and is right."""
    holdfast.write(
        "holdfast.yaml",
        'version: 1\nenvironments: { dev: {} }\nstacks: [{ folder: "live/{name}", environment: dev }]\n'
        "engine: { parallelism: 1 }\n",
    )
    for name, source in (("a", "../../shared"), ("b", "../../shared"), ("c", "../../other")):
        holdfast.write(f"live/{name}/main.tf", f'module "m" {{\n  source = "{source}"\n}}\n')
    holdfast.write("shared/main.tf", 'resource "terraform_data" "x" {}\n')
    holdfast.write("other/main.tf", 'resource "terraform_data" "x" {}\nresource "terraform_data" "y" {}\n')
    holdfast.ok("apply", "--yes")
    assert len(list((holdfast.home / "templates").iterdir())) == 2, "one for each kind of init"
    assert len(list((holdfast.home / "validated").iterdir())) == 2
    assert holdfast.json("state", "list", "live/c")["resources"] == [
        "module.m.terraform_data.x",
        "module.m.terraform_data.y",
    ]


@pytest.mark.long
def test_many_cold_starts_at_once(with_lab: Program, tmp_path: Path) -> None:
    """Several programs on an empty mirror: each works, and the package is there once."""
    names = [f"s{number}" for number in range(5)]
    repository(with_lab, *names)
    started = [with_lab.start("plan", "--json", name) for name in names]
    answers = [process.communicate(timeout=240) for process in started]
    assert {process.returncode for process in started} == {0}, answers
    packages = list((with_lab.home / "providers").glob("[0-9a-f]*/package"))
    assert len(packages) == 1
    leftovers = [path.name for path in (with_lab.home / "providers").iterdir() if path.name.startswith(".")]
    assert leftovers == []
    assert tmp_path.exists()


@pytest.mark.long
@pytest.mark.parametrize("use", ["embedded", "binary"])
def test_plugin_tls_is_off_where_it_was_probed(with_lab: Program, use: str, terraform_folder: Path) -> None:
    """The lab provider serves without a certificate, so its engine is told to; the setting can forbid it."""
    if use == "binary":
        with_lab.environment["PATH"] = f"{terraform_folder}:{with_lab.environment['PATH']}"
    repository(with_lab, "a")
    with_lab.write("module/seen.tf", SEEN)
    (with_lab.folder / "holdfast.yaml").write_text(
        (with_lab.folder / "holdfast.yaml").read_text() + f"engine: {{ use: {use} }}\n"
    )
    with_lab.ok("plan")
    seen = with_lab.results("apply", "--yes")["a"]["outputs"]["seen"]["value"]
    assert seen.get("PLUGIN_CLIENT_CERT", "") == ""
    shutil.rmtree(with_lab.home / "work")
    config = with_lab.folder / "holdfast.yaml"
    config.write_text(config.read_text().replace("engine: {", "engine: { plugin_tls: always,"))
    assert with_lab.results("apply", "--yes")["a"]["status"] in {"applied", "unchanged"}


SEEN = """
    data "lab_environment" "e" {
      names = ["PLUGIN_CLIENT_CERT"]
    }
    output "seen" { value = data.lab_environment.e.values }
    """


def test_a_mirror_named_in_the_configuration_is_used(with_lab: Program, lab: Path) -> None:
    """Without a CLI configuration of the user's, the folder in holdfast.yaml is where providers come from."""
    repository(with_lab, "a")
    del with_lab.environment["TF_CLI_CONFIG_FILE"]
    config = with_lab.folder / "holdfast.yaml"
    config.write_text(config.read_text() + f"engine: {{ mirror: {lab.parent} }}\n")
    assert with_lab.results("plan")["a"]["status"] == "planned"


def test_two_places_for_providers_are_a_mistake(with_lab: Program, lab: Path) -> None:
    """The user's provider_installation and engine.mirror cannot both be meant."""
    repository(with_lab, "a")
    config = with_lab.folder / "holdfast.yaml"
    config.write_text(config.read_text() + f"engine: {{ mirror: {lab.parent} }}\n")
    failed = with_lab.results("plan", code=1)["a"]
    assert failed["error"]["code"] == "HF-ENG-7"


def test_the_users_own_file_in_the_home_folder_is_honoured(with_lab: Program, lab: Path) -> None:
    """`~/.terraformrc` is where Terraform looks without a variable."""
    repository(with_lab, "a")
    del with_lab.environment["TF_CLI_CONFIG_FILE"]
    shutil.copy(lab, Path(with_lab.environment["HOME"]) / ".terraformrc")
    assert with_lab.results("plan")["a"]["status"] == "planned"


@pytest.mark.long
def test_fifty_cold_inits_killed_half_way_and_repeated(with_lab: Program) -> None:
    """Fifty stacks at once on an empty mirror; killed in the middle, the next run ends well all the same."""
    names = [f"s{number:02}" for number in range(50)]
    repository(with_lab, *names)
    config = with_lab.folder / "holdfast.yaml"
    config.write_text(config.read_text() + "engine: { parallelism: 50 }\n")
    process = with_lab.start("plan", "--json")
    eventually(
        lambda: len(list((with_lab.home / "work").glob("*/*/*/tree/module/.terraform"))) > 1,
        what="inits are under way",
    )
    process.kill()
    process.communicate(timeout=60)
    planned = with_lab.results("plan", seconds=300)
    assert {one["status"] for one in planned.values()} == {"planned"}
    assert len(list((with_lab.home / "providers").glob("[0-9a-f]*/package"))) == 1


@pytest.mark.long
def test_a_provider_that_must_have_tls_beside_one_that_need_not(
    with_lab: Program, lab: Path, tmp_path: Path
) -> None:
    """One that answers with a certificate unasked keeps TLS on for its stacks, and only for those."""
    (plain,) = lab.parent.glob("holdfast.dev/labs/lab/1.0.0/*/terraform-provider-lab_v1.0.0")
    strict = tmp_path / "mirror" / "holdfast.dev/labs/strict/1.0.0" / plain.parent.name
    strict.mkdir(parents=True)
    program = strict / "terraform-provider-strict_v1.0.0"
    lines = plain.read_text().splitlines()
    program.write_text("\n".join([lines[0], "export LAB_ALWAYS_TLS=1", *lines[1:]]) + "\n")
    program.chmod(0o755)
    shutil.copytree(lab.parent / "holdfast.dev/labs/lab", tmp_path / "mirror/holdfast.dev/labs/lab")
    config = (
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{tmp_path / "mirror"}"\n  }}\n}}\n'
    )
    with_lab.environment["TF_CLI_CONFIG_FILE"] = str(with_lab.write("both.tfrc", config))
    repository(with_lab, "a")
    with_lab.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks:
          - { variables: "vars/{name}.tfvars", module: module, name: "{name}", environment: dev }
          - { name: both, module: both, environment: dev, variables: { name: both } }
        """,
    )
    code = CODE.replace("VERSION", "1.0.0").replace(
        "required_providers {",
        'required_providers {\n        strict = { source = "holdfast.dev/labs/strict", version = "1.0.0" }',
    )
    extra = 'provider "strict" { directory = var.objects }\n'
    extra += 'resource "lab_object" "strict" {\n  provider = strict\n  name     = "strict"\n}\n'
    with_lab.write("both/main.tf", code)
    with_lab.write("both/strict.tf", extra)
    applied = with_lab.results("apply", "--yes")
    assert {name: one["status"] for name, one in applied.items()} == {"a": "applied", "both": "applied"}
    metas = [json.loads(path.read_text()) for path in (with_lab.home / "providers").glob("*/meta.json")]
    assert sorted(meta["plain"] for meta in metas) == [False, True]
    assert {one["status"] for one in with_lab.results("plan").values()} == {"unchanged"}
