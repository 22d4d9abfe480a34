"""Any reading command of Terraform on a stack, with its files, its environment and its backend."""

from __future__ import annotations

from holdfast.runs.phases import Terraform
from holdfast.runs.prepare import prepared
from holdfast.runs.session import Session
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine import Answer
from holdfast.terraform.sensitive import sensitive_in_state

_SHOW_VALUES = (("console",), ("output",), ("show",), ("state",))
"""What prints values of the state, and marks in the text none of those that are sensitive."""


async def run_reading(session: Session, stack: Stack, words: tuple[str, ...]) -> Answer:
    async with prepared(session, stack, for_state=True) as ready:
        terraform = Terraform(session, ready)
        await terraform.init()
        if words[:1] in _SHOW_VALUES:
            session.redactor.register_all(sensitive_in_state(await terraform.state_pull()))
        return await terraform.read(words)
