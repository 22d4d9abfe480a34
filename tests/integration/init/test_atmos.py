"""What `holdfast init` makes of Atmos stacks, with real files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.onboarding.config_file import verifiable_starter, write_verified
from holdfast.onboarding.scan import scan_repository
from holdfast.onboarding.starter import Starter
from holdfast.stacks.stack import Stack

CONFIG = """
components: { terraform: { base_path: components/terraform, auto_generate_backend_file: true } }
stacks: { base_path: stacks, included_paths: ["*"], name_template: "{{ .vars.tenant }}-{{ .vars.stage }}" }
templates: { settings: { enabled: true } }
"""
CODE = (
    'variable "name" {\n  default = ""\n}\nresource "terraform_data" "x" {}\noutput "id" {\n  value = 1\n}\n'
)
STACK = "vars: { tenant: core, stage: dev }\n"


def started(root: Path, files: Mapping[str, str]) -> tuple[Starter, dict[str, Stack]]:
    """Look, write, and read back: what discovery finds is what was announced."""
    for path, text in {
        "atmos.yaml": CONFIG, "components/terraform/net/vpc/main.tf": CODE, **files,
    }.items():  # fmt: skip
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    made = verifiable_starter(scan_repository(root), root / "holdfast.yaml")
    return made, {stack.name: stack for stack in write_verified(made, root / "holdfast.yaml")}


def component(settings: str = "{}", name: str = "net/vpc") -> str:
    return f"components: {{ terraform: {{ {name}: {settings} }} }}\n"


@pytest.mark.parametrize(
    ("backend", "settings"),
    [
        ("s3: { bucket: b, key: t }", {"bucket": "b", "key": "t", "workspace_key_prefix": "net-vpc"}),
        (
            "s3: { bucket: b, key: t, workspace_key_prefix: own }",
            {"bucket": "b", "key": "t", "workspace_key_prefix": "own"},
        ),
        ("gcs: { bucket: b }", {"bucket": "b", "prefix": "net-vpc"}),
        (
            "azurerm: { storage_account_name: a, container_name: c, key: t }",
            {"storage_account_name": "a", "container_name": "c", "key": "t/net-vpc.terraform.tfstate"},
        ),
    ],
)
def test_states_are_named_as_atmos_names_them(
    tmp_path: Path, backend: str, settings: Mapping[str, object]
) -> None:
    type_ = backend.partition(":")[0]
    common = f"terraform: {{ backend_type: {type_}, backend: {{ {backend} }} }}\n"
    made, stacks = started(tmp_path, {"stacks/a.yaml": STACK + common + component()})
    assert made.held_back == ()
    stack = stacks["core-dev/net/vpc"]
    assert stack.backend is not None
    assert (stack.backend.type, stack.backend.settings) == (type_, settings)
    assert (stack.workspace, stack.module) == ("core-dev", "components/terraform/net/vpc")


S3 = "terraform: { backend_type: s3, backend: { s3: { bucket: b, key: t } } }\n"


@pytest.mark.parametrize(
    ("metadata", "workspace"),
    [
        ("{ component: net/vpc }", "core-dev-blue"),
        ("{ component: net/vpc, terraform_workspace: own }", "own"),
        ("{ component: net/vpc, terraform_workspace_pattern: '{tenant}-{component}' }", "core-blue"),
        (
            "{ component: net/vpc, terraform_workspace_template: '{{ .atmos_stack }}/{{ .vars.stage }}' }",
            "core-dev-dev",
        ),
    ],
)
def test_workspaces_are_named_as_atmos_names_them(tmp_path: Path, metadata: str, workspace: str) -> None:
    text = STACK + S3 + component(f"{{ metadata: {metadata} }}", "blue")
    stack = started(tmp_path, {"stacks/a.yaml": text})[1]["core-dev/blue"]
    assert stack.workspace == workspace
    assert stack.backend is not None
    assert stack.backend.settings["workspace_key_prefix"] == "net-vpc"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (component("{ vars: { name: '{{ now }}' } }"), "`vars.name` is a template."),
        (component("{ vars: { name: !exec 'whoami' } }"), "`vars.name` depends on !exec."),
        (component("{ vars: { name: !env TEAM } }"), "It reads TEAM from the environment."),
        (component("{ vars: { name: !env TEAM x } }"), "It uses the default of !env TEAM."),
        (component("{ providers: { aws: { region: x } } }"), "`providers` is not translated."),
        (
            component("{ vars: { name: !terraform.output gone id } }"),
            "`vars.name` is computed from an output.",
        ),
        (component("{ metadata: { inherits: [other] } }"), "depends on the version of Atmos"),
        (component("{ hooks: { x: { events: [after-terraform-apply] } } }"), "`hooks` is not translated."),
        (component("{}", "gone"), "components/terraform/gone has no code."),
        (component("{ backend: { s3: { secret_key: k } } }"), "The backend contains secret_key."),
        (component("{ backend_type: cloud }"), "Holdfast cannot generate the backend `cloud`."),
        (component("{ settings: { depends_on: { 1: { component: gone } } } }"), "It depends on gone"),
        ("import: [gone]\n" + component(), "stacks/a.yaml imports gone, which does not exist."),
        ("import: [{ path: a, context: { x: 1 } }]\n" + component(), "with a context"),
        ("x: [\n" + component(), "not valid YAML"),
    ],
)
def test_what_only_atmos_knows_is_held_back(tmp_path: Path, text: str, why: str) -> None:
    """The entry is a comment with what to write, and the stack gets no other state."""
    files = {"stacks/a.yaml": STACK + S3 + text}
    if "YAML" in why:
        files = {"stacks/a.yaml": "import: [c/b]\n" + STACK + S3 + component(), "stacks/c/b.yaml": text}
    made, stacks = started(tmp_path, files)
    assert stacks == {}
    assert made.translation is not None
    assert why in " ".join(made.translation.stacks[0].reasons)


def test_a_local_state_that_is_not_here_holds_the_stack_back(tmp_path: Path) -> None:
    """An empty state would create everything again."""
    files = {
        "atmos.yaml": CONFIG.replace("file: true", "file: false"),
        "stacks/a.yaml": STACK + component(),
    }
    made, stacks = started(tmp_path, files)
    assert (stacks, made.held_back) == ({}, ("core-dev/net/vpc",))
    state = "components/terraform/net/vpc/terraform.tfstate.d/core-dev/terraform.tfstate"
    made, stacks = started(tmp_path, {**files, state: "{}"})
    assert made.held_back == ()
    assert stacks["core-dev/net/vpc"].backend is not None


@pytest.mark.parametrize("type_", ["s3", ""])
def test_an_incomplete_backend_in_the_code_holds_the_stack_back(tmp_path: Path, type_: str) -> None:
    """Atmos also leaves files with a backend without a type."""
    code = {
        "components/terraform/net/vpc/backend.tf.json": f'{{"terraform": {{"backend": {{"{type_}": {{}}}}}}}}'
    }
    made, stacks = started(tmp_path, {**code, "stacks/a.yaml": STACK + component()})
    assert (stacks, made.held_back) == ({}, ("core-dev/net/vpc",))


def test_components_that_no_stack_uses_are_no_stacks(tmp_path: Path) -> None:
    """Their state, if there is one, belongs to Atmos."""
    made, stacks = started(tmp_path, {"stacks/a.yaml": STACK + component("{ metadata: { type: abstract } }")})
    assert (stacks, made.held_back) == ({}, ())
