"""`holdfast config`: what the configuration means for a stack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation
from holdfast.cli.parameters import OneStack
from holdfast.kernel.errors import Exit
from holdfast.kernel.text import cut

if TYPE_CHECKING:
    from holdfast.secrets.redact import Redactor
    from holdfast.stacks.effective import Setting

HELP = "Show the effective configuration of a stack."
COMMANDS = ("show",)
_WIDEST = 40
_LONGEST = 200


def show(invocation: Invocation, stack_name: OneStack) -> Exit:
    """Show the settings of a stack and the source of each value. Secrets stay references."""
    from holdfast.changes.repository import open_repository, stack_scope
    from holdfast.stacks.effective import Setting, effective_settings, effective_variables

    repository = open_repository(invocation.config, invocation.environment)
    redactor = invocation.console.redactor
    repository.tune(redactor)
    stack = repository.stack(stack_name)
    scope = stack_scope(repository, stack)
    settings = [_row(redactor, "key", setting) for setting in effective_settings(stack, scope)]
    if not any(str(row["key"]).startswith("backend.") for row in settings):
        managed = (type_ := repository.backend_type(stack)) == "holdfast"
        where = "managed by Holdfast, in the run store" if managed else "the code"
        settings.append(_row(redactor, "key", Setting(key="backend.type", value=type_, source=where)))
    variables = [
        {**_row(redactor, "name", variable), "sensitive": variable.sensitive}
        for variable in effective_variables(stack, repository.code, scope)
    ]

    def print_rows() -> None:
        invocation.console.say(f" {stack.name}")
        was_cut = _print(invocation, "key", settings)
        if variables:
            invocation.console.say("")
            invocation.console.say(" Variables, without -var and -var-file")
            was_cut = _print(invocation, "name", variables) or was_cut
        if was_cut:
            invocation.console.say("")
            invocation.console.say((" Long values are cut; --verbose shows them whole.", "dim"))

    document = {"version": 1, "stack": stack.name, "settings": settings, "variables": variables}
    return invocation.answer(document, print_rows)


def _row(redactor: Redactor, key: str, setting: Setting) -> dict[str, object]:
    from holdfast.secrets.redact import clean_value

    place = setting.place
    return {
        key: setting.key,
        "value": clean_value(redactor, setting.key.rpartition(".")[2], setting.value),
        "source": setting.source,
        "file": place.file if place is not None else None,
        "line": place.line if place is not None else None,
    }


def _print(invocation: Invocation, key: str, rows: list[dict[str, object]]) -> bool:
    """Whether it cut a value."""
    whole = [_text(row) for row in rows]
    longest = None if invocation.verbose else _LONGEST
    texts = [(str(row[key]), cut(text, longest), row) for row, text in zip(rows, whole, strict=True)]
    names = max((len(name) for name, _, _ in texts), default=0)
    values = min(max((len(text) for _, text, _ in texts), default=0), _WIDEST)
    for name, text, row in texts:
        line = "" if row["line"] is None else f":{row['line']}"
        where = f"{row['source']} ({row['file']}{line})" if row["file"] is not None else str(row["source"])
        if len(text) > values:  # The source begins in its column in every row.
            invocation.console.line(f"  {name:<{names}}  {text}")
            name = text = ""  # noqa: PLW2901 - both are printed
        invocation.console.line(f"  {name:<{names}}  {text:<{values}}  ", (where, "dim"))
    return longest is not None and any(len(text) > longest for text in whole)


def _text(row: dict[str, object]) -> str:
    value = "(sensitive)" if row.get("sensitive") else row["value"]
    if isinstance(value, dict) and "output" in value:
        mock = (
            f", mock {json.dumps(value['mock'], ensure_ascii=False)}" if value.get("mock") is not None else ""
        )
        return f"output {value['output']}{mock}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
