"""Defaults, values, matrices, layers and backend files, from configuration and files to stacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.config.read import parse
from holdfast.kernel.errors import ConfigError, Problem
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import ListedTree
from holdfast.stacks.scope import parse_values
from holdfast.stacks.stack import Stack, matches


def found(text: str, files: Mapping[str, str] | None = None) -> dict[str, Stack]:
    content = {"m/main.tf": "", **(files or {})}
    config = parse(
        "version: 1\n" + text, file="holdfast.yaml", root=Path("/r"), path=Path("/r/holdfast.yaml")
    )
    stacks = discover(
        config,
        files=ListedTree(content),
        read_values=lambda path: parse_values(content[path].encode(), path),
        code_backend=lambda _: None,
    )
    return {stack.name: stack for stack in stacks}


def mistakes(text: str, files: Mapping[str, str] | None = None) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        found(text, files)
    return list(caught.value.problems)


def test_defaults_of_target_and_environment() -> None:
    """A stack has those of its own target and environment; what the pattern captured wins over them."""
    text = """
environments:
  dev: { defaults: { region: eu-1, workspace: "{region}" } }
  prod: { defaults: { region: us-1 } }
targets: { aws: { owner: ci, defaults: { account: "acct-{environment}", pass_env: [T] } } }
pass_env: [F]
stacks:
  - { variables: "v/{environment}/{name}.tfvars", module: m, name: "{environment}/{name}", target: aws }
  - { folder: "live/{environment}/{region}", name: "live/{environment}" }
"""
    files = {"v/dev/a.tfvars": "", "v/prod/a.tfvars": "", "live/dev/ap-9/main.tf": ""}
    stacks = found(text, files)
    dev, prod, live = (stacks[name] for name in ("dev/a", "prod/a", "live/dev"))
    assert (dev.region, dev.workspace, dev.account, dev.pass_env) == ("eu-1", "eu-1", "acct-dev", ("F", "T"))
    assert (prod.region, prod.workspace, prod.account) == ("us-1", "default", "acct-prod")
    assert (live.region, live.workspace, live.account, live.pass_env) == ("ap-9", "ap-9", None, ("F",))
    assert dev.target is not None
    assert dev.target.defaults is None


def test_values() -> None:
    """Those of the environment win, key by key; they may contain placeholders themselves."""
    text = """
company: acme
values: { domain: "dev.{company}.example", network: { cidr: 10.0.0.0/8, size: 3 } }
environments: { prod: { values: { domain: acme.example, network: { size: 9 } } }, dev: {} }
stacks:
  - name: "{environment}"
    matrix: { environment: [dev, prod] }
    module: m
    variables: { d: "{values.domain}", n: "{values.network.cidr}-{values.network.size}" }
"""
    stacks = found(text)
    assert stacks["dev"].variables == {"d": "dev.acme.example", "n": "10.0.0.0/8-3"}
    assert stacks["prod"].variables == {"d": "acme.example", "n": "10.0.0.0/8-9"}
    (problem,) = mistakes(text.replace("network.size}", "network}"))[:1]
    assert (problem.code, "not a string" in problem.message) == ("HF-STACK-6", True)


def test_a_value_that_only_some_stacks_have() -> None:
    """An error for the others only, at the place of the default that asks for it."""
    text = """
defaults:
  backend: { type: s3, settings: { bucket: b, key: "{service}/x" } }
stacks:
  - { folder: "live/{service}", environment: dev }
  - { name: other, module: m, environment: dev, backend: { settings: { key: mine } } }
"""
    files = {"live/api/main.tf": ""}
    assert {stack.backend and stack.backend.settings["key"] for stack in found(text, files).values()} == {
        "api/x",
        "mine",
    }
    (problem,) = mistakes(text.replace(", backend: { settings: { key: mine } }", ""), files)
    assert (problem.code, problem.place and problem.place.line) == ("HF-STACK-6", 4)
    assert "{service}" in problem.message
    assert "other" in problem.message


def test_a_required_key_that_no_level_gives() -> None:
    text = "defaults: { credentials: { aws: { session_name: s } } }\nstacks: [{ name: a, module: m }]"
    (problem,) = mistakes(text)
    assert (problem.code, "role_arn" in problem.message) == ("HF-CONF-5", True)


def test_a_matrix_of_lists_folders_and_files() -> None:
    """Every combination but the excluded ones; each knows where its values come from."""
    text = """
stacks:
  - name: "{environment}/{region}/{component}/{size}"
    matrix:
      environment: [dev, prod]
      region: { file: regions.yaml }
      component: { folders: "components/*" }
      size: { files: "sizes/t-{size}.txt" }
      exclude: [{ environment: dev, region: us }, { component: db, environment: prod }]
    module: components/{component}
    environment: "{environment}"
    workspace: "{environment}-{region}"
    depends_on: ["{environment}/*/db/*"]
"""
    files = {
        "regions.yaml": "- eu\n- us\n",
        "components/api/main.tf": "",
        "components/db/main.tf": "",
        "sizes/t-1.txt": "",
        "sizes/other.txt": "",
    }
    stacks = found(text, files)
    assert set(stacks) == {"dev/eu/api/1", "dev/eu/db/1", "prod/eu/api/1", "prod/us/api/1"}
    stack = stacks["dev/eu/api/1"]
    assert (stack.module, stack.workspace, stack.depends_on) == ("components/api", "dev-eu", ("dev/eu/db/1",))
    assert stack.sources == ("regions.yaml", "components/api", "sizes/t-1.txt")
    as_json = found(text.replace("regions.yaml", "r.json"), {**files, "r.json": '["eu", "us"]'})
    assert set(as_json) == set(stacks)
    (problem,) = mistakes(text.replace("regions.yaml", "none.yaml"), files)
    assert (problem.code, problem.place and problem.place.line) == ("HF-STACK-13", 6)


@pytest.mark.parametrize("content", ["eu: 1", "- [eu]", "- eu\n-", "- &a eu", "\0GITCRYPT\0"])
def test_a_matrix_whose_values_cannot_be_read(content: str) -> None:
    """One stack stands for those of its entry, with the cause; what depends on one of them depends on it."""
    text = """
stacks:
  - name: "{environment}/{region}/a"
    module: m
    matrix: { environment: [dev], region: { file: regions.yaml } }
  - { name: b, module: m, depends_on: [dev/eu/a] }
  - { name: c, module: m, depends_on: ["dev/*"] }
"""
    stacks = found(text, {"m/main.tf": "", "regions.yaml": content})
    assert set(stacks) == {"dev/{region}/a", "b", "c"}
    unknown = stacks["dev/{region}/a"]
    assert unknown.is_unknown
    assert [one.place and one.place.file for one in unknown.problems] == ["regions.yaml"]
    assert stacks["b"].depends_on == stacks["c"].depends_on == (unknown.name,)
    assert not stacks["b"].problems
    assert [matches(unknown, name) for name in ("dev/eu/a", "dev/eu", "env:x", "region:eu")] == [1, 0, 0, 1]
    (problem,) = mistakes(text.replace("dev/eu/a", "dev/eu/c"), {"m/main.tf": "", "regions.yaml": content})
    assert problem.code == "HF-STACK-7"


def test_backend_files() -> None:
    """In order, then the settings; they decide which states are the same, and must exist and be constant."""
    text = """
stacks:
  - name: "{environment}"
    matrix: { environment: [dev, prod] }
    module: m
    backend: { type: s3, files: [b/all.hcl, "b/{environment}.json"], settings: { region: r } }
"""
    files = {
        "b/all.hcl": 'bucket = "all"\nkey = "k"\nregion = "x"\nassume_role = { role_arn = "r" }',
        "b/dev.json": '{"bucket": "dev"}',
        "b/prod.json": '{"bucket": "prod"}',
    }
    backend = found(text, files)["dev"].backend
    assert backend is not None
    assert backend.files == ("b/all.hcl", "b/dev.json")
    assert backend.settings == {
        "bucket": "dev",
        "key": "k",
        "region": "r",
        "assume_role": {"role_arn": "r"},
    }

    def codes(**changed: str) -> list[str]:
        return [one.code for one in mistakes(text, {**files, **changed})]

    assert codes(**{"b/prod.json": '{"bucket": "dev"}'}) == ["HF-STACK-2"]
    assert set(codes(**{"b/all.hcl": "bucket = var.x"})) == {"HF-STACK-16"}
    broken = found(text, {**files, "b/all.hcl": 'bucket = "x"\nworkspaces {\n}'})
    assert {stack.problems[0].code for stack in broken.values()} == {"HF-STACK-13"}
    del files["b/prod.json"]
    (problem,) = mistakes(text, files)
    assert (problem.code, problem.place and problem.place.line) == ("HF-STACK-16", 7)


def test_optional_layers() -> None:
    """Skipped where the file, or a value for its path, is missing; other layers must exist."""
    text = """
defaults: { variables_files: [a.tfvars, { file: "env/{zone}.tfvars", optional: true }] }
stacks:
  - { folder: "live/{zone}", environment: dev }
  - { name: other, module: m, environment: dev }
"""
    files = {"a.tfvars": "", "env/x.tfvars": "", "live/x/main.tf": "", "live/y/main.tf": ""}
    stacks = found(text, files)
    assert stacks["live/x"].variables_files == ("a.tfvars", "env/x.tfvars")
    assert (stacks["live/y"].variables_files, stacks["live/y"].absent_files) == (
        ("a.tfvars",),
        ("env/y.tfvars",),
    )
    assert (stacks["other"].variables_files, stacks["other"].absent_files) == (("a.tfvars",), ())
    assert {one.code for one in mistakes(text.replace("true", "false"), files)} == {
        "HF-STACK-5",
        "HF-STACK-6",
    }


def test_lanes() -> None:
    """A target has one lane; without one, an environment has; no environment's is that of a target."""
    text = """
environments: { dev: {}, prod: {} }
targets: { aws: { lane: shared }, prod: {} }
stacks:
  - { name: a, module: m, environment: dev, target: aws }
  - { name: b, module: m, environment: prod, target: prod }
  - { name: c, module: m, environment: prod }
  - { name: d, module: m, environment: dev }
  - { name: e, module: m }
"""
    lanes = [stack.lane for stack in found(text).values()]
    assert lanes == ["shared", "prod", "env:prod", "env:dev", "default"]
