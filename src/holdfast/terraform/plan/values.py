"""What in a plan is sensitive: values for the redactor, and values with the sensitive parts left out.

`show -json` prints every secret as plain text, with a mask beside it that is `true` or follows the
shape of the value. Where a mask does not fit its value, the whole part counts as secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.hcl.reader import Unknown
from holdfast.terraform.addresses import Step
from holdfast.terraform.plan.configuration import ConfigModule
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.plan.value_text import read_json


def sensitive_values(plan: Plan) -> frozenset[str]:
    """Every string and number that the plan marks as sensitive: for the redactor, never to show."""
    return frozenset(text for value, mask in _secret_parts(plan) for text in marked_texts(value, mask))


def part_of_mask(mask: Any, step: Step) -> Any:
    """A mask without this step that hides anything also hides the step."""
    if isinstance(mask, dict) and isinstance(step, str):
        return mask.get(step, False)
    if isinstance(mask, list) and isinstance(step, int) and step < len(mask):
        return mask[step]
    return any_true(mask)


def any_true(mask: Any) -> bool:
    if isinstance(mask, dict):
        return any(any_true(part) for part in mask.values())
    if isinstance(mask, list):
        return any(any_true(part) for part in mask)
    return mask is True


def masked_value(value: Any, masks: tuple[Any, ...], unknown: Any, *, unknown_as: Any) -> Any:
    """The value with null for each part that a mask covers, and `unknown_as` for each that is unknown."""
    if any(mask is True for mask in masks):
        return None
    if unknown is True:
        return unknown_as

    def part(inner: Any, step: Step) -> Any:
        inside = unknown.get(step) if isinstance(unknown, dict) else item(unknown, step)
        return masked_value(
            inner, tuple(part_of_mask(mask, step) for mask in masks), inside, unknown_as=unknown_as
        )

    if isinstance(value, dict) or (value is None and isinstance(unknown, dict) and any_true(unknown)):
        value = value or {}
        more = unknown if isinstance(unknown, dict) else {}
        names = dict.fromkeys((*value, *(name for name, inner in more.items() if any_true(inner))))
        return {name: part(value.get(name), name) for name in names}
    if isinstance(value, list):
        size = max(len(value), len(unknown) if isinstance(unknown, list) else 0)
        return [part(item(value, number), number) for number in range(size)]
    return None if any(map(any_true, masks)) else value


def item(value: Any, step: Step) -> Any:
    """An element of a list; None where there is none."""
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _secret_parts(plan: Plan) -> Iterator[tuple[Any, Any]]:
    """Every value with a sensitive part, and its mask."""
    resources = (*plan.changes, *plan.drift, *(deferred.change for deferred in plan.deferred))
    changes = [*(resource.change for resource in resources), *plan.output_changes.values()]
    raw: list[tuple[msgspec.Raw, msgspec.Raw]] = [
        *((change.before, change.before_sensitive) for change in changes),
        *((change.after, change.after_sensitive) for change in changes),
        *((resource.values, resource.sensitive_values) for resource in plan.prior_state.resources()),
        *((action.config_values, action.config_sensitive) for action in plan.action_invocations),
    ]
    for value, mask in raw:
        if b"true" in bytes(mask):
            yield read_json(value), read_json(mask)
    for output in plan.prior_state.outputs():
        if output.sensitive:
            yield read_json(output.value), True
    if plan.configuration.root_module is not None:
        assigned = {name: read_json(variable.value) for name, variable in plan.variables.items()}
        for value in _secret_variables(plan.configuration.root_module, assigned):
            yield value, True


def _secret_variables(module: ConfigModule, assigned: Mapping[str, Any]) -> Iterator[Any]:
    """Values and defaults of sensitive variables, and the arguments for them in module calls."""
    for name, variable in (module.variables or {}).items():
        if variable.sensitive:
            yield read_json(variable.default)
            yield assigned.get(name)
    for call in (module.module_calls or {}).values():
        if call.module is not None:
            yield from _secret_variables(call.module, _constants(call.expressions or {}))


def _constants(expressions: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    """The literal arguments of a module call; the rest are references, which are not secret."""
    read = {name: read_json(expression) for name, expression in expressions.items()}
    return {name: value.get("constant_value") for name, value in read.items() if isinstance(value, dict)}


def marked_texts(value: Any, mask: Any) -> Iterator[str]:
    """The strings and numbers of a value that its mask covers."""
    if mask is True:
        yield from texts(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from marked_texts(part, part_of_mask(mask, key))
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from marked_texts(part, part_of_mask(mask, position))
    elif any_true(mask):
        yield from texts(value)


def texts(value: Any) -> Iterable[str]:
    """The known strings and numbers in a value. Not the names of attributes: those are no secrets."""
    if isinstance(value, Mapping):
        return (text for part in value.values() for text in texts(part))
    if isinstance(value, list | tuple):
        return (text for part in value for text in texts(part))
    if value is None or isinstance(value, bool | Unknown):
        return ()
    return (str(value),)
