"""HF301 to HF403 in every way: what leaves Terraform's own world, what is not pinned, the output contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from five_ways import Hand, Ways, change, found, kept, planned, quiet, skipped, state

NONE = ""
"""No stack: whether the code is shared is not known."""


def from_elsewhere(*resources: Mapping[str, Any]) -> Hand:
    """A plan with these in a module of which the repository has no code."""
    module = {"far": {"module": {"resources": list(resources)}}}
    return planned({"configuration": {"root_module": {"module_calls": module}}})


def provider(text: str) -> str:
    return f"terraform {{\n  required_providers {{\n    {text}\n  }}\n}}\n"


LOCKED = ".terraform.lock.hcl"
AWS = provider('aws = { source = "hashicorp/aws", version = "~> 5.0" }')
UNTOLD = provider('aws = { source = "hashicorp/aws", version = local.v }')


def lock(version: str = "5.1.0", hashes: str = '["h1:a=", "h1:b="]') -> str:
    said = f'provider "registry.terraform.io/hashicorp/aws" {{\n  version = "{version}"\n'
    return said + (f"  hashes = {hashes}\n}}\n" if hashes else "}\n")


CONTRACT = """\
version: 1
targets: { aws: { owner: ci, contract: { schema: contract.yaml } } }
stacks:
  - { name: root, module: ., environment: prod, target: aws }
"""
WANTED = "version: 1\nname: acme\noutputs:\n  address: address\n"


def outputs(code: str, wanted: str = WANTED) -> dict[str, str | bytes]:
    return {"main.tf": code, "contract.yaml": wanted}


RIGHT = outputs('output "address" {\n  value = "192.0.2.1"\n}\n')
WRONG = outputs('output "address" {\n  value = "not one"\n}\n')
BARE = outputs("locals {}\n")
LATER = outputs('output "address" {\n  value = aws_eip.a.public_ip\n}\n')


def after(value: object, *, unknown: bool = False) -> Hand:
    change_ = {"actions": ["create"], "after": value, "after_unknown": unknown}
    return planned({"output_changes": {"address": change_}, "resource_changes": [change("aws_eip.a")]})


NO_OUTPUT = planned({"output_changes": {}, "resource_changes": [change("aws_eip.a")]})


def applied(value: object) -> Hand:
    return kept(outputs={"address": {"value": value, "type": "string"}})


OTHERS = kept(outputs={"other": {"value": "a", "type": "string"}})

WAYS: Mapping[str, Ways] = {
    "HF301": Ways(
        passes=(quiet("locals {}\n", hand=from_elsewhere({"address": "null_resource.a"})),),
        fails=(
            found(
                "locals {}\n",
                hand=from_elsewhere({"address": "null_resource.a", "provisioners": [{"type": "local-exec"}]}),
            ),
        ),
        missing=(
            found('resource "terraform_data" "a" {\n  provisioner "local-exec" {}\n}\n'),
            quiet("locals {}\n", hand=planned({})),
        ),
        unknown=(
            found(
                'resource "terraform_data" "a" {\n  provisioner "local-exec" {\n    command = var.c\n  }\n}\n'
            ),
            skipped('resource "terraform_data" "a" {\n  provisioner "local-exec" {}\n}\n', NONE),
        ),
    ),
    "HF302": Ways(
        passes=(quiet("locals {}\n", hand=from_elsewhere({"address": "data.aws_vpc.a"})),),
        fails=(found("locals {}\n", hand=from_elsewhere({"address": "data.external.a"})),),
        missing=(found('data "external" "a" {}\n'), quiet("locals {}\n", hand=planned({}))),
        unknown=(
            found('data "external" "a" {\n  program = var.p\n}\n'),
            skipped('data "external" "a" {}\n', NONE),
        ),
    ),
    "HF303": Ways(
        passes=(quiet("locals {}\n", hand=from_elsewhere({"address": "data.aws_vpc.a"})),),
        fails=(found("locals {}\n", hand=from_elsewhere({"address": "data.http.a"})),),
        missing=(found('data "http" "a" {}\n'), quiet("locals {}\n", hand=planned({}))),
        unknown=(found('data "http" "a" {\n  url = var.u\n}\n'), skipped('data "http" "a" {}\n', NONE)),
    ),
    "HF304": Ways(
        missing=(quiet('module "a" {}\n'), found('module "a" {\n  source = "acme/vpc/aws"\n}\n')),
        unknown=(skipped('module "a" {\n  source = "acme/vpc/aws"\n  version = data.a.b.c\n}\n'),),
    ),
    "HF305": Ways(
        missing=(found(provider('aws = { source = "hashicorp/aws" }')), quiet("terraform {}\n")),
        unknown=(skipped(UNTOLD),),
    ),
    "HF306": Ways(
        passes=(quiet({"main.tf": AWS, LOCKED: lock()}),),
        missing=(quiet("locals {}\n"),),
        unknown=(found(UNTOLD),),
    ),
    "HF307": Ways(
        passes=(quiet({"main.tf": AWS, LOCKED: lock()}),),
        fails=(found({"main.tf": AWS, LOCKED: lock("4.0.0")}),),
        missing=(quiet({"main.tf": AWS}), found({"main.tf": AWS, LOCKED: ""})),
        unknown=(skipped({"main.tf": UNTOLD, LOCKED: lock()}),),
    ),
    "HF308": Ways(
        passes=(quiet({"main.tf": AWS, LOCKED: lock()}),),
        fails=(found({"main.tf": AWS, LOCKED: lock(hashes="[]")}),),
        missing=(found({"main.tf": AWS, LOCKED: lock(hashes="")}), quiet({"main.tf": AWS})),
        unknown=(found({"main.tf": AWS, LOCKED: lock(hashes="local.h")}),),
    ),
    "HF401": Ways(
        passes=(
            quiet(RIGHT, CONTRACT),
            quiet(RIGHT, CONTRACT, after("192.0.2.1")),
            quiet(RIGHT, CONTRACT, applied("192.0.2.1")),
        ),
        fails=(
            found(BARE, CONTRACT),
            found(RIGHT, CONTRACT, NO_OUTPUT),
            found(RIGHT, CONTRACT, OTHERS),
        ),
        missing=(skipped(outputs('output "address" {}\n'), CONTRACT), skipped(RIGHT, CONTRACT, kept())),
        unknown=(
            skipped(outputs('output "address" {\n  = =\n'), CONTRACT),
            skipped(RIGHT, CONTRACT, after(None, unknown=True)),
            skipped(RIGHT, CONTRACT, state(b"{")),
        ),
    ),
    "HF402": Ways(
        passes=(
            quiet(RIGHT, CONTRACT),
            quiet(RIGHT, CONTRACT, after("192.0.2.1")),
            quiet(RIGHT, CONTRACT, applied("192.0.2.1")),
        ),
        fails=(
            found(WRONG, CONTRACT),
            found(RIGHT, CONTRACT, after("not one")),
            found(RIGHT, CONTRACT, applied("not one")),
        ),
        missing=(skipped(outputs('output "address" {}\n'), CONTRACT), quiet(BARE, CONTRACT)),
        unknown=(
            skipped(LATER, CONTRACT),
            skipped(RIGHT, CONTRACT, after(None, unknown=True)),
            skipped(RIGHT, CONTRACT, state(b"{")),
        ),
    ),
    "HF403": Ways(
        passes=(quiet(RIGHT, CONTRACT),),
        fails=(found(outputs("locals {}\n", "version: 1\noutputs:\n  a: adress\n"), CONTRACT),),
        missing=(found({"main.tf": "locals {}\n"}, CONTRACT), quiet("locals {}\n")),
        unknown=(found(outputs("locals {}\n", "{"), CONTRACT), quiet(LATER, CONTRACT)),
    ),
}
