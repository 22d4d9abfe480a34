"""Names and tags after a convention: what the configuration asks for, filled in for one stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.checks.covering import is_name
from holdfast.checks.subjects import CheckedStack, Resource, nested, value
from holdfast.hcl.nodes import Attribute
from holdfast.hcl.reader import UNKNOWN
from holdfast.kernel.patterns import pattern
from holdfast.stacks.evaluate import Scope

_PLACEHOLDER = pattern(r"\{([a-z]+)\}")
_NAMES: Final = ("name", "bucket", "identifier", "function_name", "cluster_identifier", "family", "alias")
_SHOWN: Final = 80


def filled(pattern: str, stack: CheckedStack) -> str | None:
    """None where the stack has no such part: then nothing can be asked of it."""
    own = stack.stack
    parts = {
        "company": stack.checkout.config.company,
        "environment": own.environment,
        "account": own.account,
        "region": own.region,
        "stack": own.name,
    }
    if any(parts.get(name) is None for name in _PLACEHOLDER.findall(pattern)):
        return None
    return _PLACEHOLDER.sub(lambda found: str(parts[found[1]]), pattern)


def wanted_name(names: Mapping[str, str], type_: str) -> str | None:
    """Of the patterns of types that match, the longest counts."""
    found = [one for one in names if is_name(one, type_)]
    return names[max(found, key=len)] if found else None


def name_of(resource: Resource, scope: Scope) -> tuple[Attribute | None, object]:
    """The argument that names a resource, and what it says."""
    for name in _NAMES:
        attribute = resource.body.attribute(name)
        if attribute is not None:
            return attribute, value(resource.body, name, scope)
    return None, UNKNOWN


def default_tags(stack: CheckedStack) -> Mapping[str, object] | None:
    """What the root module's providers give to every resource; None where that cannot be told."""
    found: dict[str, object] = {}
    for provider in stack.module.blocks("provider"):
        for block in nested(provider.body, "default_tags"):
            tags = value(block.body, "tags", stack.scope)
            if not isinstance(tags, Mapping):
                return None
            found.update(tags)
    return found


def shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
