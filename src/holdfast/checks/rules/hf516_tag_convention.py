"""HF516: a resource whose tags do not follow the convention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.checks.convention import default_tags, filled, shown
from holdfast.checks.covering import is_name
from holdfast.checks.interface import Finding, Rule, Severity, finding
from holdfast.checks.subjects import CheckedStack
from holdfast.hcl.nodes import Attribute
from holdfast.stacks.evaluate import Scope, evaluate


def _look(stack: CheckedStack) -> Iterator[Finding]:
    wanted = {
        name: pattern
        for name, said in stack.checkout.config.checks.tags.items()
        if (pattern := filled(said, stack)) is not None
    }
    defaults = default_tags(stack) if wanted else None
    if defaults is None:
        return
    for visited in stack.scopes:
        if visited.dormant:
            continue
        for resource in stack.checkout.module(visited.folder).resources(mode="managed"):
            attribute = resource.body.attribute("tags")
            if attribute is not None:
                yield from _tags(
                    attribute, resource.address, _given(attribute, visited.scope, defaults), wanted
                )


def _given(attribute: Attribute, scope: Scope, defaults: Mapping[str, object]) -> Mapping[str, object] | None:
    found = evaluate(attribute.expression, scope)
    return {**defaults, **found} if isinstance(found, Mapping) else None


def _tags(
    attribute: Attribute, address: str, given: Mapping[str, object] | None, wanted: Mapping[str, str]
) -> Iterator[Finding]:
    if given is None:
        return
    for name, pattern in wanted.items():
        if name not in given:
            yield finding(attribute, f"the tag `{name}` is missing", address=address)
            continue
        has = given[name]
        if isinstance(has, str) and not is_name(pattern, has):
            yield finding(attribute, f"the tag `{name}` is `{shown(has)}`, not `{pattern}`", address=address)


RULE = Rule(
    id="HF516",
    title="A resource whose tags do not follow the convention",
    why="What has no owner or environment in its tags is in nobody's bill, and nobody dares to delete it.",
    fix="Give it the tags that `checks.tags` in holdfast.yaml asks for, best by `default_tags` of the "
    "provider.",
    severity=Severity.WARNING,
    stack=_look,
    more="""\
Nothing is looked at unless a convention is configured:

```yaml
checks:
  tags:
    Owner: "*"
    Environment: "{environment}"
```

Placeholders are those of HF515. Looked at are resources that write `tags`, together with the provider's
`default_tags`; a resource that writes none may be of a type that has none, and is passed over, as are tags
that are only known when Terraform runs.
""",
)
