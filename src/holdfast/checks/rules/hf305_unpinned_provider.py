from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.pins import loose_provider
from holdfast.checks.code.required import required_providers
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module
from holdfast.hcl.reader import Unknown


def _check(module: Module) -> Iterator[CheckResult]:
    for provider in required_providers(module):
        address = f"provider.{provider.name}"
        if isinstance(provider.version, Unknown):
            reason = f"the version of the provider `{provider.name}` is not known"
            yield Skipped(reason=reason, file=provider.place.file)
        elif provider.version is None:
            message = f"the provider `{provider.name}` ({provider.source}) has no version constraint"
            yield finding(provider.place, message, address=address)
        elif module.roots and (why := loose_provider(provider.version)) is not None:
            yield finding(
                provider.place,
                f"`{provider.version}` of the provider `{provider.name}` {why}",
                address=address,
            )


RULE = Rule(
    id="HF305",
    title="Provider that is not pinned",
    why="The next `init` without a lock file, or with `-upgrade`, takes the newest version. A new major "
    "version can change defaults and write a state that older versions cannot read.",
    fix='Set a version with an upper bound in `required_providers`: `version = "~> 5.0"`.',
    severity=Severity.WARNING,
    source=_check,
)
