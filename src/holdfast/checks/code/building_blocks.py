"""Modules that are written to be called, here or elsewhere, and not to be applied on their own. Pure."""

from __future__ import annotations

from holdfast.checks.model.subjects import CheckedStack, Module
from holdfast.hcl.reader import Unknown


def is_building_block(module: Module) -> bool:
    """Whether it names no backend, and no stack that could be applied uses it."""
    key = ("building block", id(module))
    return module.checkout.code.once(
        key, lambda: not _has_backend(module) and all(map(_is_template, module.stacks))
    )


def is_called_with_a_backend(module: Module) -> bool:
    """Whether a root module with a backend calls it, maybe through others: no stack may be configured yet."""
    checkout = module.checkout

    def find() -> frozenset[str]:
        folders = {other.folder for other in checkout.modules if _has_backend(other)}
        waiting = list(folders)
        while waiting:
            called = checkout.module(waiting.pop()).called - folders
            folders |= called
            waiting += called
        return frozenset(folders)

    return module.folder in checkout.code.once(("called with a backend", id(checkout)), find)


def _has_backend(module: Module) -> bool:
    return module.code.backend is not None or module.code.cloud is not None


def _is_template(stack: CheckedStack) -> bool:
    """Whether the root module of a stack has no backend, configures no provider, and lacks values.

    Such a folder of a module collection looks like a root module only because nothing calls it.
    """
    root, entry = stack.module, stack.stack
    if entry.backend is not None or _has_backend(root) or next(root.blocks("provider"), None) is not None:
        return False
    elsewhere = {*entry.variables, *entry.inputs, *(name.removeprefix("TF_VAR_") for name in entry.env)}
    return any(
        variable.default is None
        and name not in elsewhere
        and isinstance(stack.scope.variables.get(name), Unknown | None)
        for name, variable in root.code.variables.items()
    )
