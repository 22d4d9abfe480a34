"""HF101 to HF128 in every way: what belongs to GitOps, and backends."""

from __future__ import annotations

from collections.abc import Mapping

from rule_cases import (
    Case,
    Cases,
    change,
    passing,
    reported,
    skipped,
    state_resource,
    with_plan,
    with_state,
    with_state_file,
)

NONE = ""
"""No stack: code is looked at all the same."""
S3 = 'bucket = "acme-prod-tfstate-eu-west-1"\n    key = "a/terraform.tfstate"'
BROKEN = with_state_file(b"{")


def backend(settings: str, type_: str = "s3") -> str:
    return f'terraform {{\n  backend "{type_}" {{\n    {settings}\n  }}\n}}\n'


def orphans(code: str) -> Case:
    """The same in code that no stack uses."""
    return reported(code, NONE)


TWO = """\
version: 1
environments: {{ dev: {{}} }}
stacks:
  - {{ name: app, module: app, environment: prod }}
  - {{ name: net, module: net, environment: {net} }}
"""


def reading(read: str, net: str = 'bucket = "b"\n    key = "net"') -> dict[str, str | bytes]:
    return {
        "net/main.tf": backend(net),
        "app/main.tf": backend('bucket = "b"\n    key = "app"'),
        "app/read.tf": f'data "terraform_remote_state" "net" {{\n  {read}\n}}\n',
    }


READ = 'backend = "s3"\n  config = { bucket = "b", key = "net" }'
UNTOLD = 'backend = "s3"\n  config = { bucket = "b", key = aws_s3_object.a.key }'
APART = {"app/main.tf": backend('bucket = "a"\n    key = "k"'), "net/main.tf": backend(S3)}
MIXED = {
    "app/main.tf": backend('bucket = "b"\n    key = "k"'),
    "net/main.tf": backend('bucket = "b"\n    key = "l"'),
}
LONE = "version: 1\nstacks: [{ name: net, module: net }]\n"
SAME = {
    "net/main.tf": backend('bucket = "b"\n    key = "k"'),
    "copy/main.tf": backend('bucket = "b"\n    key = "k"'),
}
SHARED = (
    "version: 1\nstore: s3://acme-runs/holdfast\nstacks:\n  - { name: root, module: ., environment: prod }\n"
)


def set_up(provider: str) -> dict[str, object]:
    """A module from elsewhere sets a provider up."""
    full = f"registry.terraform.io/hashicorp/{provider}"
    one = {"name": provider, "full_name": full, "module_address": "module.eks", "expressions": {}}
    return {"configuration": {"provider_config": {f"module.eks:{provider}": one}}}


CASES_BY_RULE: Mapping[str, Cases] = {
    "HF101": Cases(
        passes=(
            passing("locals {}\n", make_inputs=with_plan({"resource_changes": [change("aws_vpc.a")]})),
            passing("locals {}\n", make_inputs=with_state(state_resource("aws_vpc.a"))),
        ),
        fails=(
            reported("locals {}\n", make_inputs=with_plan({"resource_changes": [change("helm_release.a")]})),
            reported("locals {}\n", make_inputs=with_state(state_resource("helm_release.a"))),
        ),
        missing=(
            passing("resource {}\n"),
            passing("locals {}\n", make_inputs=with_plan({})),
            passing("locals {}\n", make_inputs=with_state()),
        ),
        unknown=(
            reported('resource "helm_release" "a" {\n  count = var.n\n}\n'),
            skipped("locals {}\n", make_inputs=BROKEN),
        ),
    ),
    "HF102": Cases(
        passes=(
            passing("locals {}\n", make_inputs=with_plan({"resource_changes": [change("data.aws_lb.a")]})),
            passing("locals {}\n", make_inputs=with_state(state_resource("helm_release.a"))),
        ),
        fails=(
            reported(
                "locals {}\n",
                make_inputs=with_plan({"resource_changes": [change("data.kubernetes_service.a")]}),
            ),
            reported("locals {}\n", make_inputs=with_state(state_resource("data.kubernetes_service.a"))),
        ),
        missing=(passing("data {}\n"), passing("locals {}\n", make_inputs=with_state())),
        unknown=(
            reported('data "kubernetes_service" "a" {\n  count = var.n\n}\n'),
            skipped("locals {}\n", make_inputs=BROKEN),
        ),
    ),
    "HF103": Cases(
        passes=(passing("locals {}\n", make_inputs=with_plan(set_up("aws"))),),
        fails=(reported("locals {}\n", make_inputs=with_plan(set_up("kubernetes"))),),
        missing=(
            passing("provider {}\n"),
            passing("terraform {\n  required_providers {}\n}\n"),
            passing("locals {}\n", make_inputs=with_plan({"configuration": {}})),
        ),
        unknown=(
            reported("terraform {\n  required_providers {\n    helm = local.x\n  }\n}\n"),
            passing("terraform {\n  required_providers {\n    aws = local.x\n  }\n}\n"),
        ),
    ),
    "HF111": Cases(
        passes=(passing("locals {}\n", SHARED),),
        fails=(reported("locals {}\n"),),
        missing=(passing("locals {}\n", NONE),),
        unknown=(reported("locals {}\n", "version: 1\nstacks: [{ name: root, module: . }]\n"),),
    ),
    "HF112": Cases(
        missing=(passing("terraform {}\n"),),
        unknown=(reported(backend("path = var.p", "local")),),
    ),
    "HF113": Cases(
        passes=(passing(backend(S3), NONE),),
        fails=(orphans(backend("", "swift")),),
        missing=(passing("terraform {}\n"), reported("terraform {\n  backend {}\n}\n")),
        unknown=(reported(backend("path = var.p", "swift")),),
    ),
    "HF114": Cases(
        passes=(passing(backend(f"{S3}\n    use_lockfile = true"), NONE),),
        fails=(orphans(backend(S3)),),
        missing=(reported(backend(S3)), skipped(backend(""), NONE)),
        unknown=(skipped(backend(f"{S3}\n    use_lockfile = var.l")),),
    ),
    "HF115": Cases(
        passes=(passing(backend(S3), NONE),),
        fails=(orphans(backend(f'{S3}\n    dynamodb_table = "t"')),),
        missing=(passing(backend(S3)),),
        unknown=(reported(backend(f"{S3}\n    dynamodb_table = var.t")),),
    ),
    "HF116": Cases(
        passes=(passing(backend(f"{S3}\n    encrypt = true"), NONE),),
        fails=(orphans(backend(S3)),),
        missing=(reported(backend(S3)), skipped(backend(""), NONE)),
        unknown=(skipped(backend(f"{S3}\n    encrypt = var.e")), skipped(backend("", "pg"))),
    ),
    "HF117": Cases(
        passes=(passing(backend(f'{S3}\n    encrypt = true\n    kms_key_id = "k"'), NONE),),
        fails=(orphans(backend(f'{S3}\n    kms_key_id = "k"')),),
        missing=(passing(backend(S3)),),
        unknown=(skipped(backend(f'{S3}\n    kms_key_id = "k"\n    encrypt = var.e')),),
    ),
    "HF118": Cases(
        passes=(passing(backend(f'{S3}\n    encrypt = true\n    kms_key_id = "k"'), NONE),),
        fails=(orphans(backend(f"{S3}\n    encrypt = true")),),
        missing=(passing(backend(S3)),),
        unknown=(passing(backend(f"{S3}\n    encrypt = true\n    kms_key_id = var.k")),),
    ),
    "HF119": Cases(
        passes=(passing(backend(S3), NONE),),
        fails=(orphans(backend(f"{S3}\n    insecure = true")),),
        missing=(passing(backend(S3)),),
        unknown=(skipped(backend(f"{S3}\n    insecure = var.i")),),
    ),
    "HF120": Cases(
        passes=(passing(backend(S3), NONE),),
        fails=(orphans(backend(f'{S3}\n    secret_key = "correct-horse"')),),
        missing=(passing(backend("")),),
        unknown=(passing(backend(f"{S3}\n    secret_key = var.s")),),
    ),
    "HF121": Cases(
        passes=(passing(backend(S3), NONE),),
        fails=(orphans(backend(f'{S3}\n    profile = "p"')),),
        missing=(passing(backend("")),),
        unknown=(passing(backend(f"{S3}\n    profile = var.p")),),
    ),
    "HF122": Cases(
        passes=(passing(backend(""), NONE),),
        fails=(orphans(backend(S3)),),
        missing=(passing(backend("")),),
        unknown=(passing(backend("bucket = var.b\n    key = var.k")),),
    ),
    "HF123": Cases(
        missing=(passing(backend("")),),
        unknown=(skipped(backend("bucket = var.b")),),
    ),
    "HF124": Cases(
        passes=(passing({**SAME, "copy/main.tf": backend(S3)}, LONE),),
        fails=(reported(SAME, LONE),),
        missing=(passing({**SAME, "copy/main.tf": backend("")}, LONE),),
        unknown=(skipped({**SAME, "copy/main.tf": backend('bucket = "b"\n    key = var.k')}, LONE),),
    ),
    "HF125": Cases(
        passes=(passing(APART, TWO.format(net="dev")),),
        fails=(reported(MIXED, TWO.format(net="dev")),),
        missing=(passing({**MIXED, "net/main.tf": backend("")}, TWO.format(net="dev")),),
        unknown=(
            skipped(
                {**MIXED, "net/main.tf": backend('bucket = var.b\n    key = "l"')}, TWO.format(net="dev")
            ),
        ),
    ),
    "HF126": Cases(
        passes=(passing(reading(READ), TWO.format(net="prod")),),
        fails=(reported(reading(READ.replace("net", "app")), TWO.format(net="prod")),),
        missing=(skipped(reading('backend = "s3"'), TWO.format(net="prod")),),
        unknown=(skipped(reading(UNTOLD), TWO.format(net="prod")),),
    ),
    "HF127": Cases(
        passes=(passing(reading(READ), TWO.format(net="prod")),),
        fails=(reported(reading(READ), TWO.format(net="dev")),),
        missing=(skipped(reading('backend = "s3"'), TWO.format(net="dev")),),
        unknown=(skipped(reading(UNTOLD), TWO.format(net="dev")),),
    ),
    "HF128": Cases(
        passes=(
            passing({"main.tf": backend(""), "main_override.tf": backend("", "gcs")}),
            passing({"main.tf": backend(""), "main.tofu": backend("", "gcs")}),
        ),
        fails=(
            reported({"main.tf": backend(""), "backend.tf": backend("")}),
            orphans(backend("") + "terraform {\n  cloud {}\n}\n"),
        ),
        missing=(passing("terraform {}\n"), passing("terraform {\n  backend {}\n}\n")),
        unknown=(reported(backend("bucket = var.b") + backend("bucket = var.b")),),
    ),
}
