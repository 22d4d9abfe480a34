"""HF101 to HF128 in every way: what belongs to GitOps, and backends."""

from __future__ import annotations

from collections.abc import Mapping

from five_ways import Way, Ways, change, found, held, kept, planned, quiet, skipped, state

NONE = ""
"""No stack: code is looked at all the same."""
S3 = 'bucket = "acme-prod-tfstate-eu-west-1"\n    key = "a/terraform.tfstate"'
BROKEN = state(b"{")


def backend(settings: str, type_: str = "s3") -> str:
    return f'terraform {{\n  backend "{type_}" {{\n    {settings}\n  }}\n}}\n'


def orphans(code: str) -> Way:
    """The same in code that no stack uses."""
    return found(code, NONE)


TWO = """\
version: 1
environments: {{ dev: {{}} }}
stacks:
  - {{ name: app, module: app, environment: prod }}
  - {{ name: net, module: net, environment: {net} }}
"""
DECLARED = """\
version: 1
environments: { dev: {} }
stacks:
  - { name: app, module: app, environment: prod, depends_on: [net] }
  - { name: net, module: net, environment: prod }
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


WAYS: Mapping[str, Ways] = {
    "HF101": Ways(
        passes=(
            quiet("locals {}\n", hand=planned({"resource_changes": [change("aws_vpc.a")]})),
            quiet("locals {}\n", hand=kept(held("aws_vpc.a"))),
        ),
        fails=(
            found("locals {}\n", hand=planned({"resource_changes": [change("helm_release.a")]})),
            found("locals {}\n", hand=kept(held("helm_release.a"))),
        ),
        missing=(
            quiet("resource {}\n"),
            quiet("locals {}\n", hand=planned({})),
            quiet("locals {}\n", hand=kept()),
        ),
        unknown=(
            found('resource "helm_release" "a" {\n  count = var.n\n}\n'),
            skipped("locals {}\n", hand=BROKEN),
        ),
    ),
    "HF102": Ways(
        passes=(
            quiet("locals {}\n", hand=planned({"resource_changes": [change("data.aws_lb.a")]})),
            quiet("locals {}\n", hand=kept(held("helm_release.a"))),
        ),
        fails=(
            found("locals {}\n", hand=planned({"resource_changes": [change("data.kubernetes_service.a")]})),
            found("locals {}\n", hand=kept(held("data.kubernetes_service.a"))),
        ),
        missing=(quiet("data {}\n"), quiet("locals {}\n", hand=kept())),
        unknown=(
            found('data "kubernetes_service" "a" {\n  count = var.n\n}\n'),
            skipped("locals {}\n", hand=BROKEN),
        ),
    ),
    "HF103": Ways(
        passes=(quiet("locals {}\n", hand=planned(set_up("aws"))),),
        fails=(found("locals {}\n", hand=planned(set_up("kubernetes"))),),
        missing=(
            quiet("provider {}\n"),
            quiet("terraform {\n  required_providers {}\n}\n"),
            quiet("locals {}\n", hand=planned({"configuration": {}})),
        ),
        unknown=(
            found("terraform {\n  required_providers {\n    helm = local.x\n  }\n}\n"),
            quiet("terraform {\n  required_providers {\n    aws = local.x\n  }\n}\n"),
        ),
    ),
    "HF111": Ways(
        passes=(quiet("locals {}\n", SHARED),),
        fails=(found("locals {}\n"),),
        missing=(quiet("locals {}\n", NONE),),
        unknown=(found("locals {}\n", "version: 1\nstacks: [{ name: root, module: . }]\n"),),
    ),
    "HF112": Ways(
        missing=(quiet("terraform {}\n"),),
        unknown=(found(backend("path = var.p", "local")),),
    ),
    "HF113": Ways(
        passes=(quiet(backend(S3), NONE),),
        fails=(orphans(backend("", "swift")),),
        missing=(quiet("terraform {}\n"), found("terraform {\n  backend {}\n}\n")),
        unknown=(found(backend("path = var.p", "swift")),),
    ),
    "HF114": Ways(
        passes=(quiet(backend(f"{S3}\n    use_lockfile = true"), NONE),),
        fails=(orphans(backend(S3)),),
        missing=(found(backend(S3)), skipped(backend(""), NONE)),
        unknown=(skipped(backend(f"{S3}\n    use_lockfile = var.l")),),
    ),
    "HF115": Ways(
        passes=(quiet(backend(S3), NONE),),
        fails=(orphans(backend(f'{S3}\n    dynamodb_table = "t"')),),
        missing=(quiet(backend(S3)),),
        unknown=(found(backend(f"{S3}\n    dynamodb_table = var.t")),),
    ),
    "HF116": Ways(
        passes=(quiet(backend(f"{S3}\n    encrypt = true"), NONE),),
        fails=(orphans(backend(S3)),),
        missing=(found(backend(S3)), skipped(backend(""), NONE)),
        unknown=(skipped(backend(f"{S3}\n    encrypt = var.e")), skipped(backend("", "pg"))),
    ),
    "HF117": Ways(
        passes=(quiet(backend(f'{S3}\n    encrypt = true\n    kms_key_id = "k"'), NONE),),
        fails=(orphans(backend(f'{S3}\n    kms_key_id = "k"')),),
        missing=(quiet(backend(S3)),),
        unknown=(skipped(backend(f'{S3}\n    kms_key_id = "k"\n    encrypt = var.e')),),
    ),
    "HF118": Ways(
        passes=(quiet(backend(f'{S3}\n    encrypt = true\n    kms_key_id = "k"'), NONE),),
        fails=(orphans(backend(f"{S3}\n    encrypt = true")),),
        missing=(quiet(backend(S3)),),
        unknown=(quiet(backend(f"{S3}\n    encrypt = true\n    kms_key_id = var.k")),),
    ),
    "HF119": Ways(
        passes=(quiet(backend(S3), NONE),),
        fails=(orphans(backend(f"{S3}\n    insecure = true")),),
        missing=(quiet(backend(S3)),),
        unknown=(skipped(backend(f"{S3}\n    insecure = var.i")),),
    ),
    "HF120": Ways(
        passes=(quiet(backend(S3), NONE),),
        fails=(orphans(backend(f'{S3}\n    secret_key = "correct-horse"')),),
        missing=(quiet(backend("")),),
        unknown=(quiet(backend(f"{S3}\n    secret_key = var.s")),),
    ),
    "HF121": Ways(
        passes=(quiet(backend(S3), NONE),),
        fails=(orphans(backend(f'{S3}\n    profile = "p"')),),
        missing=(quiet(backend("")),),
        unknown=(quiet(backend(f"{S3}\n    profile = var.p")),),
    ),
    "HF122": Ways(
        passes=(quiet(backend(""), NONE),),
        fails=(orphans(backend(S3)),),
        missing=(quiet(backend("")),),
        unknown=(quiet(backend("bucket = var.b\n    key = var.k")),),
    ),
    "HF123": Ways(
        missing=(quiet(backend("")),),
        unknown=(skipped(backend("bucket = var.b")),),
    ),
    "HF124": Ways(
        passes=(quiet({**SAME, "copy/main.tf": backend(S3)}, LONE),),
        fails=(found(SAME, LONE),),
        missing=(quiet({**SAME, "copy/main.tf": backend("")}, LONE),),
        unknown=(skipped({**SAME, "copy/main.tf": backend('bucket = "b"\n    key = var.k')}, LONE),),
    ),
    "HF125": Ways(
        passes=(quiet(APART, TWO.format(net="dev")),),
        fails=(found(MIXED, TWO.format(net="dev")),),
        missing=(quiet({**MIXED, "net/main.tf": backend("")}, TWO.format(net="dev")),),
        unknown=(
            skipped(
                {**MIXED, "net/main.tf": backend('bucket = var.b\n    key = "l"')}, TWO.format(net="dev")
            ),
        ),
    ),
    "HF126": Ways(
        passes=(quiet(reading(READ), DECLARED),),
        fails=(found(reading(READ), TWO.format(net="prod")),),
        missing=(skipped(reading('backend = "s3"'), TWO.format(net="prod")),),
        unknown=(skipped(reading(UNTOLD), TWO.format(net="prod")),),
    ),
    "HF127": Ways(
        passes=(quiet(reading(READ), TWO.format(net="prod")),),
        fails=(found(reading(READ), TWO.format(net="dev")),),
        missing=(skipped(reading('backend = "s3"'), TWO.format(net="dev")),),
        unknown=(skipped(reading(UNTOLD), TWO.format(net="dev")),),
    ),
    "HF128": Ways(
        passes=(
            quiet({"main.tf": backend(""), "main_override.tf": backend("", "gcs")}),
            quiet({"main.tf": backend(""), "main.tofu": backend("", "gcs")}),
        ),
        fails=(
            found({"main.tf": backend(""), "backend.tf": backend("")}),
            orphans(backend("") + "terraform {\n  cloud {}\n}\n"),
        ),
        missing=(quiet("terraform {}\n"), quiet("terraform {\n  backend {}\n}\n")),
        unknown=(found(backend("bucket = var.b") + backend("bucket = var.b")),),
    ),
}
