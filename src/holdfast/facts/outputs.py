"""The outputs of the stacks of a target, from their states."""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.config.problems import did_you_mean
from holdfast.config.settings import Config, Target
from holdfast.contract.comparison import OutputValue
from holdfast.contract.facts import OutputsOfStack
from holdfast.contract.reading import BUILT_IN, InvalidContract, built_in, read_contract
from holdfast.contract.schema import Contract
from holdfast.kernel.errors import ConfigError, UsageError
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.inputs import read_state_of
from holdfast.stacks.stack import Stack
from holdfast.system import files
from holdfast.terraform.plan.values import texts
from holdfast.terraform.statefile.model import State


def target_named(config: Config, name: str) -> Target:
    target = next((target for target in config.targets if target.name == name), None)
    if target is None:
        names = tuple(target.name for target in config.targets)
        hint = did_you_mean(name, names) or f"The targets are: {', '.join(names) or 'none'}."
        raise UsageError("HF-USE-60", f"there is no target `{name}`", hint=hint)
    return target


def stacks_of(project: Project, target: Target) -> tuple[Stack, ...]:
    """Those whose outputs the contract of the target is about; without a contract, all of them."""
    stacks = (stack for stack in project.stacks.values() if stack.target == target)
    return tuple(stack for stack in stacks if target.contract is None or stack.contract is not None)


async def read_outputs(context: ChangeContext, target: Target) -> tuple[OutputsOfStack, ...]:
    """Of every stack at once. A state that cannot be read is an error, never a missing output."""
    contract = await asyncio.to_thread(contract_of, context.project, target)
    stacks = stacks_of(context.project, target)
    states = await asyncio.gather(
        *(context.states.read(stack.name, partial(read_state_of, context, stack)) for stack in stacks)
    )
    sources: list[OutputsOfStack] = []
    for stack, state in zip(stacks, states, strict=True):
        outputs = (state.outputs or ()) if isinstance(state, State) else ()
        values = {
            output.name: OutputValue(value=output.read(), sensitive=output.sensitive) for output in outputs
        }
        for value in values.values():
            if value.sensitive:
                context.redactor.register_all(texts(value.value))
        sources.append(
            OutputsOfStack(stack=stack.name, environment=stack.environment, outputs=values, contract=contract)
        )
    return tuple(sources)


def contract_of(project: Project, target: Target) -> Contract | None:
    if target.contract is None:
        return None
    schema = target.contract.schema
    if schema in BUILT_IN:
        return built_in(schema)
    contract = read_contract(files.read_text(project.root / schema), file=schema)
    if isinstance(contract, InvalidContract):
        raise ConfigError(contract.problems)
    return contract
