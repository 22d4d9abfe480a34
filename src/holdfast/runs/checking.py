"""What Terraform says about code before anything is planned: its format, and whether it is valid.

`fmt` works on a copy. The source is touched only where somebody asks for the format to be written back.
"""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.checks.subjects import CheckedStack, EngineSaid
from holdfast.doors import clock, files
from holdfast.doors.files import unusable
from holdfast.kernel.errors import EngineError, Failed, HoldfastError, Place, Problem
from holdfast.kernel.values import dataclass, field
from holdfast.runs.ends import Cancelled, TerraformFailed, tail
from holdfast.runs.phases import Terraform
from holdfast.runs.prepare import prepared
from holdfast.runs.session import Session
from holdfast.terraform import argv
from holdfast.terraform.diagnostics import Diagnostic, Validation, read_validation
from holdfast.terraform.engine import Answer, EngineId, Product

_FORMATTED = {
    Product.TERRAFORM: (".tftest.hcl", ".tfmock.hcl", ".tfvars", ".tf"),
    Product.TOFU: (".tofutest.hcl", ".tftest.hcl", ".tfmock.hcl", ".tfvars", ".tofu", ".tf"),
}
"""How the names of files end that `fmt` formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The stacks of one root module that one engine runs: one of them is asked for all."""

    engine: EngineId
    stacks: tuple[CheckedStack, ...]
    paths: tuple[str, ...]
    """Files that `fmt` looks at, and no other group does."""

    @property
    def folder(self) -> str:
        return self.stacks[0].stack.module


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    formatted: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    mended: tuple[str, ...] = ()
    why_not: str | None = None


async def engine_said(
    session: Session, stacks: Sequence[CheckedStack], *, fix: bool = False
) -> tuple[EngineSaid, ...]:
    """Each root module once for every engine that runs it; with `fix` the format is written back.

    What cannot be asked says why; only a wish to stop is raised.
    """
    groups, without = _groups(session, stacks)
    said = await asyncio.gather(*(_asked(session, group, fix=fix) for group in groups))
    return (*said, *without)


def _groups(session: Session, stacks: Iterable[CheckedStack]) -> tuple[list[_Group], tuple[EngineSaid, ...]]:
    together: dict[tuple[str, EngineId], list[CheckedStack]] = {}
    without: list[EngineSaid] = []
    for stack in stacks:
        try:
            engine = session.choose(stack.stack).engine
        except HoldfastError as error:
            why = _words(error)
            said = EngineSaid(stack=stack, folder=stack.stack.module, unseen=why, unformatted=why)
            without.append(said)
            continue
        together.setdefault((stack.stack.module, engine), []).append(stack)
    taken: set[str] = set()
    groups: list[_Group] = []
    for (_, engine), members in together.items():
        paths = tuple(path for path in paths_to_format(members, engine) if path not in taken)
        taken.update(paths)
        groups.append(_Group(engine=engine, stacks=tuple(members), paths=paths))
    return groups, tuple(without)


def paths_to_format(stacks: Sequence[CheckedStack], engine: EngineId) -> list[str]:
    """Every file of the modules, and the variables files, that its `fmt` would format."""
    found: dict[str, None] = {}
    for stack in stacks:
        tree = stack.checkout.code.tree
        for folder in sorted(stack.folders):
            found.update(dict.fromkeys(tree.join(folder, name) for name in tree.names(folder)))
        found.update(dict.fromkeys(stack.stack.variables_files))
    # What lies in `.terraform`, or is ignored by Git, is nobody's to format.
    ours = {path for stack in stacks for path in stack.checkout.files}
    return [path for path in found if path.endswith(_FORMATTED[engine.product]) and path in ours]


async def _asked(session: Session, group: _Group, *, fix: bool) -> EngineSaid:
    """The first stack that can be made ready speaks for all: what differs between them is no code."""
    async with session.places:
        why = ""
        for stack in group.stacks:
            try:
                return await _say(session, group, stack, fix=fix)
            except Cancelled:
                raise
            except (HoldfastError, OSError) as error:
                why = why or _words(unusable(error) if isinstance(error, OSError) else error)
        first = group.stacks[0]
        return EngineSaid(stack=first, folder=group.folder, unseen=why, unformatted=why)


async def _say(session: Session, group: _Group, stack: CheckedStack, *, fix: bool) -> EngineSaid:
    # A state that is not in order, or that nobody here may read, is no reason to leave code unlooked at.
    async with prepared(session, stack.stack, for_state=True, stateless=True) as ready:
        terraform = Terraform(session, ready)
        form = await format_of(session, terraform, group.paths, fix=fix)
        problems, warnings = await _validate(terraform)
    return EngineSaid(
        stack=stack,
        folder=group.folder,
        formatted=form.formatted,
        mended=form.mended,
        unformatted=form.why_not,
        problems=problems,
        warnings=warnings,
    )


# Validity


async def _validate(terraform: Terraform) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Errors and warnings. Where init was skipped and should not have been, an error is no answer yet."""
    try:
        await terraform.init()
        found = await _validated(terraform)
        if any(one.is_error for one in found.diagnostics):
            await terraform.validate()
            found = await _validated(terraform)
    except TerraformFailed as error:
        return error.problems, ()
    said = [(one.is_error, _problem(terraform, one)) for one in found.diagnostics]
    errors, warnings = (
        [problem for is_error, problem in said if is_error is wanted] for wanted in (True, False)
    )
    return tuple(errors), tuple(warnings)


async def _validated(terraform: Terraform) -> Validation:
    answer = await terraform.read(argv.validate())
    _require_end(terraform, answer, "validate")
    return read_validation(answer.out)


def _problem(terraform: Terraform, one: Diagnostic) -> Problem:
    detail = " ".join(one.detail.split())
    place = None
    if one.file is not None:
        place = Place(file=terraform.source_path(one.file), line=one.line, column=one.column)
    return Problem(code="HF-TF-2", message=f"{one.summary}: {detail}" if detail else one.summary, place=place)


# Format


async def format_of(session: Session, terraform: Terraform, paths: Sequence[str], *, fix: bool) -> Format:
    """Copies have names of our own: `fmt` passes over folders whose name begins with a point.

    Files that are the same have one copy: the roots of many stacks are.
    """
    before = {
        path: content for path in paths if (content := files.content_of(session.root / path)) is not None
    }
    if not before:
        return Format()
    folder = files.private_folder(session.scratch / f"fmt-{clock.random_token(6)}")
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
    mended = _write_back(session.root, before, after) if fix else ()
    return Format(
        formatted={path: content for path, content in after.items() if path not in mended},
        mended=mended,
        why_not=None if answer.code == 0 else "fmt could not read every file",
    )


def _ending(path: str) -> str:
    return next(one for endings in _FORMATTED.values() for one in endings if path.endswith(one))


def _write_back(root: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[str, ...]:
    """Whole files, each at once. One that changed meanwhile, or lies elsewhere, is left as it is."""
    mended: list[str] = []
    for path, content in after.items():
        file = (root / path).resolve()
        if content == before[path] or not file.is_relative_to(root.resolve()):
            continue
        if files.content_of(file) == before[path]:
            files.write(file, content, mode=stat.S_IMODE(file.stat().st_mode))
            mended.append(path)
    return tuple(mended)


def _require_end(terraform: Terraform, answer: Answer, command: str) -> None:
    """It ended by itself."""
    name = terraform.prepared.stack.name
    if answer.timed_out:
        raise Failed("HF-TIME-1", f"{name}: {command} took longer than its time limit and was stopped")
    if answer.interrupted:
        raise Cancelled("HF-RUN-2", f"{name}: stopped during {command}, as asked; nothing was changed")
    if answer.killed:
        ended = f"{name}: the engine ended without an answer during {command}"
        raise EngineError("HF-ENG-6", f"{ended} (code {answer.code}): {tail(answer.log)}")


def _words(error: HoldfastError) -> str:
    return f"{error.problem.code} {error.problem.message}"
