"""The rules of the base from a real Git repository: links, submodules, new stacks, and what only moved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.changes.repository import Repository, open_repository
from holdfast.plans.base_rules import BaseRules, rules_of_bundles
from holdfast.system.environment import Environment
from holdfast.system.environment import read as read_environment

CONFIG = """\
version: 1
environments: { prod: { production: true, match: ["live-*"] }, dev: {} }
guard: { environments: { prod: { approvals: 1 } } }
stacks:
  - { name: a, module: m, environment: prod, backend: { type: s3, settings: { bucket: b, key: a } } }
  - { variables: "v/{name}.tfvars", module: m, name: "{name}", environment: "{var.place}" }
"""
POLICY = "package main\n\ndeny contains msg if {\n  msg := input.x\n}\n"


class Tree:
    """A repository on a branch `main`, with a change in its working tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("holdfast.yaml", CONFIG)
        self.write("m/main.tf", 'variable "place" {}\n')
        self.write("v/x.tfvars", 'place = "live-1"\n')

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def edit(self, old: str, new: str, path: str = "holdfast.yaml") -> None:
        text = (self.root / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def git(self, *arguments: str) -> None:
        command = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments)
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        if not (self.root / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "x")

    def opened(self) -> Repository:
        return open_repository(
            self.root / "holdfast.yaml", Environment(variables=dict(read_environment().variables))
        )

    def base(self) -> BaseRules:
        found = self.opened().select([], [], "main").base
        assert found is not None
        return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_same_rules_cost_nothing(tree: Tree) -> None:
    """A change of code, or of where a setting is written, is judged once."""
    tree.commit()
    tree.write("m/more.tf", "locals {}\n")
    tree.edit("version: 1\n", "# a comment\nversion: 1\n")
    assert tree.opened().select([], [], "main").base is None


def test_a_state_is_recognised_by_what_names_it(tree: Tree) -> None:
    """A new name, and settings that only say how to reach the state, change nothing."""
    tree.commit()
    tree.edit("name: a, module: m, environment: prod", "name: z, module: m, environment: dev")
    tree.edit("key: a }", "key: ./a, endpoints: { s3: 'https://s3.example' }, region: x }")
    assert [twin.production for twin in tree.base().of("z")] == [True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"{var.place}"', "dev"),
        ('production: true, match: ["live-*"] }, dev: {}', 'production: true }, dev: { match: ["live-*"] }'),
    ],
)
def test_a_new_stack_is_what_the_base_would_make_of_it(tree: Tree, old: str, new: str) -> None:
    """By the entries and by the environments of the base, although it has no such stack."""
    tree.commit()
    tree.write("v/new.tfvars", 'place = "live-2"\n')
    tree.edit(old, new)
    base = tree.base()
    assert any(twin.production for twin in base.of("new"))
    assert base.stricter(tree.opened().by_name["new"]).production


def test_a_policy_behind_a_link_is_a_policy(tree: Tree) -> None:
    """Edited, removed, or replaced together with its link."""
    tree.write("shared/a.rego", POLICY)
    (tree.root / "policy").symlink_to("shared")
    tree.commit()
    tree.edit("deny", "warn", "shared/a.rego")
    assert tree.base().code.content("policy/a.rego") == POLICY.encode()
    (tree.root / "shared/a.rego").unlink()
    assert "shared/a.rego removed" in tree.base().weakened
    assert tree.base().code.tree.names("policy") == ("a.rego",)


def test_a_policy_that_cannot_be_read_is_not_absent(tree: Tree) -> None:
    """A link to a folder that became a folder: what was in it is unknown, and counts as not evaluated."""
    tree.write("shared/a.rego", POLICY)
    (tree.root / "policy").symlink_to("shared")
    tree.commit()
    (tree.root / "policy").unlink()
    tree.write("policy/a.rego", POLICY.replace("deny", "warn"))
    base = tree.base()
    assert base.sealed.unreadable == ("policy",)
    assert base.sealed.checks


def test_a_configuration_behind_a_link_is_read_as_it_was(tree: Tree) -> None:
    """The link itself did not change."""
    (tree.root / "holdfast.yaml").rename(tree.root / "real.yaml")
    (tree.root / "holdfast.yaml").symlink_to("real.yaml")
    tree.commit()
    tree.edit("approvals: 1", "approvals: 0", "real.yaml")
    assert tree.base().weakened == ("guard.environments.prod.approvals 1 → 0",)


def test_readers_of_an_output_are_those_of_the_base(tree: Tree) -> None:
    """Removing `depends_on` does not hide that the code reads it."""
    tree.edit("environment: prod,", "environment: prod, depends_on: [x],")
    tree.commit()
    tree.edit("depends_on: [x], ", "")
    assert [twin.readers for twin in tree.base().of("x")] == [("m",)]


def test_a_bundle_has_the_same_rules(tree: Tree) -> None:
    """What is sealed and opened again is judged, and digested, as before."""
    contract = "contract: { schema: c.yaml, stacks: [a] }"
    tree.edit("stacks:\n", f"targets: {{ t: {{ owner: ci, {contract} }} }}\nstacks:\n")
    tree.edit("environment: prod,", "environment: prod, target: t,")
    tree.write("policy/a.rego", POLICY)
    tree.commit()
    tree.edit("target: t, ", "")
    tree.edit("deny", "warn", "policy/a.rego")
    base, repository = tree.base(), tree.opened()
    sealed = base.seal("a")
    opened = rules_of_bundles([None, sealed], repository.config, repository.code)
    assert opened is not None
    assert opened.seal("a") == sealed
    assert opened.of("a") == base.of("a")
    owned = opened.stricter(repository.by_name["a"])
    assert owned.contract is not None
    assert "target t (owner ci) → none (a)" in opened.weakened
