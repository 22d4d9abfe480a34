from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import (
    ABSENT,
    COMPUTED,
    UNKNOWN,
    CheckedPlan,
    CheckedState,
    Module,
    Resource,
    value,
)
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.stored_secrets import StoredSecrets, secrets_in_plan, secrets_in_state

_MOST = 6


def _in_plan(plan: CheckedPlan) -> Iterator[Finding]:
    for secrets in secrets_in_plan(plan.plan):
        yield _stored(secrets, "the plan and the next state contain")


def _in_state(state: CheckedState) -> Iterator[CheckResult]:
    if state.contents.unseen is not None:
        yield Skipped(reason=state.contents.unseen)
        return
    reported: set[tuple[str, tuple[str, ...]]] = set()
    for secrets in secrets_in_state(state.resources):
        if (secrets.address, secrets.paths) not in reported:
            reported.add((secrets.address, secrets.paths))
            yield _stored(secrets, "the state contains")


def _stored(secrets: StoredSecrets, where: str) -> Finding:
    listed = ", ".join(f"`{path}`" for path in secrets.paths[:_MOST])
    more = f" and {len(secrets.paths) - _MOST} more" if len(secrets.paths) > _MOST else ""
    also = (
        f"; not marked sensitive: {', '.join(f'`{path}`' for path in secrets.unmarked[:_MOST])}"
        if secrets.unmarked
        else ""
    )
    return Finding(
        message=f"{where} {listed}{more}{also}",
        address=secrets.address,
        hint=secret_facts.remedy(secrets.mode, secrets.type, secrets.paths),
        severity=Severity.ERROR if secrets.unmarked else None,
    )


HF213 = Rule(
    id="HF213",
    title="Secret in a plan or state",
    fix="Use an ephemeral value, a write-only argument, or the secret's path instead of its value. Then "
    "rotate the secret: older versions of the state still contain it.",
    severity=Severity.WARNING,
    plan=_in_plan,
    state=_in_state,
    secret=True,
)


_CREATE_SECRETS = frozenset(
    (
        "random_password", "random_bytes", "tls_private_key", "google_service_account_key",
        "aws_iam_access_key", "google_storage_hmac_key", "kubernetes_token_request_v1",
    )
)  # fmt: skip
"""Resources that create a secret: no write-only argument helps."""
_UNASKED = ("with_decryption",)
_PUBLIC = "/aws/service/"
"""Public parameters of AWS: image ids and the like."""


def _check_source(module: Module) -> Iterator[CheckResult]:
    for resource in module.resources():
        if resource.mode == "managed" and resource.type in _CREATE_SECRETS:
            if resource.type == "aws_iam_access_key" and value(resource.body, "pgp_key") not in (
                ABSENT,
                None,
            ):
                continue
            yield _written(resource, "creates a secret that is stored in the state")
        elif (
            resource.mode == "data"
            and resource.type in secret_facts.ephemeral_types()
            and _reads_secret(resource)
        ):
            if any(value(resource.body, name) in (UNKNOWN, COMPUTED) for name in _UNASKED):
                reason = f"`with_decryption` of {resource.address} is computed"
                yield Skipped(reason=reason, file=resource.place.file)
            else:
                yield _written(resource, "copies a secret into the state")


def _reads_secret(resource: Resource) -> bool:
    name = value(resource.body, "name")
    if resource.type == "aws_ssm_parameter" and isinstance(name, str) and name.startswith(_PUBLIC):
        return False
    sensitive = any(
        attribute.kind == secret_facts.SENSITIVE
        for attribute in secret_facts.secret_attributes(resource.mode, resource.type)
    )
    return sensitive and all(value(resource.body, name) is not False for name in _UNASKED)


def _written(resource: Resource, what: str) -> CheckResult:
    return finding(
        resource.block,
        f"`{resource.address}` {what}",
        address=resource.address,
        hint=secret_facts.remedy(resource.mode, resource.type),
    )


HF214 = Rule(
    id="HF214",
    title="Secret that ends up in the state",
    fix="Use the ephemeral block of the same name and a write-only argument, or pass on the name of the "
    "secret.",
    severity=Severity.NOTE,
    source=_check_source,
)
