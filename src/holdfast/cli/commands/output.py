"""`holdfast output`: the outputs of a stack."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit, Failed, UsageError

if TYPE_CHECKING:
    from holdfast.plans.context import ChangeContext
    from holdfast.stacks.stack import Stack


def output(
    invocation: Invocation,
    stack_name: OneStack,
    name: Annotated[str | None, Argument(metavar="NAME", help="Only this output.")] = None,
    raw: Annotated[
        bool,
        Option("--raw", help="Print the value of NAME alone, for scripts; also a sensitive one, audited."),
    ] = False,
) -> Exit:
    """Show the outputs of a stack, sensitive ones masked."""
    from holdfast.audit.entry import Entry
    from holdfast.cli.context import run_on_stack
    from holdfast.secrets.redact import clean_value
    from holdfast.states.operations import outputs
    from holdfast.terraform.statefile.sensitive import sensitive_in_outputs

    if raw and (name is None or invocation.as_json):
        message = "--raw needs the name of one output, and cannot be combined with --json"
        raise UsageError("HF-USE-29", message, hint="Write: holdfast output STACK NAME --raw")

    async def read(context: ChangeContext, stack: Stack) -> bytes:
        content = await outputs(context, stack)
        output = json.loads(content or b"{}").get(name)
        if raw and output is not None and output["sensitive"]:
            _raw_text(stack.name, str(name), output["value"])
            entry = Entry(what="output", stack=stack.name, outcome="done", details={"name": name})
            context.identity.audit.record(entry)  # Without a record it is not printed.
        return content

    stack, content = run_on_stack(invocation, stack_name, read, reads=not raw)
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
    if raw and name is not None:
        sys.stdout.write(_raw_text(stack.name, name, by_name[name]["value"]))
        return Exit.DONE
    if name is not None and shown[name]["sensitive"] and not invocation.as_json:
        raise Failed(
            "HF-OUT-1",
            f"{stack.name}: the output `{name}` is sensitive and was not printed",
            hint="Print it for a script, which the audit log records: "
            f"holdfast output {stack.name} {name} --raw",
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


def _raw_text(stack: str, name: str, value: object) -> str:
    """As `terraform output -raw` prints it: without quotes and without a newline."""
    from holdfast.kernel.text import plain_text

    text = plain_text(value)
    if text is None:
        kind = "null" if value is None else "a list" if isinstance(value, list) else "a map"
        raise Failed(
            "HF-OUT-2",
            f"{stack}: the output `{name}` is {kind}; --raw prints strings, numbers and bools",
            hint=f"Read it as JSON: holdfast output {stack} {name} --json",
        )
    return text
