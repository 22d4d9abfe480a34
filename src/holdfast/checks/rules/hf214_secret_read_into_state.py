from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, COMPUTED, UNKNOWN, Module, Resource, value
from holdfast.checks.secrets import secret_facts

_MADE = frozenset(
    (
        "random_password", "random_bytes", "tls_private_key", "google_service_account_key",
        "aws_iam_access_key", "google_storage_hmac_key", "kubernetes_token_request_v1",
    )
)  # fmt: skip
"""Resources that create a secret: no write-only argument helps."""
_UNASKED = ("with_decryption",)
_PUBLIC = "/aws/service/"
"""Public parameters of AWS: image ids and the like."""


def _check(module: Module) -> Iterator[CheckResult]:
    for resource in module.resources():
        if resource.mode == "managed" and resource.type in _MADE:
            if resource.type == "aws_iam_access_key" and value(resource.body, "pgp_key") not in (
                ABSENT,
                None,
            ):
                continue
            yield _finding(resource, "creates a secret that is stored in the state")
        elif (
            resource.mode == "data" and resource.type in secret_facts.ephemeral_types() and _is_read(resource)
        ):
            if any(value(resource.body, name) in (UNKNOWN, COMPUTED) for name in _UNASKED):
                reason = f"`with_decryption` of {resource.address} is computed"
                yield Skipped(reason=reason, file=resource.place.file)
            else:
                yield _finding(resource, "copies a secret into the state")


def _is_read(resource: Resource) -> bool:
    name = value(resource.body, "name")
    if resource.type == "aws_ssm_parameter" and isinstance(name, str) and name.startswith(_PUBLIC):
        return False
    sensitive = any(
        attribute.kind == secret_facts.SENSITIVE
        for attribute in secret_facts.secret_attributes(resource.mode, resource.type)
    )
    return sensitive and all(value(resource.body, name) is not False for name in _UNASKED)


def _finding(resource: Resource, what: str) -> CheckResult:
    return finding(
        resource.block,
        f"`{resource.address}` {what}",
        address=resource.address,
        hint=secret_facts.remedy(resource.mode, resource.type),
    )


RULE = Rule(
    id="HF214",
    title="Secret that ends up in the state",
    why="A data source copies what it reads into every plan and state in plain text, and so does a resource "
    "that creates a secret. An ephemeral block reads or creates it for one run and stores nothing.",
    fix="Use the ephemeral block of the same name and a write-only argument, or pass on the name of the "
    "secret.",
    severity=Severity.NOTE,
    source=_check,
)
