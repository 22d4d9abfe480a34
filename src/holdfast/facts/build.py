"""The facts of a target: its outputs under the names that GitOps knows, for each environment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from holdfast.config.publishing import Facts
from holdfast.config.settings import Target
from holdfast.contract.facts import EnvironmentFacts, OutputsOfStack, build_facts, environments_of
from holdfast.facts.outputs import read_outputs, stacks_of
from holdfast.facts.reserved import check_addresses
from holdfast.kernel.errors import Problem, Refused, UsageError
from holdfast.plans.context import ChangeContext


class FactsRefused(Refused):
    """Every fact that cannot be published, at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(first.code, first.message, hint=first.hint)
        self.problems = tuple(problems)


def facts_of(target: Target) -> Facts:
    if target.facts is None:
        raise UsageError(
            "HF-FACT-8",
            f"the target `{target.name}` publishes no facts",
            hint=f"Add `facts` to targets.{target.name} in holdfast.yaml: see docs/facts.md.",
        )
    return target.facts


async def build(context: ChangeContext, target: Target) -> tuple[EnvironmentFacts, ...]:
    """Raises FactsRefused if a single one is wrong: half the facts are worse than the old ones."""
    sources = await read_outputs(context, target)
    built = from_outputs(context, target, sources)
    checked, problems = await check_addresses(context, target, built, sources)
    if problems:
        raise FactsRefused(problems)
    return tuple(
        replace(facts, reserved=tuple(one for one in checked if one.environment == facts.environment))
        for facts in built
    )


def from_outputs(
    context: ChangeContext, target: Target, sources: Sequence[OutputsOfStack]
) -> tuple[EnvironmentFacts, ...]:
    settings = facts_of(target)
    redactor = context.redactor
    built = tuple(
        build_facts(settings.map, environment, sources, is_secret=lambda text: redactor.clean(text) != text)
        for environment in environments(context, target)
    )
    if problems := tuple(chain.from_iterable(facts.problems for facts in built)):
        raise FactsRefused(tuple(dict.fromkeys(problems)))
    return built


def environments(context: ChangeContext, target: Target) -> tuple[str, ...]:
    """Those with a file of facts."""
    settings = facts_of(target)
    stacks = stacks_of(context.project, target)
    sources = [
        OutputsOfStack(stack=stack.name, environment=stack.environment, outputs={}) for stack in stacks
    ]
    names = environments_of(sources, settings.environments)
    if not stacks or not names:
        missing = "stack" if not stacks else "environment"
        raise UsageError(
            "HF-FACT-9",
            f"the target `{target.name}` has no {missing} whose outputs could be facts",
            hint="Give stacks `target` and `environment`, or list `facts.environments`.",
        )
    files = [settings.file(target=target.name, environment=name) for name in names]
    if len(set(files)) < len(files):
        raise UsageError(
            "HF-FACT-9",
            f"several environments of the target `{target.name}` have the same file {files[0]}",
            hint="Add {environment} to `facts.path`.",
        )
    return names
