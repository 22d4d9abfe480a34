from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.convention import expand_pattern, name_of, name_pattern, shorten
from holdfast.checks.model.globs import is_name
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding, known_at_run_time_only
from holdfast.checks.model.subjects import CheckedStack
from holdfast.hcl.reader import Unknown


def _check(stack: CheckedStack) -> Iterator[CheckResult]:
    names = stack.checkout.config.checks.names
    if not names:
        return
    unknown_names: list[tuple[str, str]] = []
    for visited in stack.scopes:
        if visited.dormant:
            continue
        for resource in stack.checkout.module(visited.folder).resources(mode="managed"):
            pattern = name_pattern(names, resource.type)
            wanted = expand_pattern(pattern, stack) if pattern is not None else None
            attribute, name = name_of(resource, visited.scope)
            if wanted is None or attribute is None:
                continue
            if isinstance(name, Unknown):
                unknown_names.append((attribute.file, resource.address))
            elif isinstance(name, str) and not is_name(wanted, name):
                message = f"`{shorten(name)}` does not follow the convention `{wanted}`"
                yield finding(attribute, message, address=resource.address)
    yield from known_at_run_time_only("the name", unknown_names)


RULE = Rule(
    id="HF515",
    title="Resource name does not follow the convention",
    why="Policies, budgets and people find resources by name. One with another environment's name is "
    "mistaken for that environment's.",
    fix="Build the name as `checks.names` in holdfast.yaml requires.",
    severity=Severity.WARNING,
    stack=_check,
)
