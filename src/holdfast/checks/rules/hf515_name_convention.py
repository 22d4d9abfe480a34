"""HF515: a resource whose name does not follow the convention."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.convention import filled, name_of, shown, wanted_name
from holdfast.checks.model.globs import is_name
from holdfast.checks.model.interface import Answer, Rule, Severity, finding, only_terraform_knows
from holdfast.checks.model.subjects import CheckedStack
from holdfast.hcl.reader import Unknown


def _look(stack: CheckedStack) -> Iterator[Answer]:
    names = stack.checkout.config.checks.names
    if not names:
        return
    hidden: list[tuple[str, str]] = []
    for visited in stack.scopes:
        if visited.dormant:
            continue
        for resource in stack.checkout.module(visited.folder).resources(mode="managed"):
            pattern = wanted_name(names, resource.type)
            wanted = filled(pattern, stack) if pattern is not None else None
            attribute, name = name_of(resource, visited.scope)
            if wanted is None or attribute is None:
                continue
            if isinstance(name, Unknown):
                hidden.append((attribute.file, resource.address))
            elif isinstance(name, str) and not is_name(wanted, name):
                message = f"`{shown(name)}` does not follow the convention `{wanted}`"
                yield finding(attribute, message, address=resource.address)
    yield from only_terraform_knows("the name", hidden)


RULE = Rule(
    id="HF515",
    title="A resource whose name does not follow the convention",
    why="Policies, budgets and people find things by their names. One with the name of another environment "
    "is taken for that one's.",
    fix="Make the name of the stack's own parts, as `checks.names` in holdfast.yaml has it.",
    severity=Severity.WARNING,
    stack=_look,
    more="""\
Nothing is looked at unless a convention is configured:

```yaml
checks:
  names:
    aws_s3_bucket: "{company}-{environment}-*"
    aws_db_*: "{account}-*"
```

`*` stands for anything; `{company}`, `{environment}`, `{account}`, `{region}` and `{stack}` are those of
the stack. Of several patterns for a type the longest counts. The name is what the arguments `name`,
`bucket`, `identifier`, `function_name`, `cluster_identifier`, `family` or `alias` say, or the beginning that
`name_prefix` or `bucket_prefix` gives it. Of one that is only known when Terraform runs, the rule says that
it could not see it.
""",
)
