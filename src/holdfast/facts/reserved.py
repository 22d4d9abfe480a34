"""The addresses among the facts, compared with those that the states of the stacks reserve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from holdfast.config.settings import Target
from holdfast.contract.facts import SAME, EnvironmentFacts, OutputsOfStack, sources_for
from holdfast.contract.reserved import KINDS, CheckedAddress, ReservedAddress, check_reserved
from holdfast.kernel.errors import Problem
from holdfast.plans.context import ChangeContext
from holdfast.plans.inputs import read_state_of
from holdfast.terraform.statefile.model import State


async def check_addresses(
    context: ChangeContext,
    target: Target,
    built: Sequence[EnvironmentFacts],
    sources: Sequence[OutputsOfStack],
) -> tuple[tuple[CheckedAddress, ...], tuple[Problem, ...]]:
    """Those that are right, and what is wrong with the others. States are read once in a command."""
    settings = target.facts
    if settings is None or not settings.reserved:
        return (), ()
    names = [source.stack for source in sources]
    stacks = context.project.stacks
    states = await asyncio.gather(
        *(context.states.read(name, partial(read_state_of, context, stacks[name])) for name in names)
    )
    reserved = [
        ReservedAddress(
            stack=name, address=resource.address, type=resource.type, attributes=resource.read() or {}
        )
        for name, state in zip(names, states, strict=True)
        if isinstance(state, State)
        for resource in state.resources or ()
        if resource.type in KINDS and resource.mode == "managed" and resource.deposed is None
    ]
    checked: list[CheckedAddress] = []
    problems: list[Problem] = []
    for facts in built:
        own = {source.stack for source in sources_for(facts.environment, sources)}
        for fact, template in settings.reserved.items():
            if fact in facts.absent:
                continue
            resource = template.replace("{environment}", facts.environment)
            result = check_reserved(
                fact,
                facts.facts.get(fact),
                environment=facts.environment,
                resource=resource,
                found=tuple(one for one in reserved if one.stack in own and one.address == resource),
                account=settings.accounts.get(facts.environment)
                or settings.accounts.get(SAME.get(facts.environment, "")),
            )
            if isinstance(result, Problem):
                problems.append(result)
            else:
                checked.append(result)
    return tuple(checked), tuple(problems)
