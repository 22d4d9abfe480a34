"""Runs regopy in a process of its own, because regopy can crash the process.

Reads one JSON document from standard input and writes one to standard output; what the library prints goes to
standard error. Results are only read as the text of an `Output`: `binding` aborts the process on an undefined
result, and a node that outlives its output reads freed memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_ERROR = "<error>"


def evaluate(
    modules: Mapping[str, str], queries: Mapping[str, Sequence[str]], documents: Sequence[str]
) -> list[list[str | dict[str, str]]]:
    """For every document and package its value: JSON, `undefined` or `<error>`.

    If the package as a whole is an error, the value of each of its rules.
    """
    from regopy import Interpreter  # noqa: PLC0415 - an import error is reported like any other

    interpreter = Interpreter()
    # Otherwise a rule whose built-in function fails silently has no value.
    interpreter.strict_built_in_errors = True
    for name, text in modules.items():
        interpreter.add_module(name, text)
    values: list[list[str | dict[str, str]]] = []
    for document in documents:
        # `set_input` does not escape its argument.
        interpreter.set_input_term(document)
        values.append([_package(interpreter, package, rules) for package, rules in queries.items()])
    return values


def _package(interpreter: Any, package: str, rules: Sequence[str]) -> str | dict[str, str]:
    whole = str(interpreter.query(f"data.{package}"))
    if whole != _ERROR:
        return whole
    return {rule: str(interpreter.query(f"data.{package}.{rule}")) for rule in rules}


def main() -> None:
    stdout = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.read())
    try:
        output: dict[str, object] = {
            "results": evaluate(request["modules"], request["queries"], request["documents"])
        }
    except Exception as error:  # noqa: BLE001 - reported by the caller
        output = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(stdout, "w", encoding="utf-8") as file:
        json.dump(output, file)


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1].split(os.pathsep) if len(sys.argv) > 1 else []
    main()
