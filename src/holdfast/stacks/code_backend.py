"""The backend that a module's code names, in the words that the rest of the program uses."""

from __future__ import annotations

from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.values import known
from holdfast.stacks.backend import CodeBackend


def code_backend(code: Code, module: str) -> CodeBackend | None:
    """None where the code names no backend; a `cloud` block is one of type `cloud`."""
    found = code.module(module)
    if found.backend is not None:
        plain = {name: value for name, value in found.backend.settings.items() if known(value)}
        return CodeBackend(
            type=found.backend.type,
            settings=plain,
            computed=tuple(name for name in found.backend.settings if name not in plain),
        )
    if found.cloud is not None:
        return CodeBackend(type="cloud")
    return None
