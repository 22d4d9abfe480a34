from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.checks.code.convention import (
    default_tags,
    expand_pattern,
    has_tags,
    name_of,
    name_pattern,
    shorten,
)
from holdfast.checks.model.globs import is_name
from holdfast.checks.model.interface import (
    CheckResult,
    Finding,
    Rule,
    Severity,
    Skipped,
    finding,
    known_at_run_time_only,
)
from holdfast.checks.model.subjects import CheckedStack
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.nodes import Attribute, Block
from holdfast.hcl.reader import Unknown


def _check_names(stack: CheckedStack) -> Iterator[CheckResult]:
    names = stack.checkout.config.checks.names
    if not names:
        return
    unknown_names: list[tuple[str, str]] = []
    for resource, scope in stack.resources(mode="managed"):
        pattern = name_pattern(names, resource.type)
        wanted = expand_pattern(pattern, stack) if pattern is not None else None
        attribute, name = name_of(resource, scope)
        if wanted is None or attribute is None:
            continue
        if isinstance(name, Unknown):
            unknown_names.append((attribute.file, resource.address))
        elif isinstance(name, str) and not is_name(wanted, name):
            message = f"`{shorten(name)}` does not follow the convention `{wanted}`"
            yield finding(attribute, message, address=resource.address)
    yield from known_at_run_time_only("the name", unknown_names)


HF515 = Rule(
    id="HF515",
    title="Resource name does not follow the convention",
    why="Policies, budgets and people find resources by name. One with another environment's name is "
    "mistaken for that environment's.",
    fix="Build the name as `checks.names` in holdfast.yaml requires.",
    severity=Severity.WARNING,
    stack=_check_names,
)


def _check_tags(stack: CheckedStack) -> Iterator[CheckResult]:
    wanted = {
        name: pattern
        for name, required in stack.checkout.config.checks.tags.items()
        if (pattern := expand_pattern(required, stack)) is not None
    }
    if not wanted:
        return
    defaults = default_tags(stack)
    if defaults is None:
        yield Skipped(reason="the provider's `default_tags` are only known at run time")
        return
    unknown_tags: list[tuple[str, str]] = []
    for resource, scope in stack.resources(mode="managed"):
        attribute = resource.body.attribute("tags")
        if attribute is None and not has_tags(resource.type):
            continue
        given = _effective_tags(attribute, scope, defaults)
        if given is None or any(_is_hidden(given, name, pattern) for name, pattern in wanted.items()):
            unknown_tags.append((resource.block.file, resource.address))
        if given is not None:
            yield from _wrong_tags(attribute or resource.block, resource.address, given, wanted)
    yield from known_at_run_time_only("the tags", unknown_tags)


def _effective_tags(
    attribute: Attribute | None, scope: Scope, defaults: Mapping[str, object]
) -> Mapping[str, object] | None:
    found = evaluate(attribute.expression, scope) if attribute is not None else None
    if found is None:
        return defaults
    return {**defaults, **found} if isinstance(found, Mapping) else None


def _is_hidden(given: Mapping[str, object], name: str, pattern: str) -> bool:
    return isinstance(given.get(name), Unknown) and pattern != "*"


def _wrong_tags(
    where: Attribute | Block, address: str, given: Mapping[str, object], wanted: Mapping[str, str]
) -> Iterator[Finding]:
    for name, pattern in wanted.items():
        if name not in given:
            yield finding(where, f"the tag `{name}` is missing", address=address)
            continue
        has = given[name]
        if isinstance(has, str) and not is_name(pattern, has):
            yield finding(where, f"the tag `{name}` is `{shorten(has)}`, not `{pattern}`", address=address)


HF516 = Rule(
    id="HF516",
    title="Resource tags do not follow the convention",
    why="Resources without an owner or environment tag are in no one's budget, and no one dares to "
    "delete them.",
    fix="Set the tags that `checks.tags` in holdfast.yaml requires, preferably with the provider's "
    "`default_tags`.",
    severity=Severity.WARNING,
    stack=_check_tags,
)
