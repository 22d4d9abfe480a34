"""Any reading command of Terraform on a stack, with its files, its environment and its backend."""

from __future__ import annotations

from holdfast.plans.context import ChangeContext
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import open_workdir
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.interface import CommandResult
from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

_SHOW_VALUES = (("console",), ("output",), ("show",), ("state",))
"""What prints values of the state, and marks in the text none of those that are sensitive."""


async def run_read_only(context: ChangeContext, stack: Stack, words: tuple[str, ...]) -> CommandResult:
    async with open_workdir(context, stack, for_state=True) as ready:
        terraform = Terraform(context, ready)
        await terraform.init()
        if words[:1] in _SHOW_VALUES:
            context.redactor.register_all(sensitive_in_state(read_state(await terraform.state_pull())))
        return await terraform.read(words)
