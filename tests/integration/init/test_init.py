"""`holdfast init` on small repositories of every kind, with real files and real Git."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from holdfast.cli.app import app
from holdfast.config.held_back import held_back_entries
from holdfast.kernel.errors import Failed
from holdfast.onboarding.config_file import write_verified
from holdfast.onboarding.scan import scan_repository
from holdfast.onboarding.starter import Starter, starter_from_scan
from holdfast.stacks.stack import Stack

CODE = 'resource "terraform_data" "x" {}\n'
OPEN = 'terraform {\n  backend "s3" {}\n}\n'


def fixed(key: str) -> str:
    return (
        'terraform {\n  backend "s3" {\n    bucket = "b"\n'
        f'    key = "{key}"\n    dynamodb_table = "locks"\n  }}\n}}\n{CODE}'
    )


def lay(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def started(root: Path) -> tuple[Starter, dict[str, Stack]]:
    """Look, write, and read back: what discovery finds is what was announced."""
    made = starter_from_scan(scan_repository(root))
    stacks = write_verified(made, root / "holdfast.yaml")
    return made, {stack.name: stack for stack in stacks}


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["init", *arguments], standalone_mode=False)
    done.exit_code = done.return_value if done.exception is None else 1
    return done


def git(root: Path, *arguments: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, env=environment)


def test_a_tree_of_accounts_with_one_module(tmp_path: Path) -> None:
    """`Accounts/<account>/<service>/<name>.tfvars` is one entry, and accounts tell the environment."""
    lay(
        tmp_path,
        {
            "main.tf": CODE + 'module "n" {\n  source = "./modules/net"\n}\n',
            "modules/net/main.tf": CODE,
            "Accounts/acme-dev/net/a.tfvars": "",
            "Accounts/acme-prod/net/a.tfvars": "",
            "Accounts/acme-prod/db/b.tfvars": "",
        },
    )
    made, stacks = started(tmp_path)
    assert set(stacks) == {"acme-dev/net/a", "acme-prod/net/a", "acme-prod/db/b"}
    assert {stack.module for stack in stacks.values()} == {"."}
    assert {name for name, stack in stacks.items() if not stack.production} == {"acme-dev/net/a"}
    assert made.text.count("- variables:") == 1


def test_modules_named_by_the_path(tmp_path: Path) -> None:
    """A part of the path that names a folder with code is that stack's module."""
    lay(
        tmp_path,
        {
            "modules/net/main.tf": CODE,
            "modules/db/main.tf": CODE,
            "Accounts/a/net/x.tfvars": 'env = "dev"\n',
            "Accounts/a/db/y.tfvars": "",
        },
    )
    made, stacks = started(tmp_path)
    assert {name: stack.module for name, stack in stacks.items()} == {
        "a/db/y": "modules/db",
        "a/net/x": "modules/net",
    }
    assert "modules/{service}" in made.text
    assert not stacks["a/net/x"].production
    assert stacks["a/db/y"].production


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("environments/prod.tfvars", "environments/dev.tfvars"), {"prod", "dev"}),
        (("envs/prod/eu-west-1.tfvars", "envs/dev/us-east-1.tfvars"), {"prod/eu-west-1", "dev/us-east-1"}),
        (("config/prod/network.tfvars", "config/dev/network.tfvars"), {"prod/network", "dev/network"}),
        (("envs/prod/terraform.tfvars", "envs/dev/terraform.tfvars"), {"prod", "dev"}),
        (("prod.tfvars", "dev.tfvars"), {"prod", "dev"}),
        (("prod.tfvars.json", "dev.tfvars.json"), {"prod", "dev"}),
    ],
)
def test_variables_for_a_root_module(tmp_path: Path, files: tuple[str, ...], names: set[str]) -> None:
    """Each common place for variables files is found by one pattern."""
    lay(tmp_path, {"main.tf": CODE, **dict.fromkeys(files, "{}\n" if files[0].endswith("n") else "")})
    made, stacks = started(tmp_path)
    assert set(stacks) == names
    assert made.text.count("- variables:") == 1
    assert {stack.environment for stack in stacks.values()} == {"dev", "prod"}


def test_what_terraform_reads_by_itself_is_no_stack(tmp_path: Path) -> None:
    """`terraform.tfvars` and `*.auto.tfvars` beside the code make no stacks."""
    lay(tmp_path, dict.fromkeys(("terraform.tfvars", "x.auto.tfvars", "prod.tfvars", "dev.tfvars"), ""))
    lay(tmp_path, {"main.tf": CODE})
    assert set(started(tmp_path)[1]) == {"prod", "dev"}


def test_a_tree_of_folders(tmp_path: Path) -> None:
    """Folders with root modules are found by pattern; what they call is no stack."""
    live = {
        f"live/{env}/{region}/{part}/main.tf": fixed(f"{env}/{region}/{part}")
        for env in ("prod", "staging")
        for region in ("eu-west-1", "us-east-1")
        for part in ("net", "db")
    }
    bootstrap = {"bootstrap/main.tf": CODE, "bootstrap/terraform.tfstate": "{}"}
    lay(tmp_path, {**live, "modules/x/main.tf": CODE, **bootstrap})
    made, stacks = started(tmp_path)
    assert len(stacks) == 9
    assert stacks["staging/eu-west-1/db"].region == "eu-west-1"
    assert not stacks["staging/eu-west-1/db"].production
    assert stacks["bootstrap"].module == "bootstrap"
    assert "live/{environment}/{region}/{component}" in made.text
    assert [one.title for one in made.steps if one.file == "live/prod/us-east-1/db/main.tf"] == [
        "DynamoDB locks",
        "Backends hard-coded in the code",
    ]


def test_a_root_module_alone(tmp_path: Path) -> None:
    """One root module at the top is one stack that counts as production."""
    root = lay(tmp_path / "shop", {"main.tf": CODE, "terraform.tfstate": "{}"})
    made, stacks = started(root)
    assert list(stacks) == ["shop"]
    assert stacks["shop"].production
    adopt = next(one.what for one in made.steps if one.file == "terraform.tfstate")
    assert adopt.startswith("Run: holdfast state adopt shop")


def test_nothing_at_all(tmp_path: Path) -> None:
    """A repository without code gets a starter that is right and finds nothing."""
    lay(tmp_path, {"README.md": "nothing here"})
    made, stacks = started(tmp_path)
    assert stacks == {}
    assert "stacks: []" in made.text


def test_a_library_of_one_module(tmp_path: Path) -> None:
    """A module that only its examples call is no stack, and neither are the examples."""
    lay(tmp_path, {"main.tf": CODE, "examples/all/main.tf": 'module "m" {\n  source = "../.."\n}\n'})
    assert started(tmp_path)[1] == {}


def test_atlantis_projects(tmp_path: Path) -> None:
    """Projects become stacks with their workspace, version and order; what is lost is said."""
    lay(
        tmp_path,
        {
            "atlantis.yaml": "version: 3\nprojects:\n"
            "- {name: net-prod, dir: net, workspace: prod, terraform_version: v1.5.7}\n"
            "- {name: net-dev, dir: net, workspace: dev, workflow: odd}\n"
            "- {dir: app, execution_order_group: 1}\n"
            "- {dir: gone}\n",
            "net/main.tf": fixed("net"),
            "net/env/prod.tfvars": "",
            "app/main.tf": fixed("app"),
            "other/main.tf": CODE,
        },
    )
    made, stacks = started(tmp_path)
    assert set(stacks) == {"net-prod", "net-dev", "app"}
    assert stacks["net-prod"].workspace == "prod"
    assert stacks["net-prod"].variables_files == ("net/env/prod.tfvars",)
    assert stacks["net-prod"].engine is not None
    assert stacks["net-prod"].engine.version == "1.5.7"
    assert stacks["app"].depends_on == ("net-dev", "net-prod")
    assert not stacks["net-dev"].production
    lost = " ".join(one.what for one in made.steps if "Atlantis" in one.title)
    assert "gone" in lost
    assert "custom workflow" in lost
    assert any("other" in guess for guess in made.guesses)


def test_a_script_that_writes_the_backend(tmp_path: Path) -> None:
    """A backend that only a pipeline writes into the code holds the stack back."""
    text = "jobs:\n  plan:\n    run: |\n      echo 'terraform { backend \"s3\" {} }' > backend.tf\n"
    lay(tmp_path, {"main.tf": CODE, ".github/workflows/plan.yml": text})
    made, stacks = started(tmp_path)
    assert stacks == {}
    assert ".github/workflows/plan.yml:4" in made.text


REMOTE = 'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n  }\n}\n'


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {".terraform/terraform.tfstate": '{"backend": {"type": "s3", "config": {"bucket": "b"}}}'},
            "bucket b",
        ),
        ({".terraform.lock.hcl": ""}, "initialised before"),
        ({"variables.tf": 'variable "size" {}\nprovider "x" {}\n'}, "no file sets size"),
        ({"other/main.tf": REMOTE}, "other code here has one (other/main.tf:2:3)"),
        ({"broken.tf": 'resource "a" {'}, "cannot be read completely"),
        ({"Makefile": "apply:\n\tterraform apply\n"}, "Makefile:2 runs Terraform"),
        ({"backends/dev.conf": 'bucket = "b"\nkey = "k"\n'}, "backends/dev.conf has settings for one"),
        (
            {".gitlab-ci.yml": "plan:\n  script: [gitlab-terraform plan]\n"},
            ".gitlab-ci.yml:2 passes backend settings",
        ),
        (
            {"main.tf": REMOTE.replace('"k"', '"{{ env }}"') + CODE},
            "another tool replaces the backend's `key",
        ),
        (
            {"main.tf": REMOTE + 'output "w" {\n  value = terraform.workspace\n}\n'},
            "each workspace has its own state",
        ),
        (
            {
                "main.tf": REMOTE + 'module "m" {\n  source = "./m"\n}\n',
                "m/main.tf": 'output "w" {\n  value = terraform.workspace\n}\n',
            },
            "each workspace has its own state",
        ),
        ({"main.tf": OPEN + CODE}, "the code does not set the backend's `bucket`, `key`"),
        (
            {"main.tf": REMOTE + CODE, "ci.yml": "- terraform init -backend-config=key=$ENV/x.tfstate\n"},
            "the backend's `key`: ci.yml:1 passes",
        ),
        (
            {
                "main.tf": REMOTE.replace("s3", "gcs").replace("key", "#"),
                "run.ts": "-backend-config=prefix=x",
            },
            "the backend's `prefix`: run.ts:1 passes",
        ),
        (
            {"main.tf": REMOTE + CODE, "ops/deploy.sh": "terraform workspace select $1\n"},
            "ops/deploy.sh:1 selects a workspace",
        ),
        (
            {"main.tf": REMOTE + CODE, "README.md": "Run `terraform workspace select prod`.\n"},
            "README.md:1 selects a workspace",
        ),
        ({"main.tf": REMOTE + CODE, ".terraform/environment": "prod"}, ".terraform has prod selected"),
        (
            {
                "main.tf": 'terraform {\n  cloud {\n    organization = "a"\n    workspaces {\n'
                '      tags = ["x"]\n    }\n  }\n}\n'
            },
            "the code does not name one workspace",
        ),
        ({"main.tf": "terraform {\n  cloud {}\n}\n"}, "the code does not name an organization"),
        (
            {
                "main.tf": REMOTE + CODE,
                "ci.yml": "uses: x/terraform-plan@v1\nworkspace: qa\nbackend_config: bucket=qa\n"
                "key: terraform init -backend-config=key=qa\n",
            },
            "Replace `{BUCKET}` and `{KEY}` with the values in use. Replace `{WORKSPACE}`",
        ),
        ({"states/prod.tfstate": "{}"}, "states/prod.tfstate is a state file"),
        (
            {"main.tf": 'terraform {\n  backend "local" {}\n}\n' + CODE, ".terraform.lock.hcl": ""},
            "its local state is not here",
        ),
    ],
)
def test_a_state_that_may_be_elsewhere(tmp_path: Path, files: Mapping[str, str], reason: str) -> None:
    """No sign of an existing state is replaced by an empty one: the stack waits, and the reason is named."""
    root = lay(tmp_path / "shop", {"main.tf": CODE, **files})
    made, stacks = started(root)
    assert "shop" in made.held_back
    assert "shop" not in stacks
    assert reason in next(step.what for step in made.steps if step.what.startswith("shop: "))


def test_a_comparison_with_the_default_workspace(tmp_path: Path) -> None:
    """Code that only asks whether it runs in the default workspace is meant for that one."""
    text = 'output "w" {\n  value = terraform.workspace == "default"\n}\n'
    root = lay(tmp_path / "shop", {"main.tf": REMOTE + text})
    assert started(root)[1]["shop"].workspace == "default"


def test_variables_of_a_module_called_backend(tmp_path: Path) -> None:
    """What sets more than a backend is a variables file, whatever its folder is called."""
    main = REMOTE + 'variable "region" {}\nvariable "size" {}\n'
    values = {f"backend/{name}.tfvars": 'region = "r"\nsize = 1\n' for name in ("dev", "prod")}
    made, _ = started(lay(tmp_path, {"backend/main.tf": main, **values}))
    assert made.held_back == ("dev", "prod")
    assert "backend/{environment}.tfvars" in made.text


def test_every_variables_file_is_accounted_for(tmp_path: Path) -> None:
    """A file that no stack reads is listed with the reason."""
    files = dict.fromkeys(
        ("dev.tfvars", "terraform.tfvars", "example.tfvars", "modules/a/x.tfvars", "examples/b/y.tfvars"), ""
    )
    code = dict.fromkeys(("modules/a/main.tf", "examples/b/main.tf"), CODE)
    call = 'module "a" {\n  source = "./modules/a"\n}\n'
    made, stacks = started(lay(tmp_path, {"main.tf": REMOTE + call, **code, **files}))
    assert set(stacks) == {"dev"}
    assert {step.file: step.what.split()[0] for step in made.steps if "no stack uses" in step.title} == {
        "example.tfvars": "It",
        "examples/b/y.tfvars": "examples/b",
        "modules/a/x.tfvars": "modules/a",
    }


def test_what_to_fix_in_order(tmp_path: Path) -> None:
    """States come before locks, locks before habits, each with its file and line."""
    lay(
        tmp_path,
        {
            "a/main.tf": fixed("a"),
            "b/main.tf": CODE,
            "b/terraform.tfstate": "{}",
            "c/main.tf": 'terraform {\n  backend "local" {}\n}\n',
            "e/main.tf": CODE,
            "d/main.tf": 'terraform {\n  backend "local" {}\n}\n'
            'resource "terraform_data" "x" {\n  provisioner "local-exec" {\n'
            '    command = "x"\n  }\n}\n'
            'data "external" "y" {\n  program = ["z"]\n}\nvariable "needed" {}\n',
        },
    )
    made = starter_from_scan(
        scan_repository(tmp_path, tracked=("b/terraform.tfstate", "old.tfplan", "b/main.tf"))
    )
    assert list(dict.fromkeys(one.title for one in made.steps)) == [
        "Stacks held back: their state location is unknown",
        "State files in the repository: adopt them",
        "State and plan files in Git",
        "Local backends",
        "No backend in the code",
        "DynamoDB locks",
        "Backends hard-coded in the code",
        "Variables without a value",
        "Programs that Terraform runs locally",
    ]
    assert [(one.file, one.line) for one in made.steps if "Programs" in one.title] == [
        ("d/main.tf", 5),
        ("d/main.tf", 9),
    ]
    assert [one.file for one in made.steps if "Git" in one.title] == ["b/terraform.tfstate", "old.tfplan"]


def test_nothing_is_written_when_the_starter_is_wrong(tmp_path: Path) -> None:
    """A starter that does not find what it announced, or cannot be read, never reaches the disk."""
    lay(tmp_path, {"main.tf": CODE})
    made = starter_from_scan(scan_repository(tmp_path))
    file = tmp_path / "holdfast.yaml"
    for wrong in (replace(made, stacks=("another",)), replace(made, text="version: 1\nstakcs: []\n")):
        with pytest.raises(Failed) as caught:
            write_verified(wrong, file)
        assert caught.value.problem.code == "HF-INIT-3"
        assert not file.exists()


def test_broken_variables_are_shown_as_they_are(tmp_path: Path) -> None:
    """A variables file that cannot be read is shown with its own place; the other stacks are found."""
    lay(tmp_path, {"main.tf": CODE, "Accounts/a/b/c.tfvars": "x = = 1\n", "Accounts/a/d/c.tfvars": ""})
    made, stacks = started(tmp_path)
    assert made.steps[0].title == "Unreadable files"
    assert (made.steps[0].file, made.steps[0].line) == ("Accounts/a/b/c.tfvars", 1)
    assert [bool(stacks[name].problems) for name in sorted(stacks)] == [True, False]


def test_the_command_says_what_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One screen: what was found, what was guessed, what to fix, what to type next."""
    lay(tmp_path, {"main.tf": CODE, "env/prod.tfvars": "", "env/dev.tfvars": ""})
    monkeypatch.chdir(tmp_path)
    result = run()
    assert result.exit_code == 0, result.output
    for part in (
        "2 stacks",
        "Found",
        "Guessed",
        "To fix, in this order",
        "holdfast stacks",
        "holdfast plan",
    ):
        assert part in result.output
    assert len(result.output.splitlines()) < 30
    assert stat.S_IMODE((tmp_path / "holdfast.yaml").stat().st_mode) == 0o644


def test_a_file_that_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing configuration is refused, and replaced only with --force."""
    lay(tmp_path, {"main.tf": CODE, "holdfast.yaml": "version: 1\n"})
    monkeypatch.chdir(tmp_path)
    result = run()
    assert result.exit_code == 64
    assert "HF-INIT-1" in result.output
    assert "--force" in result.output
    assert (tmp_path / "holdfast.yaml").read_text() == "version: 1\n"
    assert run("--force").exit_code == 0
    assert "stacks:" in (tmp_path / "holdfast.yaml").read_text()


def test_the_other_ending_is_not_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing `holdfast.yml` is reported, not ignored."""
    lay(tmp_path, {"main.tf": CODE, "holdfast.yml": "version: 1\n"})
    monkeypatch.chdir(tmp_path)
    result = run()
    assert result.exit_code == 64
    assert not (tmp_path / "holdfast.yaml").exists()


def test_it_writes_at_the_top_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder inside a working tree the file goes to its top, and Git's states are told of."""
    lay(tmp_path, {"net/main.tf": CODE, "net/terraform.tfstate": "{}"})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", ".")
    monkeypatch.chdir(tmp_path / "net")
    result = run("--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["file"] == "../holdfast.yaml"
    assert (tmp_path / "holdfast.yaml").is_file()
    assert not (tmp_path / "net/holdfast.yaml").exists()
    assert document["stacks"] == ["net"]
    assert {"State and plan files in Git", "State files in the repository: adopt them"} <= {
        one["title"] for one in document["steps"]
    }


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document has the names, the guesses and what to fix, and standard output nothing else."""
    lay(tmp_path, {"main.tf": fixed("x"), "prod.tfvars": "", "dev.tfvars": ""})
    monkeypatch.chdir(tmp_path)
    document = json.loads(run("--json").stdout)
    assert document["version"] == 1
    assert document["file"] == "holdfast.yaml"
    assert document["stacks"] == []
    assert document["held_back"] == ["dev", "prod"]
    assert document["guesses"]
    assert document["steps"]
    assert all(set(one) == {"title", "file", "line", "what"} for one in document["steps"])
    errors = json.loads(run("--json").stdout)
    assert errors["errors"][0]["code"] == "HF-INIT-1"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file that cannot be written is an error with a code, not a traceback."""
    lay(tmp_path, {"main.tf": CODE})
    made = starter_from_scan(scan_repository(tmp_path))
    (tmp_path / "holdfast.yaml").mkdir()
    with pytest.raises(Failed) as caught:
        write_verified(made, tmp_path / "holdfast.yaml")
    assert caught.value.problem.code == "HF-INIT-4"


def test_hundreds_of_held_back_stacks_do_not_make_the_file_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the first entries and the number of the others; the command in it lists all."""
    inputs = f'inputs = {{\n  who  = run_cmd("whoami")\n  text = "{"x" * 3000}"\n}}\n'
    lay(tmp_path, {f"live/u{number:03}/terragrunt.hcl": inputs for number in range(400)})
    lay(tmp_path, {f"live/u{number:03}/main.tf": 'variable "text" {}\n' for number in range(400)})
    monkeypatch.chdir(tmp_path)
    done = run()
    assert "0 stacks, 400 held back" in done.output
    text = (tmp_path / "holdfast.yaml").read_text()
    assert text.count("terragrunt.hcl → u") == 50
    assert "# … and 350 more held-back entries." in text
    assert held_back_entries(text) == 400
    (tmp_path / "holdfast.yaml").write_text(f"{text}# An edit.\n")
    command = "holdfast init --verbose --config holdfast-details.yaml"
    assert command in text
    assert f"Details, without changing holdfast.yaml: {command}\n" in done.output
    assert "live/u399/terragrunt.hcl" not in done.output
    assert "live/u399/terragrunt.hcl" in run("--verbose", "--config", "holdfast-details.yaml").output
    assert (tmp_path / "holdfast.yaml").read_text().endswith("# An edit.\n")


def test_files_of_old_terragrunt_are_reported_once(tmp_path: Path) -> None:
    old = 'terragrunt = {\n  terraform {\n    source = "../../modules/app"\n  }\n}\nname = "x"\n'
    lay(tmp_path, {f"live/{name}/app/terraform.tfvars": old for name in ("dev", "stage", "prod")})
    lay(tmp_path, {"live/terraform.tfvars": "terragrunt = {\n  remote_state {\n  }\n}\n"})
    lay(tmp_path, {"live/prod/own/main.tf": CODE, "modules/app/main.tf": 'variable "name" {}\n' + OPEN})
    made, stacks = started(tmp_path)
    assert stacks == {}
    assert {"dev", "prod", "prod/own", "stage"} == {name.removesuffix("/app") for name in made.held_back}
    (step,) = (step for step in made.steps if not step.title.startswith("Stacks held back"))
    assert step.what.startswith("These are files of Terragrunt before 0.19; convert them first")
    assert step.what.endswith(" and 1 more.")


def test_templates_of_terraspace_are_no_unreadable_files(tmp_path: Path) -> None:
    """Terraspace renders them; other broken files are still listed."""
    files = {
        "app/stacks/a/main.tf": 'variable "zone" {}\n',
        "app/stacks/a/tfvars/dev.tfvars": "zone = <%= output('dns.zone') %>\n",
        "app/stacks/a/tfvars/prod.tfvars": "zone = = 1\n",
        "config/terraform/backend.tf": 'terraform {\n  backend "s3" {}\n}\n',
    }
    lay(tmp_path, files)
    steps = [step.file for step in started(tmp_path)[0].steps if step.title == "Unreadable files"]
    assert steps == ["app/stacks/a/tfvars/prod.tfvars"]
