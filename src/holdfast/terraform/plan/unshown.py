"""What a plan uses without showing it: settings of providers, provisioners, and write-only arguments. Pure.

Two plans can show the same changes and yet create them elsewhere or run another program. The configuration in
a plan says which values these places refer to. A value that cannot be compared counts as another one if
anything that the plans were made from differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.kernel.patterns import pattern
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.plan.same_plan import NO_MOCKS, Mocks, same_value
from holdfast.terraform.plan.value_text import read_json

_ALWAYS_SAME = ("count.", "each.key", "path.", "self", "terraform.")
"""With the same addresses and the same code."""
_COMPUTED = ("each.", "ephemeral.", "local.", "module.")
"""Everything else that a reference can begin with is a resource, whose values a plan shows."""
_STEP = pattern(r'\.([^.\[]+)|\["((?:[^"\\]|\\.)*)"\]|\[([0-9]+)\]')
_CONNECTION = "local.connection"
"""For a `connection` block: its references are not in the plan."""


def unshown_differences(
    shown: Plan, new: Plan, mocks: Mocks = NO_MOCKS, inputs: Iterable[str] = ()
) -> tuple[str, ...]:
    """Clauses such as `it would configure provider aws with another value of var.region`.

    `inputs` are the variables that are read from other stacks; a plan has no value of ephemeral ones.
    """
    sources = _Sources(shown, new, mocks, frozenset(inputs))
    return tuple(
        f"it would {what} another value of {different.replace(_CONNECTION, 'its connection')}"
        for what, references, root in _uses(new)
        if (different := next((name for name in references if sources.differs(name, root=root)), None))
    )


def _uses(plan: Plan) -> Iterator[tuple[str, Iterable[str], bool]]:
    """What is done with unshown values, the references to them, and whether these are in the root module."""
    for provider in (plan.configuration.provider_config or {}).values():
        if provider.configured:
            what = f"configure provider {provider.name} with"
            yield what, _references(read_json(provider.expressions)), not provider.module_address
    affected = {without_keys(effect.change.address) for effect in plan.effects}
    for prefix, module in plan.configuration.modules():
        for resource in module.resources or ():
            address = f"{prefix}{resource.address}"
            if address not in affected:
                continue
            written = dict(_write_only(read_json(resource.expressions)))
            yield f"write {address} with", _references(written), not prefix
            for provisioner in resource.provisioners or ():
                connection = () if provisioner.type == "local-exec" else (_CONNECTION,)
                references = (*_references(read_json(provisioner.expressions)), *connection)
                yield f"run a provisioner of {address} with", references, not prefix


def _write_only(expressions: Any) -> Iterator[tuple[str, Any]]:
    """By their names, which end in `_wo`: the schema is not part of a plan."""
    if isinstance(expressions, list):
        for item in expressions:
            yield from _write_only(item)
    elif isinstance(expressions, dict):
        for name, item in expressions.items():
            if name.endswith("_wo"):
                yield name, item
            else:
                yield from _write_only(item)


def _references(expressions: Any) -> Iterator[str]:
    """Terraform lists each reference, followed by all its prefixes; these are left out."""
    if isinstance(expressions, list):
        for item in expressions:
            yield from _references(item)
    elif isinstance(expressions, dict):
        listed = expressions.get("references")
        before = ""
        for reference in listed if isinstance(listed, list) else ():
            if not before.startswith((f"{reference}.", f"{reference}[")):
                yield reference
            before = reference
        for name, item in expressions.items():
            if name not in {"references", "constant_value"}:
                yield from _references(item)


class _Sources:
    """What two plans were made from: the variables of the root module, and data that was read before."""

    def __init__(self, shown: Plan, new: Plan, mocks: Mocks, inputs: frozenset[str]) -> None:
        self._variables = [
            {name: read_json(variable.value) for name, variable in plan.variables.items()}
            for plan in (shown, new)
        ]
        self._data = [_data(shown), _data(new)]
        self._deferred = {change.address for change in shown.changes if change.kind is ChangeKind.READ}
        self._mocks = mocks
        self._inputs = inputs
        self._any = any(
            self._variable_differs(f"var.{name}")
            for name in {*self._variables[0], *self._variables[1], *inputs}
        ) or any(self._values_differ(address, "") for address in {*self._data[0], *self._data[1]})

    def differs(self, reference: str, *, root: bool) -> bool:
        if reference.startswith(_ALWAYS_SAME):
            return False
        if root and reference.startswith("var."):
            return self._variable_differs(reference)
        if root and reference.startswith("data."):
            return self._data_differs(reference)
        return self._any and reference.startswith(("var.", "data.", *_COMPUTED))

    def _variable_differs(self, reference: str) -> bool:
        name = reference.split(".")[1].partition("[")[0]
        old, new = (values.get(name) for values in self._variables)
        if not any(name in values for values in self._variables):
            return name in self._inputs
        return not same_value(old, new, self._mocks)

    def _data_differs(self, reference: str) -> bool:
        address = without_keys(".".join(reference.split(".")[:3])).partition("[")[0]
        return self._values_differ(address, reference[len(address) :])

    def _values_differ(self, address: str, path: str) -> bool:
        """By the part that is referred to; of data with instances, by all of it."""
        if address in self._deferred:
            return False
        old: Any
        new: Any
        old, new = (values.get(address) for values in self._data)
        for step in _steps(path):
            try:
                old, new = old[step], new[step]
            except (KeyError, IndexError, TypeError):
                break
        return not same_value(old, new, self._mocks)


def _steps(path: str) -> Iterator[str | int]:
    """As far as they can be read: what is above contains the rest."""
    at = 0
    while step := _STEP.match(path, at):
        name, key, index = step.groups()
        yield int(index) if index else key or name
        at = step.end()


def _data(plan: Plan) -> Mapping[str, Any]:
    """By address without instance keys: the values, or those of all instances."""
    data: dict[str, Any] = {}
    for resource in plan.prior_state.resources():
        if resource.mode == "data":
            address, values = without_keys(resource.address), read_json(resource.values)
            keyed = address != resource.address
            data.setdefault(address, {}).update({resource.address: values} if keyed else values)
    return data
