from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.boundary.hermetic import (
    data_sources,
    findings_in_shared,
    findings_outside_repository,
    planned_data,
)
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity
from holdfast.checks.model.subjects import CheckedPlan, Module
from holdfast.hcl.nodes import Block

_TYPES = ("http", "terracurl_request")


def _message(address: str) -> str:
    return f"`{address}` requests a URL in every plan"


def _requests(module: Module) -> Iterator[tuple[Block, str, str]]:
    return ((block, address, _message(address)) for block, address in data_sources(module, _TYPES))


def _source(module: Module) -> Iterator[CheckResult]:
    return findings_in_shared(module, _requests(module))


def _plan(plan: CheckedPlan) -> Iterator[Finding]:
    return findings_outside_repository(
        plan, ((address, _message(address)) for address in planned_data(plan, _TYPES))
    )


RULE = Rule(
    id="HF303",
    title="HTTP data source in a shared stack",
    why="The plan depends on the server's response at that moment: the same commit gives a different "
    "plan tomorrow, and none while the server is down.",
    fix="Store the response in the repository, or read the value with a provider's data source.",
    severity=Severity.WARNING,
    source=_source,
    plan=_plan,
)
