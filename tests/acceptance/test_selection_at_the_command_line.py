"""`--changed`, `--since`, names and filters, as a person or a pipeline gives them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from program import Program

CONFIGURATION = """
version: 1
environments:
  prod: { match: ["*-prod"], production: true }
  dev: { match: ["*-dev"] }
targets: { aws: { owner: ci }, local: { owner: developers } }
stacks:
  - variables: accounts/{account}/{name}.tfvars
    module: services/{name}
    name: "{account}/{name}"
    environment: "{account}"
    account: "{account}"
    region: eu-west-1
    target: aws
  - name: tools
    module: services/tools
    environment: x-dev
    region: us-east-1
    target: local
"""


@pytest.fixture
def repository(holdfast: Program) -> Program:
    """Two services in two accounts and one more: shared modules, a template, a policy by variable."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    for account in ("a-prod", "b-dev"):
        for name in ("role", "queue"):
            extra = 'policy = "policies/read.json"\n' if name == "role" else ""
            holdfast.write(f"accounts/{account}/{name}.tfvars", f'x = "{account}"\n{extra}')
    holdfast.write(
        "services/queue/main.tf", 'variable "x" {}\nmodule "shared" {\n  source = "../../modules/shared"\n}\n'
    )
    holdfast.write(
        "services/role/main.tf",
        """
        variable "x" {}
        variable "policy" {}
        output "text" {
          value = templatefile("${path.module}/text.tftpl", {
            policy = file("${path.module}/../../${var.policy}")
          })
        }
        """,
    )
    holdfast.write("services/role/text.tftpl", "${policy}")
    holdfast.write("services/tools/main.tf", 'output "x" {\n  value = 1\n}\n')
    holdfast.write("modules/shared/main.tf", 'module "deeper" {\n  source = "../deeper"\n}\n')
    holdfast.write("modules/deeper/main.tf", "# nothing yet\n")
    holdfast.write("policies/read.json", "{}")
    holdfast.write("policies/other.json", "{}")
    return holdfast


def chosen(program: Program, *arguments: str, **options: Any) -> list[str]:
    return [one["name"] for one in program.json("stacks", *arguments, **options)["stacks"]]


ROLES = ["a-prod/role", "b-dev/role"]
QUEUES = ["a-prod/queue", "b-dev/queue"]


def test_named_files_touch_the_stacks_that_read_them(repository: Program) -> None:
    """Own file, module, module of a module, template, policy named by a variable; and nothing else."""
    for changed, expected in (
        (["accounts/a-prod/role.tfvars"], ["a-prod/role"]),
        (["./accounts//a-prod/../b-dev/role.tfvars"], ["b-dev/role"]),
        (["modules/deeper/main.tf"], QUEUES),
        (["services/role/text.tftpl", "services/tools/main.tf"], [*ROLES, "tools"]),
        (["policies/read.json", "services/tools/new file.tf"], [*ROLES, "tools"]),
        (["policies/other.json", "README.md"], []),
    ):
        arguments = [word for file in changed for word in ("--changed", file)]
        assert chosen(repository, *arguments) == expected, changed
    lines = "modules/shared/main.tf\r\n\nservices/tools/größe ü.tf\n"
    assert chosen(repository, "--changed", "-", stdin=lines) == [*QUEUES, "tools"]
    absolute = str(repository.folder / "services/tools/main.tf")
    assert chosen(repository, "--changed", absolute, cwd=repository.folder / "modules") == ["tools"]
    for wrong in ("../elsewhere.tf", ""):
        errors = repository.json("stacks", "--changed", wrong, code=64)["errors"]
        assert errors[0]["code"] == "HF-USE-6"
    shown = repository.ok("stacks", "--changed", "modules/deeper/main.tf").out
    assert "2 of 5 stacks are affected by 1 changed file" in shown
    assert "modules/deeper" in shown


def test_names_globs_and_filters(repository: Program) -> None:
    """By name, pattern, environment, account, region, target; together with a change, both must hold."""
    for arguments, expected in (
        (["a-prod/*"], ["a-prod/queue", "a-prod/role"]),
        (["env:dev"], ["b-dev/queue", "b-dev/role", "tools"]),
        (["account:b-*"], ["b-dev/queue", "b-dev/role"]),
        (["region:us-*"], ["tools"]),
        (["target:local", "a-prod/role"], ["a-prod/role", "tools"]),
        (["env:prod", "--changed", "services/role/main.tf"], ["a-prod/role"]),
        (["tools", "--changed", "services/role/main.tf"], []),
    ):
        assert chosen(repository, *arguments) == expected, arguments
    (error,) = repository.json("stacks", "b-dev/rolle", code=64)["errors"]
    assert error["code"] == "HF-USE-8"
    assert error["hint"] == "Did you mean `b-dev/role`?"


def test_since_a_commit(repository: Program) -> None:
    """Committed, staged, unstaged and untracked changes since the merge-base, and no others."""
    repository.commit_all()
    repository.git("checkout", "--quiet", "-b", "work")
    assert chosen(repository, "--since", "main") == []
    repository.write("modules/deeper/main.tf", "# changed\n")
    repository.commit_all()
    repository.git("checkout", "--quiet", "main")
    repository.write("services/role/main.tf", '# changed on main only\nvariable "x" {}\n')
    repository.commit_all()
    repository.git("checkout", "--quiet", "work")
    assert chosen(repository, "--since", "main") == QUEUES
    repository.write("services/tools/größe ü.tf", "# untracked\n")
    assert chosen(repository, "--since", "main", cwd=repository.folder / "modules") == [*QUEUES, "tools"]
    assert chosen(repository, "env:prod", "--since", "main") == ["a-prod/queue"]
    # A renamed variables file: the new stack is touched, the old one removed.
    repository.git("mv", "accounts/b-dev/role.tfvars", "accounts/b-dev/queue2.tfvars")
    repository.write("services/queue2/main.tf", 'variable "x" {}\nvariable "policy" {}\n')
    document = repository.json("stacks", "--since", "main")
    assert [one["name"] for one in document["stacks"]] == [
        "a-prod/queue",
        "b-dev/queue",
        "b-dev/queue2",
        "tools",
    ]
    (removed,) = document["removed"]
    assert (removed["name"], removed["variables"]) == ("b-dev/role", "accounts/b-dev/role.tfvars")


def test_of_the_configuration_only_the_changed_entry_counts(repository: Program) -> None:
    """An edit of one entry touches its stacks; a comment none; and what Git cannot tell touches all."""
    repository.commit_all()
    repository.write("holdfast.yaml", "# a comment\n" + CONFIGURATION)
    assert chosen(repository, "--since", "HEAD") == []
    repository.write("holdfast.yaml", CONFIGURATION.replace("us-east-1", "us-east-2"))
    assert chosen(repository, "--since", "HEAD") == ["tools"]
    assert chosen(repository, "--changed", "holdfast.yaml") == ["tools"]
    repository.commit_all()
    assert chosen(repository, "--since", "HEAD~1") == ["tools"]
    # In CI the change is committed: the last commit is not what it was before.
    document = repository.json("stacks", "--changed", "holdfast.yaml")
    assert len(document["stacks"]) == 5
    assert "old version cannot be read" in document["stacks"][0]["reasons"][0]


def test_a_new_configuration_names_removed_stacks_by_its_own_pattern(repository: Program) -> None:
    """The base has no holdfast.yaml: what the removed stack was is not known, except its name."""
    (repository.folder / "holdfast.yaml").unlink()
    repository.commit_all()
    repository.write("holdfast.yaml", CONFIGURATION)
    (repository.folder / "accounts/b-dev/role.tfvars").unlink()
    document = repository.json("stacks", "--since", "HEAD")
    assert document["stacks"][0]["reasons"][0] == "holdfast.yaml is new, or its old version cannot be read"
    (removed,) = document["removed"]
    assert removed["name"] == "b-dev/role"
    assert "its old configuration is unknown" in removed["reason"]


def test_a_computed_path_selects_more_and_says_so(repository: Program) -> None:
    """A file whose name cannot be told may be any file."""
    repository.write(
        "services/tools/main.tf", 'output "x" {\n  value = file("../../${timestamp()}.json")\n}\n'
    )
    (one,) = repository.json("stacks", "--changed", "policies/other.json")["stacks"]
    assert one["name"] == "tools"
    assert any("services/tools/main.tf:2" in reason for reason in one["reasons"])


def test_what_git_cannot_answer_is_a_mistake_with_a_hint(repository: Program) -> None:
    """No repository, an unknown commit, a clone whose history is cut off: exit 64 and what to do."""
    (error,) = repository.json("stacks", "--since", "main", code=64)["errors"]
    assert error["code"] == "HF-GIT-1"
    assert "--changed" in error["hint"]
    repository.commit_all()
    for reference, hint in (
        ("no-such", "git fetch origin no-such"),
        ("origin/no-such", "git fetch origin no-such"),
        ("HEAD~99", "git fetch --unshallow"),
        ("--output=x", "such as origin/main"),
        ("", "such as origin/main"),
    ):
        (error,) = repository.json("stacks", f"--since={reference}", code=64)["errors"]
        assert error["code"] == "HF-GIT-2", reference
        assert hint in error["hint"]
    repository.git("checkout", "--quiet", "-b", "work")
    repository.commit_all("on the branch")
    repository.git("checkout", "--quiet", "main")
    repository.commit_all("on main")
    shallow = repository.folder.parent / "shallow"
    subprocess.run(
        [
            "git",
            "clone",
            "--quiet",
            "--depth=1",
            "--no-single-branch",
            f"file://{repository.folder}",
            shallow,
        ],
        check=True,
        capture_output=True,
    )
    (error,) = repository.json("stacks", "--since", "origin/work", code=64, cwd=shallow)["errors"]
    assert error["code"] == "HF-GIT-3"
    assert "unshallow" in error["hint"]


def test_a_configuration_below_the_top_of_the_working_tree(holdfast: Program) -> None:
    """Paths are relative to the configuration, also where Git's own root is higher."""
    holdfast.write("infra/holdfast.yaml", CONFIGURATION)
    holdfast.write("infra/services/tools/main.tf", "# tools\n")
    holdfast.write("services/tools/main.tf", "# something else\n")
    holdfast.write("infra/accounts/b-dev/role.tfvars", "")
    holdfast.write("infra/services/role/main.tf", "")
    holdfast.commit_all()
    holdfast.write("services/tools/main.tf", "# changed\n")
    infra = holdfast.folder / "infra"
    assert chosen(holdfast, "--since", "HEAD", cwd=infra) == []
    holdfast.write("infra/services/tools/main.tf", "# changed\n")
    assert chosen(holdfast, "--since", "HEAD", cwd=infra) == ["tools"]
    (infra / "accounts/b-dev/role.tfvars").unlink()
    document = holdfast.json("stacks", "--since", "HEAD", cwd=infra)
    assert [one["name"] for one in document["removed"]] == ["b-dev/role"]
    # Git's own name of a file is understood, too.
    assert chosen(holdfast, "--changed", "infra/services/tools/main.tf", cwd=infra) == ["tools"]


def test_a_change_outside_the_root_counts_for_what_reaches_out_of_it(holdfast: Program) -> None:
    """A module above the configuration: no change of it is said to touch nothing."""
    holdfast.write("infra/holdfast.yaml", 'version: 1\nstacks: [{ folder: "{name}", environment: dev }]\n')
    holdfast.write("infra/in/main.tf", "")
    holdfast.write("infra/out/main.tf", 'module "m" {\n  source = "../../modules/m"\n}\n')
    holdfast.write("modules/m/main.tf", "")
    holdfast.commit_all()
    infra = holdfast.folder / "infra"
    assert chosen(holdfast, "--since", "HEAD", cwd=infra) == []
    holdfast.write("modules/m/main.tf", "# changed\n")
    assert chosen(holdfast, "--since", "HEAD", cwd=infra) == ["out"]
