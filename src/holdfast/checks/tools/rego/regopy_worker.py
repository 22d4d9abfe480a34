"""regopy, in a process of its own: it can take the whole process with it, and has done so.

Reads one document from standard input and writes one to standard output. What the library itself prints goes
to standard error. Results are only ever taken as the text of an `Output`: `binding` ends the process where a
result is undefined, and a node that outlives its output reads freed memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_ERROR = "<error>"


def answer(
    modules: Mapping[str, str], queries: Mapping[str, Sequence[str]], documents: Sequence[str]
) -> list[list[str | dict[str, str]]]:
    """For every document and package its value: JSON, `undefined` or `<error>`.

    Where the package as a whole is an error, each of its rules by itself.
    """
    from regopy import Interpreter  # noqa: PLC0415 - what may break does so where it is caught

    interpreter = Interpreter()
    # Without this a built-in that fails makes the rule around it silently give nothing.
    interpreter.strict_built_in_errors = True
    for name, text in modules.items():
        interpreter.add_module(name, text)
    found: list[list[str | dict[str, str]]] = []
    for document in documents:
        # Not `set_input`: it does not escape what it is given.
        interpreter.set_input_term(document)
        found.append([_package(interpreter, package, rules) for package, rules in queries.items()])
    return found


def _package(interpreter: Any, package: str, rules: Sequence[str]) -> str | dict[str, str]:
    whole = str(interpreter.query(f"data.{package}"))
    if whole != _ERROR:
        return whole
    return {rule: str(interpreter.query(f"data.{package}.{rule}")) for rule in rules}


def main() -> None:
    real = os.dup(1)
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.buffer.read())
    try:
        said: dict[str, object] = {"results": answer(asked["modules"], asked["queries"], asked["documents"])}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said
        said = {"error": f"{type(error).__name__}: {error}"}
    with os.fdopen(real, "w", encoding="utf-8") as out:
        json.dump(said, out)


if __name__ == "__main__":
    sys.path[:0] = sys.argv[1].split(os.pathsep) if len(sys.argv) > 1 else []
    main()
