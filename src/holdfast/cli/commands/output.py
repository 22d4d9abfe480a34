"""`holdfast output`: the outputs of a stack."""

from __future__ import annotations

import json
from typing import Annotated

from holdfast.cli.command import Argument, Group, Invocation, command
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit, UsageError


def register(app: Group) -> None:
    command(app, "output")(output)


def output(
    invocation: Invocation,
    stack_name: OneStack,
    name: Annotated[str | None, Argument(metavar="NAME", help="Only this output.")] = None,
) -> Exit:
    """Show the outputs of a stack, sensitive ones masked."""
    from holdfast.cli.context import run_on_stack
    from holdfast.secrets.redact_document import clean_value
    from holdfast.states.operations import outputs
    from holdfast.terraform.statefile.sensitive import sensitive_in_outputs

    stack, content = run_on_stack(invocation, stack_name, outputs)
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
    if invocation.as_json:
        invocation.document({"version": 1, "stack": stack.name, "outputs": shown})
        return Exit.DONE
    for key, output in shown.items():
        cleaned = clean_value(redactor, key, output["value"])
        value = "(sensitive)" if output["sensitive"] else _text(cleaned)
        invocation.console.line(value if name is not None else f"{key} = {value}")
    if not shown:
        invocation.console.say(f" {stack.name} has no outputs")
    return Exit.DONE


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
