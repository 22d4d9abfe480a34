"""Dependencies that follow from `terraform_remote_state`, and the outputs that are read through it."""

from __future__ import annotations

from typing import Any

import pytest
from checkouts import checkout
from hypothesis import given
from hypothesis import strategies as st

from holdfast.stacks.order import waves
from holdfast.stacks.reads.outputs import named_outputs, outputs_read
from holdfast.stacks.reads.remote_states import stack_backend
from holdfast.stacks.reads.walk import module_instances
from holdfast.stacks.stack import Stack

CONFIG = """
version: 1
stacks:
  - { name: app, module: app%s }
  - { name: net, module: net }
  - { name: other, module: other }
"""


def backend(key: str) -> str:
    return f'terraform {{\n  backend "s3" {{\n    bucket = "b"\n    key = "{key}"\n  }}\n}}\n'


def remote(config: str, more: str = "", kind: str = '"s3"', name: str = "net") -> str:
    return (
        f'data "terraform_remote_state" "{name}" {{\n  backend = {kind}\n  config = {config}\n  {more}\n}}\n'
    )


RIGHT = remote('{ bucket = "b", key = "net", region = "eu-west-1" }')
FILES = {"net/main.tf": backend("net"), "app/main.tf": backend("app"), "other/main.tf": backend("other")}


def read(code: str, entry: str = "", **files: str) -> tuple[Stack, Any]:
    made = checkout({**FILES, "app/read.tf": code, **files}, config=CONFIG % entry)
    (app,) = (stack for stack in made.all_stacks if stack.name == "app")
    return app, made.code


def test_a_read_of_another_stacks_state_is_a_dependency() -> None:
    """With what it follows from; explicit dependencies stay."""
    app, _ = read(RIGHT)
    assert app.depends_on == ("net",)
    assert [(one.stack, one.source, str(one.place)) for one in app.derived] == [
        ("net", "data.terraform_remote_state.net", "app/read.tf:1:1")
    ]
    assert read(RIGHT, ", depends_on: [other]")[0].depends_on == ("net", "other")


@pytest.mark.parametrize(
    "code",
    [
        'variable "key" {\n  default = "net"\n}\n' + remote('{ bucket = "b", key = var.key }'),
        remote('{ bucket = "b", key = each.key }', 'for_each = toset(["net", "dns"])'),
        remote('{ bucket = "b", key = "net", endpoint = "http://localhost" }'),
        f'check "c" {{\n{RIGHT}\n}}\n',
    ],
)
def test_values_of_the_stack_are_followed(code: str) -> None:
    assert read(code)[0].depends_on == ("net",)


def test_local_modules_are_followed() -> None:
    call = 'module "m" {\n  source = "../m"\n  key = "net"\n}\n'
    inner = 'variable "key" {}\n' + remote('{ bucket = "b", key = var.key }')
    assert read(call, **{"m/main.tf": inner})[0].depends_on == ("net",)
    assert read(call.replace("key =", "count = 0\n  key ="), **{"m/main.tf": inner})[0].depends_on == ()


@pytest.mark.parametrize(
    "code",
    [
        remote('{ bucket = "b", key = "dns" }'),
        remote('{ bucket = "b", key = "app" }'),
        remote('{ bucket = "b", key = "net" }', 'workspace = "blue"'),
        remote('{ bucket = "b", key = "net" }', "count = 0"),
        remote('{ bucket = "b", key = aws_s3_object.a.key }'),
        remote("var.unknown"),
        remote('{ bucket = "b", key = "net" }', kind="var.unknown"),
        'data "terraform_remote_state" "net" {}\n',
        'data "terraform_remote_state" {}\n',
        "data terraform_remote_state {{{",
        "# terraform_remote_state\n",
    ],
)
def test_another_or_an_unknown_state_is_no_dependency(code: str) -> None:
    """Its own state is none either; and no content stops the discovery."""
    assert read(code)[0].depends_on == ()


@pytest.mark.parametrize("path", ["../net/terraform.tfstate", "/repository/net/terraform.tfstate"])
def test_local_states_are_compared_by_their_path(path: str) -> None:
    """As seen from the module of the stack that reads."""
    code = remote(f'{{ path = "{path}" }}', kind='"local"')
    app, _ = read(code, **{"net/main.tf": 'terraform {\n  backend "local" {}\n}\n'})
    assert app.depends_on == ("net",)


def test_workspaces_of_a_cloud_are_compared_by_their_name() -> None:
    cloud = 'terraform {\n  cloud {\n    organization = "o"\n    workspaces {\n      %s\n    }\n  }\n}\n'
    code = remote('{ organization = "o", workspaces = { name = "net" } }', kind='"remote"')
    assert read(code, **{"net/main.tf": cloud % 'name = "net"'})[0].depends_on == ("net",)
    assert read(code, **{"net/main.tf": cloud % 'tags = ["net"]'})[0].depends_on == ()


def test_stacks_that_read_each_others_state_have_no_order() -> None:
    """Such repositories exist and work; neither read is lost for what asks who reads an output."""
    back = remote('{ bucket = "b", key = "app" }', name="app")
    app, code = read(RIGHT, **{"net/read.tf": back})
    assert app.depends_on == ()
    assert [derived.stack for derived in app.derived] == ["net"]
    assert set(named_outputs(code, app)) == {"net"}


def test_a_read_against_depends_on_does_not_count() -> None:
    """What the user declares wins: `net` is applied first, as the `depends_on` of `app` asks."""
    back = remote('{ bucket = "b", key = "app" }', name="app")
    app, _ = read(RIGHT, ", depends_on: [net]", **{"net/read.tf": back})
    assert app.depends_on == ("net",)


STATE = "data.terraform_remote_state.net"


@pytest.mark.parametrize(
    ("use", "outputs"),
    [
        (f"{STATE}.outputs.vpc_id", {"vpc_id"}),
        (f'{STATE}.outputs["vpc_id"]', {"vpc_id"}),
        (f'"x-${{{STATE}.outputs.vpc_id}}-${{{STATE}.outputs.cidr[0].a}}"', {"vpc_id", "cidr"}),
        (f'{STATE}["a"].outputs.vpc_id', {"vpc_id"}),
        (f"[for x in {STATE}.outputs.subnets : x.id]", {"subnets"}),
        (f"{STATE}.outputs[var.name]", None),
        (f"{STATE}.outputs", None),
        (f"{STATE}[*].outputs.vpc_id", None),
        (f"lookup({STATE}.outputs, var.x)", None),
        ('"nothing"', set()),
    ],
)
def test_the_outputs_that_are_read_are_known_or_all(use: str, outputs: set[str] | None) -> None:
    """Never fewer than the code reads."""
    app, code = read(f"{RIGHT}\nlocals {{\n  x = {use}\n}}\n")
    assert outputs_read(code, app) == {"net": None if outputs is None else frozenset(outputs)}


def test_what_the_code_does_not_say_is_everything() -> None:
    """A plain `depends_on`, and a file that cannot be read."""
    app, code = read("", ", depends_on: [net]")
    assert outputs_read(code, app) == {"net": None}
    app, code = read(RIGHT, **{"app/broken.tf": 'locals {\n  a = "\n'})
    assert outputs_read(code, app) == {"net": None}


@given(st.lists(st.sets(st.integers(0, 7), max_size=4), min_size=1, max_size=8))
def test_no_read_is_lost_and_the_order_respects_all(reads: list[set[int]]) -> None:
    """For any acyclic reads: each is a dependency, and its stack is in an earlier wave."""
    files, entries = {}, []
    for number, others in enumerate(reads):
        code = "".join(
            remote(f'{{ bucket = "b", key = "s{other}" }}', name=f"r{other}")
            for other in sorted(others)
            if other < number
        )
        files[f"s{number}/main.tf"] = backend(f"s{number}") + code
        entries.append(f"  - {{ name: s{number}, module: s{number} }}\n")
    stacks = checkout(files, config="version: 1\nstacks:\n" + "".join(entries)).all_stacks
    wave_of = {stack.name: index for index, wave in enumerate(waves(stacks)) for stack in wave}
    for number, others in enumerate(reads):
        (stack,) = (one for one in stacks if one.name == f"s{number}")
        assert set(stack.depends_on) == {f"s{other}" for other in others if other < number}
        assert all(wave_of[other] < wave_of[stack.name] for other in stack.depends_on)


@pytest.mark.parametrize(
    ("key", "variables", "from_caller", "expected"),
    [
        ('"x"', "", frozenset(), "x"),
        ('"${var.env}/x"', ", variables: { env: dev }", frozenset(), "dev/x"),
        ('"${local.place}/x"', ", variables: { env: dev }", frozenset(), "in-dev/x"),
        ('"${var.region}/x"', "", frozenset(), "eu/x"),
        # What the caller's environment may set, a secret and a function without a known result are unknown.
        ('"${var.region}/x"', "", frozenset({"region"}), None),
        ('"${var.env}/x"', ", variables: { env: { secret: 'env:E' } }", frozenset(), None),
        ('"${timestamp()}/x"', "", frozenset(), None),
        ('"${var.env}/x"', "", frozenset(), None),
    ],
)
def test_settings_that_opentofu_computes(
    key: str, variables: str, from_caller: frozenset[str], expected: str | None
) -> None:
    """Known as far as the stack's variables are; never guessed."""
    code = (
        f'terraform {{\n  backend "s3" {{\n    bucket = "b"\n    key = {key}\n  }}\n}}\n'
        'variable "env" {}\nvariable "region" {\n  default = "eu"\n}\n'
        'locals {\n  place = "in-${var.env}"\n}\n'
    )
    made = checkout({**FILES, "app/main.tf": code}, config=CONFIG % variables)
    (app,) = (stack for stack in made.all_stacks if stack.name == "app")
    found = stack_backend(made.code, app, from_caller)
    assert found is not None
    assert found.settings.get("key") == expected
    assert found.computed == (() if expected else ("key",))


def test_a_file_that_opentofu_does_not_read_decides_nothing() -> None:
    """`z.tofu` replaces `z.tf`: its backend, locals, variables and calls do not count, whatever the order."""
    real = (
        'terraform {\n  backend "s3" {\n    key = "${local.place}/${var.env}"\n  }\n}\n'
        'variable "env" {\n  default = "dev"\n}\nlocals {\n  place = "real"\n}\n'
        'module "m" {\n  source = "../net"\n}\n'
    )
    fake = real.replace("real", "fake").replace("dev", "prod").replace("key", "bucket")
    fake = fake.replace('/net"', '/net"\n  count = 0')
    for shadow in ("a", "z", "z_override"):
        files = {
            f"app/{shadow}.tf": fake.replace("key", "bucket"),
            f"app/{shadow}.tofu": "",
            "app/m.tf": real,
        }
        made = checkout({**FILES, **files, "app/main.tf": ""}, config=CONFIG % "")
        (app,) = (stack for stack in made.all_stacks if stack.name == "app")
        found = stack_backend(made.code, app)
        assert found is not None
        assert (found.settings, found.computed) == ({"key": "real/dev"}, ())
        assert not all(instance.dormant for instance in list(module_instances(made.code, app))[1:])


def test_a_module_for_both_products_is_followed_for_both() -> None:
    """Terraform reads `main.tf` of a called module, OpenTofu its `main.tofu`."""
    made = checkout(
        {
            **FILES,
            "app/main.tf": 'module "m" {\n  source = "../lib"\n}\n',
            "lib/main.tf": 'module "x" {\n  source = "./old"\n}\n',
            "lib/main.tofu": 'module "x" {\n  source = "./new"\n}\n',
            "lib/same.tf": 'module "y" {\n  source = "./same"\n}\n',
        },
        config=CONFIG % "",
    )
    (app,) = (stack for stack in made.all_stacks if stack.name == "app")
    folders = [instance.folder for instance in module_instances(made.code, app)]
    assert sorted(folders) == ["app", "lib", "lib/new", "lib/old", "lib/same"]
