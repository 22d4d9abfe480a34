"""`fmt` and `validate`: whether code is formatted and valid, before anything is planned.

`fmt` works on a copy; the source changes only with `fix`. Neither state nor run store is read. Secrets are
read only if init or a provider turns out to need them.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import stat
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.checks.model.subjects import CheckedStack, Checkout, EngineOutput
from holdfast.kernel.errors import HoldfastError, Problem
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Engines
from holdfast.plans.errors import Cancelled, TerraformFailed, command_error, problem_from_diagnostic
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import open_workdir
from holdfast.secrets.stack_secrets import references_of, without_secrets, without_values
from holdfast.stacks.stack import Stack
from holdfast.system import clock, files
from holdfast.system.files import file_error
from holdfast.terraform import argv
from holdfast.terraform.diagnostics import Diagnostic, read_validation
from holdfast.terraform.engine.interface import CommandResult, EngineId, Product
from holdfast.terraform.stream import CommandOutput

_FORMATTED = {
    Product.TERRAFORM: (".tftest.hcl", ".tfmock.hcl", ".tfvars", ".tf"),
    Product.TOFU: (".tofutest.hcl", ".tftest.hcl", ".tfmock.hcl", ".tfvars", ".tofu", ".tf"),
}
"""Suffixes of the files that `fmt` formats."""


class _Group(Struct, frozen=True, kw_only=True):
    """The stacks of one root module that one engine runs: one of them is checked for all."""

    engine: EngineId
    stacks: tuple[CheckedStack, ...]
    paths: tuple[str, ...]
    """Files to format that belong to no other group."""
    unused_folders: tuple[str, ...] = ()
    """Folders that no stack uses, if their files are in `paths`."""


class _Validity(Struct, frozen=True, kw_only=True):
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()
    initialised: bool = True


class Format(MaskedStruct, frozen=True, kw_only=True):
    formatted: Mapping[str, bytes] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    why_not: str | None = None


async def run_fmt_validate(
    context: ChangeContext, stacks: Sequence[CheckedStack], *, fix: bool = False
) -> tuple[EngineOutput, ...]:
    """Each root module once per engine that runs it; `fix` formats the source.

    What cannot be checked says why; only a request to stop is raised.
    """
    groups, without_engine = _groups(context.engines, stacks)
    outputs = await asyncio.gather(*(_check(context, group, fix=fix) for group in groups))
    return (*outputs, *without_engine)


def _groups(
    engines: Engines, stacks: Iterable[CheckedStack]
) -> tuple[list[_Group], tuple[EngineOutput, ...]]:
    together: dict[tuple[str, EngineId], list[CheckedStack]] = {}
    without_engine: list[EngineOutput] = []
    for stack in stacks:
        try:
            engine = engines.choose(stack.stack).engine
        except HoldfastError as error:
            without_engine.append(_skipped(stack, _reason(error)))
            continue
        together.setdefault((stack.stack.module, engine), []).append(stack)
    taken: set[str] = set()
    groups: list[_Group] = []
    for (_, engine), members in together.items():
        paths = tuple(path for path in paths_to_format(members, engine) if path not in taken)
        taken.update(paths)
        groups.append(_Group(engine=engine, stacks=tuple(members), paths=paths))
    return [_with_unused(group, taken, first=group is groups[0]) for group in groups], tuple(without_engine)


def _with_unused(group: _Group, taken: set[str], *, first: bool) -> _Group:
    """Files that no stack uses are formatted by the first engine that can."""
    checkout = group.stacks[0].checkout
    unused = tuple(module.folder for module in checkout.modules if not module.stacks)
    variables = (file.path for file in checkout.variables_files)
    paths = _formattable(checkout, (*_files_in(checkout, unused), *variables), group.engine)
    more = tuple(path for path in dict.fromkeys(paths) if path not in taken)
    taken.update(more)
    return replace(group, paths=(*group.paths, *more), unused_folders=unused if first else ())


def _skipped(stack: CheckedStack, why: str, unused_folders: tuple[str, ...] = ()) -> EngineOutput:
    folder = stack.stack.module
    return EngineOutput(
        stack=stack, folder=folder, validate_skipped=why, fmt_skipped=why, unused_folders=unused_folders
    )


def paths_to_format(stacks: Sequence[CheckedStack], engine: EngineId) -> list[str]:
    """Every file of the modules, and the variables files, that `fmt` of this engine formats."""
    paths: dict[str, None] = {}
    for stack in stacks:
        paths.update(dict.fromkeys(_files_in(stack.checkout, sorted(stack.folders))))
        paths.update(dict.fromkeys(stack.stack.variables_files))
    return _formattable(stacks[0].checkout, paths, engine) if stacks else []


def _files_in(checkout: Checkout, folders: Iterable[str]) -> list[str]:
    tree = checkout.code.tree
    return [tree.join(folder, name) for folder in folders for name in tree.names(folder)]


def _formattable(checkout: Checkout, paths: Iterable[str], engine: EngineId) -> list[str]:
    """Files in `.terraform` and files that Git ignores are not formatted."""
    ours = checkout.code.once(("files", "all"), lambda: frozenset(checkout.files))
    return [path for path in paths if path.endswith(_FORMATTED[engine.product]) and path in ours]


async def _check(context: ChangeContext, group: _Group, *, fix: bool) -> EngineOutput:
    """The first stack that works is checked for all: they have the same code."""
    async with context.engines.slots:
        why = ""
        for stack in group.stacks:
            try:
                return await _check_stack(context, group, stack, fix=fix)
            except Cancelled:
                raise
            except (HoldfastError, OSError) as error:
                why = why or _reason(file_error(error) if isinstance(error, OSError) else error)
        return _skipped(group.stacks[0], why, group.unused_folders)


async def _check_stack(
    context: ChangeContext, group: _Group, stack: CheckedStack, *, fix: bool
) -> EngineOutput:
    async with _open_terraform(context, without_secrets(stack.stack)) as terraform:
        form = await check_format(terraform, group.paths, fix=fix)
        valid = await _validate(terraform)
    skipped = None
    with_secrets = without_values(stack.stack)
    if references_of(replace(with_secrets, backend=None)) and _may_miss_a_secret(stack, valid):
        try:
            async with _open_terraform(context, with_secrets) as terraform:
                valid = await _validate(terraform)
        except Cancelled:
            raise
        except HoldfastError as error:
            if not valid.initialised:
                without = "; ".join(problem.message for problem in valid.problems)
                skipped, valid = f"{_reason(error)}; without it: {without}", _Validity(problems=())
    return EngineOutput(
        stack=stack,
        folder=stack.stack.module,
        formatted=form.formatted,
        fixed=form.fixed,
        fmt_skipped=form.why_not,
        problems=valid.problems,
        warnings=valid.warnings,
        validate_skipped=skipped,
        unused_folders=group.unused_folders,
    )


@contextlib.asynccontextmanager
async def _open_terraform(context: ChangeContext, stack: Stack) -> AsyncIterator[Terraform]:
    """Without its state: the code can be checked even if that is damaged."""
    async with open_workdir(context, stack, for_state=True, stateless=True) as workdir:
        yield Terraform(context, workdir)


# Validity


def _may_miss_a_secret(stack: CheckedStack, valid: _Validity) -> bool:
    """Only init (private registries) and provider settings can need a secret of the environment."""
    if not valid.initialised:
        return True
    modules = [stack.checkout.module(folder) for folder in stack.folders]
    settings = [block for module in modules for block in module.blocks("provider")]
    return any(
        place is None
        or any(
            block.file == place.file and block.line <= (place.line or 0) <= block.end_line
            for block in settings
        )
        for place in (problem.place for problem in valid.problems)
    )


async def _validate(terraform: Terraform) -> _Validity:
    """Errors count only after a real init: a cached one may be the reason for them."""
    try:
        await terraform.init()
    except TerraformFailed as error:
        return _Validity(problems=error.problems, initialised=False)
    try:
        diagnostics = await _diagnostics(terraform)
        if any(diagnostic.is_error for diagnostic in diagnostics):
            await terraform.validate()
            diagnostics = await _diagnostics(terraform)
    except TerraformFailed as error:
        return _Validity(problems=error.problems)
    errors, warnings = (
        tuple(
            problem_from_diagnostic(terraform.workdir, "HF-TF-2", diagnostic)
            for diagnostic in diagnostics
            if diagnostic.is_error is wanted
        )
        for wanted in (True, False)
    )
    return _Validity(problems=errors, warnings=warnings)


async def _diagnostics(terraform: Terraform) -> Sequence[Diagnostic]:
    answer = await terraform.read(argv.VALIDATE)
    _require_end(terraform, answer, "validate")
    return read_validation(answer.out).diagnostics


# Format


async def check_format(terraform: Terraform, paths: Sequence[str], *, fix: bool) -> Format:
    """Copies have new names, because `fmt` skips folders whose name starts with a dot.

    Files with the same content share one copy: those of many stacks do. Unreadable ones are left out: they
    are reported as such.
    """
    root, code = terraform.context.project.root, terraform.context.project.code
    readable = (path for path in paths if code.unreadable(path) is None)
    before = {path: content for path in readable if (content := files.content_of(root / path)) is not None}
    if not before:
        return Format()
    folder = files.private_folder(terraform.context.engines.scratch / f"fmt-{clock.random_token(6)}")
    try:
        keys = {path: (_suffix(path), content) for path, content in before.items()}
        copies = {key: folder / f"{number}{key[0]}" for number, key in enumerate(set(keys.values()))}
        for (_, content), copy in copies.items():
            files.write(copy, content, durable=False)
        answer = await terraform.read(("fmt", "-list=false", "-no-color", str(folder)))
        _require_end(terraform, answer, "fmt")
        formatted = {key: copy.read_bytes() for key, copy in copies.items()}
        after = {path: formatted[key] for path, key in keys.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    fixed = _write_back(root, before, after) if fix else ()
    return Format(
        formatted={path: content for path, content in after.items() if path not in fixed},
        fixed=fixed,
        why_not=None if answer.code == 0 else "fmt could not read every file",
    )


def _suffix(path: str) -> str:
    return next(suffix for suffix in _FORMATTED[Product.TOFU] if path.endswith(suffix))


def _write_back(root: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Atomically, file by file. A file that changed meanwhile, or is outside the root, is not written."""
    fixed: list[str] = []
    for path, content in after.items():
        file = (root / path).resolve()
        if content == before[path] or not file.is_relative_to(root.resolve()):
            continue
        if files.content_of(file) == before[path]:
            files.write(file, content, mode=stat.S_IMODE(file.stat().st_mode))
            fixed.append(path)
    return tuple(fixed)


def _require_end(terraform: Terraform, answer: CommandResult, command: str) -> None:
    """Raise unless Terraform exited by itself."""
    if answer.timed_out or answer.interrupted or answer.killed:
        raise command_error(terraform.workdir, command, answer, CommandOutput())


def _reason(error: HoldfastError) -> str:
    return f"{error.problem.code} {error.problem.message}"
