"""`holdfast output`: the outputs of a stack."""

from __future__ import annotations

import json
from typing import Annotated

from holdfast.cli.command import Argument, Invocation
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit, UsageError


def output(
    invocation: Invocation,
    stack_name: OneStack,
    name: Annotated[str | None, Argument(metavar="NAME", help="Only this output.")] = None,
) -> Exit:
    """Show the outputs of a stack, sensitive ones masked."""
    from holdfast.cli.context import run_on_stack
    from holdfast.secrets.redact import clean_value
    from holdfast.states.operations import outputs
    from holdfast.terraform.statefile.sensitive import sensitive_in_outputs

    stack, content = run_on_stack(invocation, stack_name, outputs, reads=True)
    redactor = invocation.console.redactor
    redactor.register_all(sensitive_in_outputs(content))
    by_name = json.loads(content or b"{}")
    shown = {
        key: {"value": None if output["sensitive"] else output["value"], "sensitive": output["sensitive"]}
        for key, output in sorted(by_name.items())
        if name is None or key == name
    }
    if name is not None and not shown:
        raise UsageError(
            "HF-USE-9",
            f"{stack.name} has no output `{name}`",
            hint=f"It has: {', '.join(sorted(by_name)) or 'none'}.",
        )

    def show() -> None:
        for key, output in shown.items():
            cleaned = clean_value(redactor, key, output["value"])
            value = cleaned if isinstance(cleaned, str) else json.dumps(cleaned, ensure_ascii=False)
            value = "(sensitive)" if output["sensitive"] else value
            invocation.console.line(value if name is not None else f"{key} = {value}")
        if not shown:
            invocation.console.say(f" {stack.name} has no outputs")

    return invocation.answer({"version": 1, "stack": stack.name, "outputs": shown}, show)
