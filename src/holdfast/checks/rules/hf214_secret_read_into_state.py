"""HF214: a secret that is read or made in a way that leaves it in the state."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, COMPUTED, UNKNOWN, Module, Resource, value
from holdfast.checks.secrets import secret_facts

_MADE = frozenset(
    {
        "random_password",
        "random_bytes",
        "tls_private_key",
        "google_service_account_key",
        "aws_iam_access_key",
        "google_storage_hmac_key",
        "kubernetes_token_request_v1",
    }
)
"""Resources that make a secret: there is no argument to be given otherwise."""
_UNASKED = ("with_decryption",)
_PUBLIC = "/aws/service/"
"""AWS's own parameters: ids of images and the like."""


def _look(module: Module) -> Iterator[Answer]:
    for resource in module.resources():
        if resource.mode == "managed" and resource.type in _MADE:
            if resource.type == "aws_iam_access_key" and value(resource.body, "pgp_key") not in (
                ABSENT,
                None,
            ):
                continue
            yield _found(resource, "makes a secret that stays in the state")
        elif resource.mode == "data" and resource.type in secret_facts.ephemerals() and _is_read(resource):
            if any(value(resource.body, name) in (UNKNOWN, COMPUTED) for name in _UNASKED):
                reason = f"whether {resource.address} is decrypted is computed"
                yield Skipped(reason=reason, file=resource.place.file)
            else:
                yield _found(resource, "copies a secret into the state")


def _is_read(resource: Resource) -> bool:
    name = value(resource.body, "name")
    if resource.type == "aws_ssm_parameter" and isinstance(name, str) and name.startswith(_PUBLIC):
        return False
    sensitive = any(
        one.kind == secret_facts.SENSITIVE for one in secret_facts.listed(resource.mode, resource.type)
    )
    return sensitive and all(value(resource.body, name) is not False for name in _UNASKED)


def _found(resource: Resource, what: str) -> Answer:
    return finding(
        resource.block,
        f"`{resource.address}` {what}",
        address=resource.address,
        hint=secret_facts.remedy(resource.mode, resource.type),
    )


RULE = Rule(
    id="HF214",
    title="A secret that is left in the state",
    why="A data source copies what it reads into every plan and state, in clear, and so does a resource that "
    "makes a secret. An ephemeral block reads or makes it for one run and keeps nothing.",
    fix="Use the ephemeral block of the same name and a write-only argument, or hand on the name of the "
    "secret.",
    severity=Severity.NOTE,
    source=_look,
    bad='data "aws_secretsmanager_secret_version" "db" {\n  secret_id = "prod/db"\n}\n',
    good='ephemeral "aws_secretsmanager_secret_version" "db" {\n  secret_id = "prod/db"\n}\n',
    more="Data sources that their provider also offers as `ephemeral`, and resources that do nothing but "
    "make a secret. `aws_ssm_parameter` with `with_decryption = false` or one of AWS's own, and an "
    "`aws_iam_access_key` with `pgp_key`, are left alone.",
)
