"""What `holdfast init` makes of Terragrunt units, with real files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.onboarding.config_file import verifiable_starter, write_verified
from holdfast.onboarding.scan import scan_repository
from holdfast.onboarding.starter import Starter
from holdfast.stacks.stack import Stack

ROOT = """
remote_state {
  backend  = "s3"
  generate = { path = "backend.tf", if_exists = "overwrite" }
  config = {
    bucket         = "acme-states"
    key            = "${path_relative_to_include()}/terraform.tfstate"
    region         = "eu-west-1"
    s3_bucket_tags = { owner = "platform" }
  }
}
"""
INCLUDE = 'include "root" {\n  path = find_in_parent_folders("root.hcl")\n}\n'
SOURCE = 'terraform {\n  source = "${get_repo_root()}/modules//app"\n}\n'
MODULE = """
variable "name" { type = string }
variable "untyped" { default = null }
variable "list" {
  type    = list(string)
  default = []
}
resource "terraform_data" "app" {
  input = [var.name, var.untyped, var.list]
}
output "id" { value = terraform_data.app.id }
"""
BASE = {"live/root.hcl": ROOT, "modules/app/main.tf": MODULE}


def started(root: Path, files: Mapping[str, str]) -> tuple[Starter, dict[str, Stack]]:
    """Look, write, and read back: what discovery finds is what was announced."""
    for path, text in {**BASE, **files}.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    made = verifiable_starter(scan_repository(root), root / "holdfast.yaml")
    return made, {stack.name: stack for stack in write_verified(made, root / "holdfast.yaml")}


def unit(root: Path, text: str, files: Mapping[str, str] | None = None) -> Stack:
    """The stack of one unit."""
    made, stacks = started(root, {"live/dev/app/terragrunt.hcl": INCLUDE + SOURCE + text, **(files or {})})
    assert made.held_back == (), made.steps
    return stacks["app"]


def test_the_backend_has_only_settings_that_terraform_knows(tmp_path: Path) -> None:
    """Its key is that of Terragrunt, so it is the same state."""
    backend = unit(tmp_path, "prevent_destroy = false\n").backend
    assert backend is not None
    assert backend.type == "s3"
    assert backend.settings == {
        "bucket": "acme-states", "key": "dev/app/terraform.tfstate", "region": "eu-west-1",
    }  # fmt: skip


def test_inputs_have_the_values_that_terraform_would_get(tmp_path: Path) -> None:
    """Undeclared inputs are ignored; untyped variables get text; a variables file wins."""
    stack = unit(
        tmp_path,
        'inputs = {\n  name = "a-{x}"\n  untyped = { b = 1, a = [true] }\n'
        '  list = ["${local.n}"]\n  more = 1\n}\n'
        'locals {\n  n = format("%s-%s", basename(get_terragrunt_dir()), local.env.x)\n'
        '  env = yamldecode(file(find_in_parent_folders("env.yaml")))\n}\n',
        {"live/env.yaml": "x: dev\n", "modules/app/terraform.tfvars": 'name = "file"\n'},
    )
    assert stack.variables == {"untyped": '{"a":[true],"b":1}', "list": ("app-dev",)}


def test_outputs_of_units_are_inputs_with_their_mocks(tmp_path: Path) -> None:
    made, stacks = started(
        tmp_path,
        {
            "live/dev/app/terragrunt.hcl": INCLUDE
            + SOURCE
            + 'dependency "net" {\n  config_path = "../net"\n  mock_outputs = { id = "mock" }\n}\n'
            + 'dependencies {\n  paths = ["../dns"]\n}\n'
            + "inputs = merge({ name = dependency.net.outputs.id }, {})\n",
            "live/dev/net/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "net" }\n',
            "live/dev/dns/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "dns" }\n',
        },
    )
    reference = stacks["app"].inputs["name"]
    assert (reference.text, reference.mock) == ("net.id", "mock")
    assert stacks["app"].depends_on == ("dns", "net")
    assert "bucket: acme-states" in made.text.partition("stacks:")[0], "common keys are defaults"


def test_the_folder_below_environments_names_the_environment(tmp_path: Path) -> None:
    """A unit called `integration` in production must not count as less than production."""
    paths = [f"live/environments/prod/{name}/terragrunt.hcl" for name in ("integration", "net")]
    text = INCLUDE + SOURCE + 'inputs = { name = "x" }\n'
    _, stacks = started(tmp_path, dict.fromkeys(paths, text))
    assert [stacks[name].environment for name in ("integration", "net")] == ["prod", "prod"]


def test_included_files_are_merged_as_terragrunt_does(tmp_path: Path) -> None:
    """The last include wins over the first, the unit over both; `deep` appends lists."""
    stack = unit(
        tmp_path,
        'include "a" {\n  path = "../../../common/a.hcl"\n  merge_strategy = "deep"\n}\n'
        'include "b" {\n  path = "../../../common/b.hcl"\n  expose = true\n}\n'
        'inputs = {\n  list = ["unit"]\n  untyped = include.b.locals.text\n}\n',
        {
            "common/a.hcl": 'inputs = {\n  list = ["a"]\n  name = "a"\n}\n',
            "common/b.hcl": 'locals {\n  text = "b"\n}\ninputs = {\n  name = "b"\n}\n',
        },
    )
    assert stack.variables == {"list": ("a", "unit"), "name": "b", "untyped": "b"}


def test_generated_files_are_generated(tmp_path: Path) -> None:
    """A generated backend becomes `backend`, and variables of a generated file can be set."""
    made, stacks = started(
        tmp_path,
        {
            "live/dev/app/terragrunt.hcl": SOURCE
            + 'generate "all" {\n  path = "all.tf"\n  if_exists = "overwrite"\n  contents = <<EOF\n'
            + 'terraform {\n  backend "gcs" {\n    bucket = "b"\n    prefix = "p"\n  }\n'
            + '  required_version = ">= 1.1"\n}\n'
            + 'variable "extra" {\n  default = "@{x}"\n}\nEOF\n}\n'
            + 'inputs = {\n  name = "a"\n  extra = "e"\n}\n',
        },
    )
    stack = stacks["app"]
    assert stack.backend is not None
    assert (stack.backend.type, stack.backend.settings) == ("gcs", {"bucket": "b", "prefix": "p"})
    generated = made.text.partition("all.tf:")[2]
    assert "backend" not in generated
    assert 'required_version = ">= 1.1"' in generated
    assert 'default = "@@{x}"' in generated
    assert stack.variables == {"name": "a", "extra": "e"}
    assert made.held_back == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('inputs = { name = run_cmd("whoami") }', '`inputs.name` depends on run_cmd("whoami").'),
        (
            'inputs = { name = yamldecode(sops_decrypt_file("s.yaml")).x }',
            '`inputs.name` depends on sops_decrypt_file("s.yaml"). Write its value as a secret reference.',
        ),
        ('inputs = { name = "${get_env("TEAM")}-x" }', "It reads TEAM from the environment."),
        ('inputs = { name = get_env("TEAM", "x") }', 'It uses the default of get_env("TEAM").'),
        ('iam_role = "arn:aws:iam::1:role/x"', "`iam_role`: set `credentials` to the role."),
        ('inputs = { name = "${get_terragrunt_dir()}/x" }', "`inputs.name` contains a path of this machine."),
        (
            'dependency "n" {\n  config_path = "../n"\n}\ninputs = { name = "x-${dependency.n.outputs.id}" }',
            "`inputs.name` is computed from an output.",
        ),
        (
            'inputs = { name = run_cmd("x"), list = [run_cmd("x")] }',
            '`inputs.name`, `inputs.list`: each depends on run_cmd("x"). Write its value.',
        ),
        (
            'terraform {\n  source = "git::https://example.com/m.git//app?ref=v1"\n}',
            "version to modules/app.",
        ),
        ('terraform {\n  source = "tfr:///acme/aks/azurerm?version=7.5.0"\n}', "version to modules/aks."),
        ('terraform {\n  source = "tfr://r.example/acme/vm/google//mig?version=1.0"\n}', "to modules/mig."),
        (
            'terraform {\n  before_hook "x" {\n    commands = ["plan"]\n    execute = ["make"]\n  }\n}',
            "before_hook",
        ),
        (
            'remote_state {\n  backend = "local"\n  config = { path = "x" }\n}',
            "Its state is in .terragrunt-cache",
        ),
        (
            'remote_state {\n  backend = "s3"\n  config = { bucket = get_env("B", "b"), key = "k" }\n}',
            'It uses the default of get_env("B").',
        ),
        (
            'remote_state {\n  backend = "s3"\n  config = { bucket = "b", secret_key = "k" }\n}',
            "secret reference",
        ),
        ('generate "x" {\n  path = "main.tf"\n  contents = "locals {}"\n}', "Terragrunt replaces main.tf"),
        ('include "other" {\n  path = "../gone.hcl"\n}', "An included file does not exist"),
        ('inputs = { untyped = [1], list = { output = "x" } }', "has a key `secret` or `output`"),
    ],
)
def test_what_only_terragrunt_knows_is_held_back(tmp_path: Path, text: str, why: str) -> None:
    """The entry is a comment with what to write, and the stack gets no other state."""
    made, stacks = started(tmp_path, {"live/dev/app/terragrunt.hcl": f"{INCLUDE}{SOURCE}{text}\n"})
    assert stacks == {}
    assert made.held_back == ("app",)
    assert made.translation is not None
    assert why in " ".join(made.translation.stacks[0].reasons)
    assert why in " ".join(made.text.replace("\n# ", " ").split())
    assert "#  - name: app" in made.text


def test_settings_that_init_gets_are_not_lost(tmp_path: Path) -> None:
    """`extra_arguments` of init can move the state away from where remote_state has it."""
    argument = 'commands = ["init"]\n    arguments = ["-backend-config=key=k"]'
    text = f'terraform {{\n  extra_arguments "x" {{\n    {argument}\n  }}\n}}\n'
    files = {"live/root.hcl": ROOT + text, "live/dev/app/terragrunt.hcl": INCLUDE + SOURCE}
    made, _ = started(tmp_path, files)
    assert made.held_back == ("app",)
    assert "passes -backend-config" in made.text


def test_a_workspace_that_a_script_selects_is_not_lost(tmp_path: Path) -> None:
    """Terragrunt passes TF_WORKSPACE on: in the default workspace the units would be created again."""
    files = {"live/dev/app/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "a" }\n'}
    made, _ = started(
        tmp_path, {**files, "Makefile": "plan:\n\tTF_WORKSPACE=dev terragrunt run --all plan\n"}
    )
    assert made.held_back == ("app",)
    assert "Makefile:2 selects a workspace" in made.text


def test_a_value_from_the_environment_is_written_once(tmp_path: Path) -> None:
    """The held-back entry refers to `values`, so that completing it is one line."""
    made, _ = started(
        tmp_path,
        {"live/dev/app/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "x-${get_env("TEAM")}" }\n'},
    )
    assert "x-{values.TEAM}" in made.text


def test_a_backend_from_the_environment_is_no_default(tmp_path: Path) -> None:
    """A default must be valid although every entry that needs the value is a comment."""
    root = ROOT.replace('"acme-states"', '"acme-${get_env("ACCOUNT")}"')
    units = {f"live/{name}/app/terragrunt.hcl": INCLUDE + SOURCE for name in ("dev", "prod")}
    made, stacks = started(tmp_path, {"live/root.hcl": root, **units})
    assert stacks == {}
    assert made.text.count("acme-{values.ACCOUNT}") == 2


def test_a_secret_is_not_written(tmp_path: Path) -> None:
    """Not by its name, nor if the variable is sensitive, nor in a generated file."""
    made, stacks = started(
        tmp_path,
        {
            "modules/app/extra.tf": 'variable "password" {}\nvariable "pin" {\n  sensitive = true\n}\n',
            "live/a/terragrunt.hcl": INCLUDE
            + SOURCE
            + 'generate "p" {\n  path = "p.tf"\n  contents = "locals { a = \\"ghp_'
            + 'a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8\\" }"\n}\n'
            + 'inputs = {\n  name = "x"\n  password = "hunter2"\n  pin = "1234"\n}\n',
        },
    )
    assert stacks == {}
    assert "A generated file contains a secret." in made.text
    assert "password: { secret: env:password }" in made.text.replace('"', "")
    assert not any(secret in made.text for secret in ("hunter2", "1234", "ghp_"))


def test_nothing_reads_the_output_of_a_held_back_stack(tmp_path: Path) -> None:
    dependency = 'dependency "a" {\n  config_path = "../a"\n}\ninputs = { name = dependency.a.outputs.id }\n'
    made, stacks = started(
        tmp_path,
        {
            "live/a/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = run_cmd("x") }\n',
            "live/b/terragrunt.hcl": INCLUDE + SOURCE + dependency,
            "live/c/terragrunt.hcl": INCLUDE + SOURCE + dependency.replace("../a", "../b"),
            "live/d/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "d" }\n',
        },
    )
    assert set(stacks) == {"d"}
    assert made.held_back == ("a", "b", "c")


def test_units_with_one_state_are_held_back(tmp_path: Path) -> None:
    same = 'remote_state {\n  backend = "s3"\n  config = { bucket = "b", key = "same" }\n}\n'
    made, stacks = started(
        tmp_path,
        {f"live/{name}/terragrunt.hcl": SOURCE + same + 'inputs = { name = "x" }\n' for name in "ab"},
    )
    assert stacks == {}
    assert made.held_back == ("a", "b")


def test_an_entry_that_holdfast_refuses_does_not_stop_the_others(tmp_path: Path) -> None:
    """A reserved environment variable, for example."""
    arguments = (
        'terraform {\n  extra_arguments "x" {\n    commands = ["plan"]\n'
        '    env_vars = { TF_DATA_DIR = "x" }\n  }\n}\n'
    )
    made, stacks = started(
        tmp_path,
        {
            "live/a/terragrunt.hcl": INCLUDE + SOURCE + arguments + 'inputs = { name = "a" }\n',
            "live/b/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "b" }\n',
        },
    )
    assert set(stacks) == {"b"}
    assert made.held_back == ("a",)
    assert made.translation is not None
    assert "TF_DATA_DIR" in made.translation.stacks[0].reasons[0]


def test_plain_root_modules_beside_units_are_stacks(tmp_path: Path) -> None:
    _, stacks = started(
        tmp_path,
        {
            "live/a/terragrunt.hcl": INCLUDE + SOURCE + 'inputs = { name = "a" }\n',
            "plain/main.tf": 'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n  }\n}\n',
        },
    )
    assert set(stacks) == {"a", "plain"}


def test_stack_files_generate_units_from_templates(tmp_path: Path) -> None:
    """A template is no unit itself; a unit that cannot be found is named."""
    made, stacks = started(
        tmp_path,
        {
            "live/dev/terragrunt.stack.hcl": 'unit "a" {\n  source = "../../units/app"\n  path = "a"\n'
            '  values = { name = "x" }\n}\n'
            'unit "b" {\n  source = "git::https://example.com/b"\n  path = "b"\n}\n'
            'unit "c" {\n  source = "../../units/app"\n  path = get_env("PATH_OF_C", "c")\n}\n',
            "units/app/terragrunt.hcl": 'include "root" {\n  path = find_in_parent_folders("root.hcl")\n}\n'
            + SOURCE
            + "inputs = { name = values.name }\n",
        },
    )
    assert set(stacks) == {"a"}
    assert stacks["a"].variables == {"name": "x"}
    backend = stacks["a"].backend
    assert backend is not None
    assert backend.settings["key"] == "dev/.terragrunt-stack/a/terraform.tfstate"
    assert any("terragrunt.stack.hcl:6, live/dev/terragrunt.stack.hcl:10" in guess for guess in made.guesses)


def test_a_template_of_unknown_units_is_no_unit(tmp_path: Path) -> None:
    """Its own folder is not where Terragrunt runs it: a stack there would create everything again."""
    made, stacks = started(
        tmp_path,
        {
            "live/dev/terragrunt.stack.hcl": 'unit "a" {\n  source = "../../units/app"\n'
            '  path = run_cmd("x")\n}\n',
            "units/app/terragrunt.hcl": SOURCE.replace("terraform {", f"{ROOT}terraform {{")
            + 'inputs = { name = "x" }\n',
        },
    )
    assert (stacks, made.held_back) == ({}, ())
    assert any("live/dev/terragrunt.stack.hcl:1" in guess for guess in made.guesses)


@pytest.mark.parametrize(
    ("call", "broken"),
    [
        ("yamldecode", "a: [1,\n  b: }\n"),
        ("yamldecode", "[" * 5000),
        ("jsondecode", "[" * 5000),
        ("base64decode", '"a'),
    ],
)
def test_a_file_that_cannot_be_decoded_is_unknown(tmp_path: Path, call: str, broken: str) -> None:
    text = f'inputs = {{\n  name = {call}(file("broken.txt")).name\n}}\n'
    files = {
        "live/dev/app/terragrunt.hcl": INCLUDE + SOURCE + text,
        "live/dev/app/broken.txt": broken,
        "live/dev/other/terragrunt.hcl": INCLUDE + SOURCE,
    }
    _, stacks = started(tmp_path, files)
    assert "other" in stacks
