from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.argument_values import values_at
from holdfast.checks.code.required import may_run, may_use
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import ABSENT, COMPUTED, UNKNOWN, Module, Resource, value
from holdfast.checks.secrets import secret_facts
from holdfast.checks.secrets.secret_facts import WriteOnlyTwin
from holdfast.terraform.versions import Version

_ENGINE = Version.parse("1.11")


def _check(module: Module) -> Iterator[CheckResult]:
    for resource in module.resources(mode="managed"):
        twins = secret_facts.write_only_twins(resource.type)
        if twins and _is_supported(module, resource.type.partition("_")[0]):
            for twin in twins:
                yield from _argument(resource, twin)


def _is_supported(module: Module, provider: str) -> bool:
    """Whether the engine and the provider that the code pins may know write-only arguments."""
    roots = {id(root): root for root in (module, *(stack.module for stack in module.stacks))}
    since = secret_facts.write_only_since(provider)
    return may_run(module, _ENGINE) and all(may_use(root, provider, since) for root in roots.values())


def _argument(resource: Resource, twin: WriteOnlyTwin) -> Iterator[CheckResult]:
    places = tuple(values_at(resource.body, twin.steps))
    if not places:
        return
    if resource.type == "aws_ssm_parameter":
        kind = value(resource.body, "type")
        if kind in (UNKNOWN, COMPUTED):
            reason = f"the type of {resource.address} is computed"
            yield Skipped(reason=reason, file=resource.place.file)
            return
        if kind is ABSENT or kind != "SecureString":
            return
    for value_ in places:
        version = f" and `{twin.version}`, which you increment when it changes," if twin.version else ""
        yield finding(
            value_.place,
            f"`{'.'.join(value_.steps)}` is stored in the state in plain text; `{twin.name}` is not",
            address=resource.address,
            hint=f"Set `{twin.name}`{version} from an ephemeral value (Terraform or OpenTofu 1.11+). "
            "Then rotate the secret: older states still contain it.",
        )


RULE = Rule(
    id="HF212",
    title="Secret argument with a write-only alternative",
    fix="Use the write-only argument with an ephemeral value.",
    severity=Severity.NOTE,
    source=_check,
    secret=True,
)
