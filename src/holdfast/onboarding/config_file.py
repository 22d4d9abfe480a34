"""Writes the starter configuration, once it is verified that it finds the announced stacks."""

from __future__ import annotations

import functools
from pathlib import Path

from msgspec.structs import replace

from holdfast.config.read import FILE_NAME, parse
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import ConfigError, Failed, UsageError
from holdfast.onboarding.scan import RepositoryScan
from holdfast.onboarding.starter import Starter, starter_from_scan
from holdfast.onboarding.translators.translation import hold_back_invalid
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import FolderTree
from holdfast.stacks.reads.remote_states import derived_dependencies, stack_backend
from holdfast.stacks.scope import variables_reader
from holdfast.stacks.stack import Stack
from holdfast.system import files

_MODE = 0o644


def config_path(here: Path, git_root: Path | None) -> Path:
    """An existing holdfast.yaml above `here`, else one at the top of the Git working tree, else one here."""
    if git_root is None or not here.resolve().is_relative_to(git_root.resolve()):
        return here / FILE_NAME
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
        if folder.resolve() == git_root.resolve():
            break
    return git_root / FILE_NAME


def require_new(file: Path) -> None:
    if file.exists():
        raise UsageError(
            "HF-INIT-1",
            f"{file} already exists",
            hint="List its stacks: holdfast stacks. Replace it: holdfast init --force",
        )
    other = file.with_name("holdfast.yml")
    if other.exists():
        raise UsageError(
            "HF-INIT-1",
            f"{other} exists, but Holdfast only reads {file.name}",
            hint=f"Rename it to {file.name}, or write a new file beside it: holdfast init --force",
        )


def verifiable_starter(scan: RepositoryScan, file: Path, code: Code | None = None) -> Starter:
    """The starter of a scan; a translated entry that Holdfast would refuse is held back, with the reason.

    `code`: the code of the repository, if it was read already.
    """
    starter = starter_from_scan(scan)
    while starter.translation is not None and scan.translation is not None:
        try:
            _read(starter.text, file, code)
        except ConfigError as error:
            translation = hold_back_invalid(scan.translation, starter.text, error.problems)
        else:
            break
        if translation == scan.translation:
            break
        scan = replace(scan, translation=translation)
        starter = starter_from_scan(scan)
    return starter


def write_verified(starter: Starter, file: Path, code: Code | None = None) -> tuple[Stack, ...]:
    """Read the starter as every other command will, and write it only if it finds the announced stacks."""
    stacks = _discover(starter.text, file, code)
    different = {stack.name for stack in stacks} ^ set(starter.stacks)
    if different:
        raise _wrong_starter(f"the generated file finds other stacks: {', '.join(sorted(different)[:3])}")
    try:
        files.write(file, starter.text, mode=_MODE)
    except OSError as error:
        raise Failed(
            "HF-INIT-4",
            f"cannot write {file}: {error.strerror}",
            hint="Check that you can write to this folder.",
        ) from None
    return stacks


def _read(text: str, file: Path, code: Code | None) -> tuple[Stack, ...]:
    root = file.parent
    code = code or Code(root)
    return discover(
        parse(text, file=file.name, root=root, path=file),
        files=FolderTree(root),
        read_values=variables_reader(code.tree),
        code_backend=functools.partial(stack_backend, code),
        derive=functools.partial(derived_dependencies, lambda _: code),
    )


def _discover(text: str, file: Path, code: Code | None) -> tuple[Stack, ...]:
    try:
        return _read(text, file, code)
    except ConfigError as error:
        elsewhere = tuple(
            problem for problem in error.problems if problem.place and problem.place.file != file.name
        )
        if elsewhere:
            raise ConfigError(elsewhere) from None
        raise _wrong_starter(f"the generated file is invalid: {error.problem.message}") from None


def _wrong_starter(why: str) -> Failed:
    return Failed(
        "HF-INIT-3",
        f"{why}. Nothing was written",
        hint="This is a bug in Holdfast; please report it. Write the file by hand: docs/configuration.md",
    )
