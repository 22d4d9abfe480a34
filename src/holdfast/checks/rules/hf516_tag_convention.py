"""HF516: a resource whose tags do not follow the convention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.checks.code.convention import default_tags, filled, has_tags, shown
from holdfast.checks.model.globs import is_name
from holdfast.checks.model.interface import (
    Answer,
    Finding,
    Rule,
    Severity,
    Skipped,
    finding,
    only_terraform_knows,
)
from holdfast.checks.model.subjects import CheckedStack
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.nodes import Attribute, Block
from holdfast.hcl.reader import Unknown


def _look(stack: CheckedStack) -> Iterator[Answer]:
    wanted = {
        name: pattern
        for name, said in stack.checkout.config.checks.tags.items()
        if (pattern := filled(said, stack)) is not None
    }
    if not wanted:
        return
    defaults = default_tags(stack)
    if defaults is None:
        yield Skipped(reason="only Terraform knows the `default_tags` of the provider")
        return
    hidden: list[tuple[str, str]] = []
    for visited in stack.scopes:
        if visited.dormant:
            continue
        for resource in stack.checkout.module(visited.folder).resources(mode="managed"):
            attribute = resource.body.attribute("tags")
            if attribute is None and not has_tags(resource.type):
                continue
            given = _given(attribute, visited.scope, defaults)
            if given is None or any(_is_hidden(given, name, pattern) for name, pattern in wanted.items()):
                hidden.append((resource.block.file, resource.address))
            if given is not None:
                yield from _tags(attribute or resource.block, resource.address, given, wanted)
    yield from only_terraform_knows("the tags", hidden)


def _given(
    attribute: Attribute | None, scope: Scope, defaults: Mapping[str, object]
) -> Mapping[str, object] | None:
    found = evaluate(attribute.expression, scope) if attribute is not None else None
    if found is None:
        return defaults
    return {**defaults, **found} if isinstance(found, Mapping) else None


def _is_hidden(given: Mapping[str, object], name: str, pattern: str) -> bool:
    return isinstance(given.get(name), Unknown) and pattern != "*"


def _tags(
    where: Attribute | Block, address: str, given: Mapping[str, object], wanted: Mapping[str, str]
) -> Iterator[Finding]:
    for name, pattern in wanted.items():
        if name not in given:
            yield finding(where, f"the tag `{name}` is missing", address=address)
            continue
        has = given[name]
        if isinstance(has, str) and not is_name(pattern, has):
            yield finding(where, f"the tag `{name}` is `{shown(has)}`, not `{pattern}`", address=address)


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

Placeholders are those of HF515. Looked at are resources that write `tags`, and AWS's usual ones that have
tags whether or not somebody writes them, together with the provider's `default_tags`; another resource that
writes none may be of a type that has none, and is passed over. Of tags that are only known when Terraform
runs, the rule says that it could not see them.
""",
)
