"""Builds the rules' input from a repository and a selection of stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date

from msgspec.structs import replace

from holdfast.checks.model.subjects import CheckedStack, Checkout, Module, VariablesFile
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code, is_auto_loaded, is_code
from holdfast.hcl.eval.worktree import PathKind
from holdfast.hcl.nodes import File
from holdfast.stacks.stack import Stack
from holdfast.system.repository import NOT_SOURCE

_VARIABLES = (".tfvars", ".tfvars.json")


def build_checkout(
    config: Config,
    code: Code,
    *,
    stacks: Sequence[Stack],
    all_stacks: Sequence[Stack],
    files: Iterable[str],
    tracked: frozenset[str] | None,
    today: date,
    whole: bool = True,
    changed: Iterable[str] = (),
    count_authors: Callable[[], int | None] = lambda: None,
) -> Checkout:
    """`whole`: every folder of code, used by a stack or not; otherwise those of `stacks`, and those of
    `changed` files that no stack uses.
    """
    listed = tuple(sorted(files))
    checkout = Checkout(
        config=config,
        code=code,
        all_stacks=tuple(all_stacks),
        files=listed,
        tracked=tracked,
        today=today,
        whole=whole,
        count_authors=count_authors,
    )
    checkout.stacks = tuple(_checked_stacks(checkout, stacks))
    folders = {folder for stack in checkout.stacks for folder in stack.folders}
    unused = listed if whole else _unused_files(checkout, changed, folders)
    templates = {file.template for stack in all_stacks for file in stack.generate.values()}
    unused = tuple(path for path in unused if path not in templates)
    folders.update(_folder(path) for path in unused if _is_source(path) and is_code(path.rpartition("/")[2]))
    checkout.modules = tuple(module for module in _modules(checkout, folders) if module.code.exists)
    checkout.variables_files = tuple(_variables_files(checkout, unused))
    for other in {id(stack.checkout): stack.checkout for stack in checkout.stacks}.values():
        other.stacks, other.modules = checkout.stacks, checkout.modules
        other.variables_files = checkout.variables_files
    return checkout


def _checked_stacks(checkout: Checkout, stacks: Iterable[Stack]) -> Iterable[CheckedStack]:
    """Each stack in the repository as it has it: with its generated files."""
    checkouts: dict[frozenset[tuple[str, str]], Checkout] = {frozenset(): checkout}
    for stack in stacks:
        key = frozenset(stack.generated.items())
        if key not in checkouts:
            code = checkout.code.with_files(stack.generated)
            checkouts[key] = replace(checkout, code=code, _modules={})
        yield CheckedStack(checkout=checkouts[key], stack=stack)


def _modules(checkout: Checkout, folders: Iterable[str]) -> Iterable[Module]:
    """The folders as their stacks have them: with the generated files of each."""
    own: dict[str, dict[int, Module]] = {}
    for stack in checkout.stacks:
        own.setdefault(stack.stack.module, {})[id(stack.module)] = stack.module
    for folder in sorted(folders):
        yield from own[folder].values() if folder in own else (checkout.module(folder),)


def _unused_files(checkout: Checkout, changed: Iterable[str], folders: set[str]) -> tuple[str, ...]:
    """Changed files that no stack uses, which would otherwise not be checked."""
    others = tuple(path for path in sorted(changed) if _folder(path) not in folders)
    if not others:
        return ()
    used = {
        folder
        for stack in checkout.all_stacks
        for folder in CheckedStack(checkout=checkout, stack=stack).folders
    }
    variables_files = {path for stack in checkout.all_stacks for path in stack.variables_files}
    return tuple(path for path in others if _folder(path) not in used and path not in variables_files)


def _variables_files(checkout: Checkout, unused: Iterable[str]) -> Iterable[VariablesFile]:
    users: dict[str, list[CheckedStack]] = {}
    for stack in checkout.stacks:
        folder = stack.stack.module
        names = checkout.code.tree.names(folder)
        own = [checkout.code.tree.join(folder, name) for name in names if is_auto_loaded(name)]
        for path in dict.fromkeys((*own, *stack.stack.variables_files)):
            users.setdefault(path, []).append(stack)
    for path in unused:
        if path.endswith(_VARIABLES) and _is_source(path):
            users.setdefault(path, [])
    for path in sorted(users):
        file: File | None = checkout.code.file(path)
        if file is not None:
            yield VariablesFile(checkout=checkout, path=path, file=file, stacks=tuple(users[path]))


def _is_source(path: str) -> bool:
    return not any(part in NOT_SOURCE for part in path.split("/"))


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def code_files(checkout: Checkout) -> Iterable[str]:
    """Code and variables files of the checkout: no other file, because Git may ignore it.

    And links beside the code that lead out of the repository.
    """
    tree = checkout.code.tree
    for module in checkout.modules:
        for name in tree.names(module.folder):
            path = tree.join(module.folder, name)
            if is_code(name) or name.endswith(".hcl"):
                if tree.kind(path) is PathKind.FILE:
                    yield path
            elif tree.leads_outside(path):
                yield path
    yield from {file.path for file in checkout.variables_files}
