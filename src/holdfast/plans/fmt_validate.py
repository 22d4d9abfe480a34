"""What Terraform says about code before anything is planned: its format, and whether it is valid.

`fmt` works on a copy. The source is touched only where somebody asks for the format to be written back.
Neither state nor run store is asked for anything. Secrets stay unread, but for those that init or a provider
turn out to need.
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
from holdfast.kernel.errors import EngineError, Failed, HoldfastError, Problem
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Engines
from holdfast.plans.errors import Cancelled, TerraformFailed, first_log_line, problem_from_diagnostic
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import open_workdir
from holdfast.secrets.stack_secrets import references_of, without_secrets, without_values
from holdfast.stacks.stack import Stack
from holdfast.system import clock, files
from holdfast.system.files import file_error
from holdfast.terraform import argv
from holdfast.terraform.diagnostics import Validation, read_validation
from holdfast.terraform.engine.interface import CommandResult, EngineId, Product

_FORMATTED = {
    Product.TERRAFORM: (".tftest.hcl", ".tfmock.hcl", ".tfvars", ".tf"),
    Product.TOFU: (".tofutest.hcl", ".tftest.hcl", ".tfmock.hcl", ".tfvars", ".tofu", ".tf"),
}
"""How the names of files end that `fmt` formats."""


class _Group(Struct, frozen=True, kw_only=True):
    """The stacks of one root module that one engine runs: one of them is asked for all."""

    engine: EngineId
    stacks: tuple[CheckedStack, ...]
    paths: tuple[str, ...]
    """Files that `fmt` looks at, and no other group does."""
    unused_folders: tuple[str, ...] = ()
    """Folders that no stack uses: some of the files are theirs."""

    @property
    def folder(self) -> str:
        return self.stacks[0].stack.module


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
    """Each root module once for every engine that runs it; with `fix` the format is written back.

    What cannot be asked says why; only a wish to stop is raised.
    """
    groups, without = _groups(context.engines, stacks)
    said = await asyncio.gather(*(_asked(context, group, fix=fix) for group in groups))
    return (*said, *without)


def _groups(
    engines: Engines, stacks: Iterable[CheckedStack]
) -> tuple[list[_Group], tuple[EngineOutput, ...]]:
    together: dict[tuple[str, EngineId], list[CheckedStack]] = {}
    without: list[EngineOutput] = []
    for stack in stacks:
        try:
            engine = engines.choose(stack.stack).engine
        except HoldfastError as error:
            why = _words(error)
            said = EngineOutput(stack=stack, folder=stack.stack.module, validate_skipped=why, fmt_skipped=why)
            without.append(said)
            continue
        together.setdefault((stack.stack.module, engine), []).append(stack)
    taken: set[str] = set()
    groups: list[_Group] = []
    for (_, engine), members in together.items():
        paths = tuple(path for path in paths_to_format(members, engine) if path not in taken)
        taken.update(paths)
        groups.append(_Group(engine=engine, stacks=tuple(members), paths=paths))
    return [_with_the_rest(group, taken, first=group is groups[0]) for group in groups], tuple(without)


def _with_the_rest(group: _Group, taken: set[str], *, first: bool) -> _Group:
    """What no stack uses has a format too: the first engine that knows such files is asked."""
    checkout = group.stacks[0].checkout
    alone = tuple(module.folder for module in checkout.modules if not module.stacks)
    variables = (file.path for file in checkout.variables_files)
    rest = _formattable(checkout, (*_files_in(checkout, alone), *variables), group.engine)
    more = tuple(path for path in dict.fromkeys(rest) if path not in taken)
    taken.update(more)
    return replace(group, paths=(*group.paths, *more), unused_folders=alone if first else ())


def paths_to_format(stacks: Sequence[CheckedStack], engine: EngineId) -> list[str]:
    """Every file of the modules, and the variables files, that its `fmt` would format."""
    found: dict[str, None] = {}
    for stack in stacks:
        found.update(dict.fromkeys(_files_in(stack.checkout, sorted(stack.folders))))
        found.update(dict.fromkeys(stack.stack.variables_files))
    return _formattable(stacks[0].checkout, found, engine) if stacks else []


def _files_in(checkout: Checkout, folders: Iterable[str]) -> list[str]:
    tree = checkout.code.tree
    return [tree.join(folder, name) for folder in folders for name in tree.names(folder)]


def _formattable(checkout: Checkout, paths: Iterable[str], engine: EngineId) -> list[str]:
    """Files in `.terraform` and files that Git ignores are not formatted."""
    ours = checkout.code.once(("files", "all"), lambda: frozenset(checkout.files))
    return [path for path in paths if path.endswith(_FORMATTED[engine.product]) and path in ours]


async def _asked(context: ChangeContext, group: _Group, *, fix: bool) -> EngineOutput:
    """The first stack that can be made ready speaks for all: what differs between them is no code."""
    async with context.engines.slots:
        why = ""
        for stack in group.stacks:
            try:
                return await _say(context, group, stack, fix=fix)
            except Cancelled:
                raise
            except (HoldfastError, OSError) as error:
                why = why or _words(file_error(error) if isinstance(error, OSError) else error)
        first = group.stacks[0]
        return EngineOutput(
            stack=first,
            folder=group.folder,
            validate_skipped=why,
            fmt_skipped=why,
            unused_folders=group.unused_folders,
        )


async def _say(context: ChangeContext, group: _Group, stack: CheckedStack, *, fix: bool) -> EngineOutput:
    async with _ready(context, without_secrets(stack.stack)) as terraform:
        form = await check_format(terraform, group.paths, fix=fix)
        valid = await _validity(terraform)
    unseen = None
    needed = without_values(stack.stack)
    if references_of(replace(needed, backend=None)) and _may_miss_a_secret(stack, valid):
        try:
            async with _ready(context, needed) as terraform:
                valid = await _validity(terraform)
        except Cancelled:
            raise
        except HoldfastError as error:
            if not valid.initialised:
                without = "; ".join(problem.message for problem in valid.problems)
                unseen, valid = f"{_words(error)}; without it: {without}", _Validity(problems=())
    return EngineOutput(
        stack=stack,
        folder=group.folder,
        formatted=form.formatted,
        fixed=form.fixed,
        fmt_skipped=form.why_not,
        problems=valid.problems,
        warnings=valid.warnings,
        validate_skipped=unseen,
        unused_folders=group.unused_folders,
    )


@contextlib.asynccontextmanager
async def _ready(context: ChangeContext, stack: Stack) -> AsyncIterator[Terraform]:
    """A state that is damaged or cannot be read does not keep the code from being checked."""
    async with open_workdir(context, stack, for_state=True, stateless=True) as ready:
        yield Terraform(context, ready)


# Validity


def _may_miss_a_secret(stack: CheckedStack, valid: _Validity) -> bool:
    """Only init, for private registries, and the settings of providers see the environment."""
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


async def _validity(terraform: Terraform) -> _Validity:
    """Where init was skipped and should not have been, an error is no answer yet."""
    try:
        await terraform.init()
    except TerraformFailed as error:
        return _Validity(problems=error.problems, initialised=False)
    try:
        found = await _validated(terraform)
        if any(one.is_error for one in found.diagnostics):
            await terraform.validate()
            found = await _validated(terraform)
    except TerraformFailed as error:
        return _Validity(problems=error.problems)
    said = [
        (one.is_error, problem_from_diagnostic(terraform.workdir, "HF-TF-2", one))
        for one in found.diagnostics
    ]
    errors, warnings = (
        [problem for is_error, problem in said if is_error is wanted] for wanted in (True, False)
    )
    return _Validity(problems=tuple(errors), warnings=tuple(warnings))


async def _validated(terraform: Terraform) -> Validation:
    answer = await terraform.read(argv.VALIDATE)
    _require_end(terraform, answer, "validate")
    return read_validation(answer.out)


# Format


async def check_format(terraform: Terraform, paths: Sequence[str], *, fix: bool) -> Format:
    """Copies have names of our own: `fmt` passes over folders whose name begins with a point.

    Files that are the same have one copy: the roots of many stacks are.
    """
    root = terraform.context.project.root
    before = {path: content for path in paths if (content := files.content_of(root / path)) is not None}
    if not before:
        return Format()
    folder = files.private_folder(terraform.context.engines.scratch / f"fmt-{clock.random_token(6)}")
    try:
        alike = {path: (_ending(path), content) for path, content in before.items()}
        copies = {one: folder / f"{number}{one[0]}" for number, one in enumerate(set(alike.values()))}
        for (_, content), copy in copies.items():
            files.write(copy, content, durable=False)
        answer = await terraform.read(("fmt", "-list=false", "-no-color", str(folder)))
        _require_end(terraform, answer, "fmt")
        formatted = {one: copy.read_bytes() for one, copy in copies.items()}
        after = {path: formatted[one] for path, one in alike.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    mended = _write_back(root, before, after) if fix else ()
    return Format(
        formatted={path: content for path, content in after.items() if path not in mended},
        fixed=mended,
        why_not=None if answer.code == 0 else "fmt could not read every file",
    )


def _ending(path: str) -> str:
    return next(one for endings in _FORMATTED.values() for one in endings if path.endswith(one))


def _write_back(root: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Whole files, each at once. One that changed meanwhile, or lies elsewhere, is left as it is."""
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
    """It ended by itself."""
    name = terraform.workdir.stack.name
    if answer.timed_out:
        raise Failed("HF-TIME-1", f"{name}: {command} took longer than its time limit and was stopped")
    if answer.interrupted:
        raise Cancelled("HF-RUN-2", f"{name}: stopped during {command}, as asked; nothing was changed")
    if answer.killed:
        ended = f"{name}: Terraform exited unexpectedly during {command}"
        raise EngineError("HF-ENG-6", f"{ended} (code {answer.code}): {first_log_line(answer.log)}")


def _words(error: HoldfastError) -> str:
    return f"{error.problem.code} {error.problem.message}"
