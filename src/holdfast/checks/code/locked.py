"""The lock file of a root module, and the providers that its code requires."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.code.required import RequiredProvider, required_providers
from holdfast.checks.model.subjects import Module
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.hcl.nodes import File
from holdfast.kernel.errors import Place
from holdfast.terraform.lock_file import LockedProvider, read_lock


class LockFile(Struct, frozen=True):
    path: str
    file: File
    providers: tuple[LockedProvider, ...]

    def place_of(self, provider: LockedProvider) -> Place:
        blocks = self.file.body.blocks_of("provider")
        return next(
            (block.place for block in blocks if block.labels == (provider.address,)), Place(file=self.path)
        )


def lock_path(module: Module) -> str:
    return module.checkout.code.tree.join(module.folder, LOCK_FILE)


def lock_file_of(module: Module) -> LockFile | None:
    """None if Git does not track it and would not."""
    path = lock_path(module)
    checkout = module.checkout
    content = checkout.content(path)
    file = checkout.code.file(path) if content is not None and path in checkout.files else None
    return LockFile(path, file, read_lock(content)) if file is not None and content is not None else None


def required_by_root(module: Module) -> Iterator[RequiredProvider]:
    """Providers required by a root module and every local module it calls."""
    folders = dict.fromkeys(folder for stack in module.roots for folder in sorted(stack.folders))
    for folder in folders:
        yield from required_providers(module.checkout.module(folder))
