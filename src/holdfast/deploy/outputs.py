"""The outputs and facts of a target, as the placeholders of gates use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import field

from holdfast.config.settings import Target
from holdfast.contract.facts import OutputsOfStack, build_facts, sources_for
from holdfast.facts.outputs import read_outputs
from holdfast.gates.values import MissingValue
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext


class TargetOutputs(MaskedStruct, frozen=True, kw_only=True):
    """In one environment."""

    values: Mapping[str, object] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Why an output cannot be used: it is sensitive, or stacks disagree about it."""
    facts: Mapping[str, object] | None = None
    """None: the target has none."""
    failure: str | None = None
    """Why not all outputs are known: then none of them counts."""
    unusable_facts: Mapping[str, str] = field(default_factory=dict)

    def for_output(self, name: str) -> Mapping[str, object]:
        if self.failure is not None:
            raise MissingValue(self.failure)
        if name in self.withheld:
            raise MissingValue(self.withheld[name])
        return self.values

    def for_fact(self, name: str) -> Mapping[str, object]:
        if self.facts is None:
            raise MissingValue("the target has no facts")
        if self.failure is not None:
            raise MissingValue(self.failure)
        if name in self.unusable_facts:
            raise MissingValue(self.unusable_facts[name])
        return self.facts


async def outputs_by_environment(
    context: ChangeContext, target: Target, environments: Iterable[str | None]
) -> Mapping[str | None, TargetOutputs]:
    """A state that cannot be read leaves every output of the target unknown."""
    facts = None if target.facts is None else target.facts.map
    try:
        sources = await read_outputs(context, target)
    except HoldfastError as error:
        failure = f"{error.problem.message} ({error.problem.code})"
        unknown = TargetOutputs(failure=failure, facts=None if facts is None else {})
        return dict.fromkeys(environments, unknown)
    secret = context.redactor

    def is_secret(text: str) -> bool:
        return secret.clean(text) != text

    found: dict[str | None, TargetOutputs] = {}
    for environment in environments:
        own = sources_for(environment, sources) if environment is not None else sources
        built: dict[str, object] = {}
        unusable: dict[str, str] = {}
        for fact, source in (facts or {}).items():
            # One by one: a fact that is wrong says nothing about the others.
            one = build_facts({fact: source}, environment or "", own, is_secret=is_secret)
            built.update(one.facts)
            if one.problems:
                unusable[fact] = one.problems[0].message
        values, withheld = combined(own)
        found[environment] = TargetOutputs(
            values=values,
            withheld=withheld,
            facts=None if facts is None else built,
            unusable_facts=unusable,
        )
    return found


def combined(sources: Iterable[OutputsOfStack]) -> tuple[dict[str, object], dict[str, str]]:
    """The outputs of several stacks by name, and why some of them cannot be used. Pure."""
    values: dict[str, object] = {}
    owners: dict[str, str] = {}
    withheld: dict[str, str] = {}
    for source in sources:
        for name, output in source.outputs.items():
            if output.sensitive:
                withheld[name] = (
                    f"the output {name} of {source.stack} is sensitive; gates do not use sensitive outputs"
                )
            elif name in values and values[name] != output.value:
                withheld[name] = f"{owners[name]} and {source.stack} have different outputs {name}"
            values[name], owners[name] = output.value, source.stack
    return values, withheld
