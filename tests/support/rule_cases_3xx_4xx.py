"""HF301 to HF403 in every way: what leaves Terraform's own world, what is not pinned, the output contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rule_cases import (
    Cases,
    MakeInputs,
    change,
    passing,
    reported,
    skipped,
    with_plan,
    with_state,
    with_state_file,
)

NONE = ""
"""No stack: whether the code is shared is not known."""


def from_elsewhere(*resources: Mapping[str, Any]) -> MakeInputs:
    """A plan with these in a module of which the repository has no code."""
    module = {"far": {"module": {"resources": list(resources)}}}
    return with_plan({"configuration": {"root_module": {"module_calls": module}}})


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


def after(value: object, *, unknown: bool = False) -> MakeInputs:
    change_ = {"actions": ["create"], "after": value, "after_unknown": unknown}
    return with_plan({"output_changes": {"address": change_}, "resource_changes": [change("aws_eip.a")]})


NO_OUTPUT = with_plan({"output_changes": {}, "resource_changes": [change("aws_eip.a")]})


def applied(value: object) -> MakeInputs:
    return with_state(outputs={"address": {"value": value, "type": "string"}})


OTHERS = with_state(outputs={"other": {"value": "a", "type": "string"}})

COPY = {"main.tf": "locals {}\n", "gitops/a.yaml": "gateway:\n  address: 192.0.2.1\n"}
FACTS = """version: 1
targets:
  aws:
    facts:
      repository: https://git.example/acme/facts.git
      map: { gateway.address: address }
      gitops: ["gitops/**"]
stacks:
  - name: root
    module: .
    environment: prod
    target: aws
"""


def published(address: str = "192.0.2.1") -> dict[str, object]:
    return {"address": {"value": address, "type": "string"}}


CASES_BY_RULE: Mapping[str, Cases] = {
    "HF301": Cases(
        passes=(passing("locals {}\n", make_inputs=from_elsewhere({"address": "null_resource.a"})),),
        fails=(
            reported(
                "locals {}\n",
                make_inputs=from_elsewhere(
                    {"address": "null_resource.a", "provisioners": [{"type": "local-exec"}]}
                ),
            ),
        ),
        missing=(
            reported('resource "terraform_data" "a" {\n  provisioner "local-exec" {}\n}\n'),
            passing("locals {}\n", make_inputs=with_plan({})),
        ),
        unknown=(
            reported(
                'resource "terraform_data" "a" {\n  provisioner "local-exec" {\n    command = var.c\n  }\n}\n'
            ),
            reported('resource "terraform_data" "a" {\n  provisioner "local-exec" {}\n}\n', NONE),
        ),
    ),
    "HF302": Cases(
        passes=(passing("locals {}\n", make_inputs=from_elsewhere({"address": "data.aws_vpc.a"})),),
        fails=(reported("locals {}\n", make_inputs=from_elsewhere({"address": "data.external.a"})),),
        missing=(reported('data "external" "a" {}\n'), passing("locals {}\n", make_inputs=with_plan({}))),
        unknown=(
            reported('data "external" "a" {\n  program = var.p\n}\n'),
            reported('data "external" "a" {}\n', NONE),
        ),
    ),
    "HF303": Cases(
        passes=(passing("locals {}\n", make_inputs=from_elsewhere({"address": "data.aws_vpc.a"})),),
        fails=(reported("locals {}\n", make_inputs=from_elsewhere({"address": "data.http.a"})),),
        missing=(reported('data "http" "a" {}\n'), passing("locals {}\n", make_inputs=with_plan({}))),
        unknown=(reported('data "http" "a" {\n  url = var.u\n}\n'), reported('data "http" "a" {}\n', NONE)),
    ),
    "HF304": Cases(
        missing=(passing('module "a" {}\n'), reported('module "a" {\n  source = "acme/vpc/aws"\n}\n')),
        unknown=(skipped('module "a" {\n  source = "acme/vpc/aws"\n  version = data.a.b.c\n}\n'),),
    ),
    "HF305": Cases(
        missing=(reported(provider('aws = { source = "hashicorp/aws" }')), passing("terraform {}\n")),
        unknown=(skipped(UNTOLD),),
    ),
    "HF306": Cases(
        passes=(passing({"main.tf": AWS, LOCKED: lock()}),),
        missing=(passing("locals {}\n"),),
        unknown=(reported(UNTOLD),),
    ),
    "HF307": Cases(
        passes=(passing({"main.tf": AWS, LOCKED: lock()}),),
        fails=(reported({"main.tf": AWS, LOCKED: lock("4.0.0")}),),
        missing=(passing({"main.tf": AWS}), reported({"main.tf": AWS, LOCKED: ""})),
        unknown=(skipped({"main.tf": UNTOLD, LOCKED: lock()}),),
    ),
    "HF308": Cases(
        passes=(passing({"main.tf": AWS, LOCKED: lock()}),),
        fails=(reported({"main.tf": AWS, LOCKED: lock(hashes="[]")}),),
        missing=(reported({"main.tf": AWS, LOCKED: lock(hashes="")}), passing({"main.tf": AWS})),
        unknown=(reported({"main.tf": AWS, LOCKED: lock(hashes="local.h")}),),
    ),
    "HF309": Cases(
        passes=(
            passing({"main.tf": "-> /repository/shared.tf", "shared.tf": "locals {}\n"}),
            passing({"main.tf": "locals {}\n", "policy": "-> /srv/policies"}),
        ),
        fails=(
            reported({"main.tf": "-> /etc/passwd"}),
            reported({"main.tf": "locals {}\n", "data": "-> /srv/data"}),
            reported({"main.tf": "locals {}\n", "token": "-> /repository/.git/config"}),
        ),
        missing=(passing("locals {}\n"),),
        unknown=(reported({"main.tf": "-> /nowhere"}),),
    ),
    "HF401": Cases(
        passes=(
            passing(RIGHT, CONTRACT),
            passing(RIGHT, CONTRACT, after("192.0.2.1")),
            passing(RIGHT, CONTRACT, OTHERS),
        ),
        fails=(
            reported(BARE, CONTRACT),
            reported(BARE, CONTRACT, applied("192.0.2.1")),
            reported(RIGHT, CONTRACT, NO_OUTPUT),
        ),
        missing=(skipped(outputs('output "address" {}\n'), CONTRACT),),
        unknown=(
            skipped(outputs('output "address" {\n  = =\n'), CONTRACT),
            skipped(RIGHT, CONTRACT, after(None, unknown=True)),
        ),
    ),
    "HF402": Cases(
        passes=(
            passing(RIGHT, CONTRACT),
            passing(RIGHT, CONTRACT, after("192.0.2.1")),
            passing(RIGHT, CONTRACT, applied("not one")),
        ),
        fails=(
            reported(WRONG, CONTRACT),
            reported(RIGHT, CONTRACT, after("not one")),
            reported(LATER, CONTRACT, applied("not one")),
        ),
        missing=(skipped(outputs('output "address" {}\n'), CONTRACT), passing(BARE, CONTRACT)),
        unknown=(
            skipped(LATER, CONTRACT),
            skipped(LATER, CONTRACT, OTHERS),
            skipped(RIGHT, CONTRACT, after(None, unknown=True)),
            skipped(RIGHT, CONTRACT, with_state_file(b"{")),
        ),
    ),
    "HF403": Cases(
        passes=(passing(RIGHT, CONTRACT),),
        fails=(reported(outputs("locals {}\n", "version: 1\noutputs:\n  a: adress\n"), CONTRACT),),
        missing=(reported({"main.tf": "locals {}\n"}, CONTRACT), passing("locals {}\n")),
        unknown=(reported(outputs("locals {}\n", "{"), CONTRACT), passing(LATER, CONTRACT)),
    ),
    "HF404": Cases(
        passes=(
            passing(COPY, FACTS, with_state(outputs=published("192.0.2.9"))),
            passing(
                {**COPY, "gitops/a.yaml": "a: 192.0.2.10\n# 192.0.2.1\n"},
                FACTS,
                with_state(outputs=published()),
            ),
            passing({**COPY, "gitops/a.yaml": "a: prod\n"}, FACTS, with_state(outputs=published("prod"))),
        ),
        fails=(
            reported(COPY, FACTS, with_state(outputs=published())),
            reported(
                {**COPY, "gitops/a.yaml": "a: {{ x }}\n  b: '192.0.2.1' # c\n"},
                FACTS,
                with_state(outputs=published()),
            ),
        ),
        missing=(
            passing(COPY, FACTS, with_state()),
            passing(
                COPY, FACTS.replace('      gitops: ["gitops/**"]\n', ""), with_state(outputs=published())
            ),
            passing({"main.tf": "locals {}\n"}, FACTS, with_state(outputs=published())),
        ),
        unknown=(skipped(COPY, FACTS, with_state_file(b"{")),),
    ),
}
