"""`holdfast config`: what the configuration means for a stack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit

if TYPE_CHECKING:
    from holdfast.kernel.errors import Place

HELP = "Show the effective configuration of a stack."
COMMANDS = ("show",)
_WIDEST = 40


def show(invocation: Invocation, stack_name: OneStack) -> Exit:
    """Show the effective configuration of a stack and the source of each value. Secrets stay references."""
    from holdfast.changes.repository import open_repository, stack_scope
    from holdfast.secrets.redact import clean_value
    from holdfast.stacks.effective import effective_settings, effective_variables

    repository = open_repository(invocation.config, invocation.environment)
    redactor = invocation.console.redactor
    repository.tune(redactor)
    stack = repository.stack(stack_name)
    scope = stack_scope(repository, stack)
    settings = [
        {
            "key": setting.key,
            "value": clean_value(redactor, setting.key.rpartition(".")[2], setting.value),
            "source": setting.source,
            **_place(setting.place),
        }
        for setting in effective_settings(stack, scope)
    ]
    variables = [
        {
            "name": variable.name,
            "value": clean_value(redactor, variable.name, variable.value),
            "sensitive": variable.sensitive,
            "source": variable.source,
            **_place(variable.place),
        }
        for variable in effective_variables(stack, repository.code, scope)
    ]

    def print_rows() -> None:
        invocation.console.say(f" {stack.name}")
        _print(invocation, [(str(row["key"]), row) for row in settings])
        if variables:
            invocation.console.say("")
            invocation.console.say(" Variables, without -var and -var-file")
            _print(invocation, [(str(row["name"]), row) for row in variables])

    document = {"version": 1, "stack": stack.name, "settings": settings, "variables": variables}
    return invocation.answer(document, print_rows)


def _place(place: Place | None) -> dict[str, object]:
    return {"file": place.file if place else None, "line": place.line if place else None}


def _print(invocation: Invocation, rows: list[tuple[str, dict[str, object]]]) -> None:
    texts = [(name, _text(row), row) for name, row in rows]
    names = max((len(name) for name, _, _ in texts), default=0)
    values = min(max((len(text) for _, text, _ in texts), default=0), _WIDEST)
    for name, text, row in texts:
        where = str(row["source"])
        if row["file"] is not None:
            where += f" ({row['file']}{'' if row['line'] is None else ':' + str(row['line'])})"
        invocation.console.line(f"  {name:<{names}}  {text:<{values}}  ", (where, "dim"))


def _text(row: dict[str, object]) -> str:
    if row.get("sensitive"):
        return "(sensitive)"
    value = row["value"]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
