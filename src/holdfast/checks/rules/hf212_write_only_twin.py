"""HF212: a secret in an argument that has a write-only twin."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.argument_values import written
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, COMPUTED, UNKNOWN, Module, Resource, value
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.secret_facts import Twin


def _look(module: Module) -> Iterator[Answer]:
    for resource in module.resources(mode="managed"):
        for twin in secret_facts.twins(resource.type):
            yield from _argument(resource, twin)


def _argument(resource: Resource, twin: Twin) -> Iterator[Answer]:
    places = tuple(written(resource.body, twin.steps))
    if not places:
        return
    if resource.type == "aws_ssm_parameter":
        kind = value(resource.body, "type")
        if kind in (UNKNOWN, COMPUTED):
            reason = f"whether {resource.address} is a SecureString is computed"
            yield Skipped(reason=reason, file=resource.place.file)
            return
        if kind is ABSENT or kind != "SecureString":
            return
    for one in places:
        again = f", and `{twin.version}`, which you raise when it changes" if twin.version else ""
        yield finding(
            one.place,
            f"`{'.'.join(one.steps)}` ends in the state in clear; its twin `{twin.name}` does not",
            address=resource.address,
            hint=f"Give `{twin.name}` instead{again} (Terraform 1.11 or OpenTofu 1.11, and later), from an "
            "ephemeral value; then change the secret, for older states still hold it.",
        )


RULE = Rule(
    id="HF212",
    title="A secret argument that has a write-only twin",
    why="Terraform keeps what this argument is given in every plan and every version of the state, in clear, "
    "`sensitive` or not. What a write-only argument is given is kept nowhere.",
    fix="Use the write-only argument, and hand it an ephemeral value.",
    severity=Severity.WARNING,
    source=_look,
    secret=True,
    bad='variable "password" {\n  type      = string\n  sensitive = true\n}\n\n'
    'resource "aws_db_instance" "main" {\n  password = var.password\n}\n',
    good='variable "password" {\n  type      = string\n  ephemeral = true\n}\n\n'
    'resource "aws_db_instance" "main" {\n  password_wo         = var.password\n'
    "  password_wo_version = 1\n}\n",
    more="Known are the twins of the providers for AWS, Azure, Google, Kubernetes, Helm and Vault. An "
    "`aws_ssm_parameter` counts when it is a `SecureString`.",
)
