"""`holdfast init`: a starter that works, what was guessed, and what to mend, in order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Group, Invocation, Option, command
from holdfast.kernel.errors import ConfigError, Exit, Failed, UsageError

if TYPE_CHECKING:  # These are loaded when the command runs.
    from holdfast.onboarding.adoption import Mend
    from holdfast.onboarding.starter import Starter
    from holdfast.stacks.stack import Stack

_PUBLIC_FILE = 0o644
_SHOWN_STACKS = 8
_SHOWN_FILES = 3


def register(app: Group) -> None:
    command(app, "init")(init)


def init(
    invocation: Invocation,
    force: Annotated[bool, Option("--force", help="Replace a holdfast.yaml that is there.")] = False,
) -> Exit:
    """Look at this repository and write a starter holdfast.yaml, saying what was guessed and what to mend."""
    from holdfast.onboarding.scan import look
    from holdfast.onboarding.starter import starter
    from holdfast.system import git as git_door

    here = Path.cwd()
    git = git_door.find(here, invocation.environment.variables)
    file = invocation.config.absolute() if invocation.config else place_for(here, git.top if git else None)
    refuse_existing(file, force=force)
    root = file.parent
    prefix = (
        "" if git is None or root == git.top else root.resolve().relative_to(git.top.resolve()).as_posix()
    )
    tracked = () if git is None else _below(git.tracked(), prefix)
    made = starter(look(root, tracked=tracked))
    stacks = write_verified(made, file)
    if invocation.as_json:
        invocation.document(document(made, os.path.relpath(file, here)))
    else:
        _show(invocation, made, stacks, file, here)
    return Exit.DONE


def place_for(here: Path, top: Path | None) -> Path:
    """The file that is there already, else one at the top of the Git working tree, else one right here."""
    from holdfast.config.read import FILE_NAME

    if top is None or not here.resolve().is_relative_to(top.resolve()):
        return here / FILE_NAME
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
        if folder.resolve() == top.resolve():
            break
    return top / FILE_NAME


def refuse_existing(file: Path, *, force: bool) -> None:
    if not file.parent.is_dir():
        raise UsageError(
            "HF-INIT-2",
            f"the folder {file.parent} is not there",
            hint="--config names the file to write, in the folder that holds the repository.",
        )
    other = file.with_name("holdfast.yml")
    if file.exists() and not force:
        raise UsageError(
            "HF-INIT-1",
            f"{file} is there already",
            hint="See what it finds: holdfast stacks. To write it anew: holdfast init --force",
        )
    if other.exists() and not force:
        raise UsageError(
            "HF-INIT-1",
            f"{other} is there, which Holdfast does not read",
            hint=f"Rename it to {file.name}, or write a new one beside it: holdfast init --force",
        )


def write_verified(made: Starter, file: Path) -> tuple[Stack, ...]:
    """Read the starter as every other command will, and write it only if it finds what was announced."""
    from holdfast.system import files

    stacks = _discovered(made.text, file)
    found = {stack.name for stack in stacks}
    if found != set(made.stacks):
        odd = sorted(found ^ set(made.stacks))
        raise Failed(
            "HF-INIT-3",
            f"the starter does not find what was seen ({', '.join(odd[:3])}); nothing was written",
            hint="This is a fault of Holdfast. Write the file by hand: docs/configuration.md, and report it.",
        )
    try:
        files.write(file, made.text, mode=_PUBLIC_FILE)
    except OSError as error:
        raise Failed(
            "HF-INIT-4",
            f"{file} cannot be written: {error.strerror}",
            hint="Check that this user may write in the folder.",
        ) from None
    return stacks


def _discovered(text: str, file: Path) -> tuple[Stack, ...]:
    from holdfast.config.read import parse
    from holdfast.hcl.eval.code import Code
    from holdfast.stacks.code_backend import code_backend
    from holdfast.stacks.discover import discover
    from holdfast.stacks.listing import FolderTree
    from holdfast.stacks.variables import values_in

    root = file.parent
    code = Code(root)
    try:
        config = parse(text, file=file.name, root=root, path=file)
        return discover(
            config,
            files=FolderTree(root),
            read_values=values_in(root),
            code_backend=lambda module: code_backend(code, module),
        )
    except ConfigError as error:
        own = [problem for problem in error.problems if problem.place and problem.place.file != file.name]
        if own:
            raise ConfigError(tuple(own)) from None
        raise Failed(
            "HF-INIT-3",
            f"the starter would not be right ({error.problem.message}); nothing was written",
            hint="This is a fault of Holdfast. Write the file by hand: docs/configuration.md, and report it.",
        ) from None


def _below(paths: tuple[str, ...], prefix: str) -> tuple[str, ...]:
    start = f"{prefix}/" if prefix else ""
    return tuple(path.removeprefix(start) for path in paths if path.startswith(start))


def document(made: Starter, file: str) -> dict[str, object]:
    return {
        "version": 1,
        "file": file,
        "stacks": list(made.stacks),
        "held_back": list(made.held),
        "found": list(made.found),
        "guesses": list(made.guesses),
        "mend": [
            {"title": one.title, "file": one.file, "line": one.line, "what": one.what} for one in made.mend
        ],
    }


def _show(invocation: Invocation, made: Starter, stacks: tuple[Stack, ...], file: Path, here: Path) -> None:
    console = invocation.console
    where = file.name if file.parent.resolve() == here.resolve() else str(file)
    number = f"{len(stacks)} stack" + ("" if len(stacks) == 1 else "s")
    console.line(f" Wrote {where}: {number}" + (f", {len(made.held)} held back" if made.held else ""))
    if file.parent.resolve() != here.resolve():
        console.say("   at the top of the Git working tree, so that it is found from every folder")
    _section(invocation, "Found", made.found)
    production = sum(stack.production for stack in stacks)
    shown = [
        f"{stack.name}  {stack.environment or 'no environment'}{' (production)' if stack.production else ''}"
        for stack in stacks[: len(stacks) if invocation.verbose else _SHOWN_STACKS]
    ]
    if len(stacks) > len(shown):
        shown.append(
            f"… and {len(stacks) - len(shown)} more; {production} of {len(stacks)} count as production"
        )
    _section(invocation, "Stacks", shown)
    _section(invocation, "Guessed", made.guesses)
    _show_mend(invocation, made.mend)
    console.say("")
    console.say((" Next", "bold"))
    if stacks:
        console.say("   holdfast stacks     what there is, and what counts as production")
        console.say("   holdfast plan       nothing is changed; what exists must show no changes")
    elif made.held:
        console.say(f"   Say in {where} where the states are, then: holdfast stacks")
    else:
        console.say(f"   Name your stacks in {where} (the ways are in its comments), then: holdfast stacks")


def _section(invocation: Invocation, title: str, lines: tuple[str, ...] | list[str]) -> None:
    if not lines:
        return
    invocation.console.say("")
    invocation.console.say((f" {title}", "bold"))
    for line in lines:
        invocation.console.say(f"   {line}")


def _show_mend(invocation: Invocation, mend: tuple[Mend, ...]) -> None:
    """One paragraph for each kind, with the first places; `--verbose` and `--json` have them all."""
    if not mend:
        return
    console = invocation.console
    console.say("")
    console.say((" To mend, in this order", "bold"))
    for number, title in enumerate(dict.fromkeys(one.title for one in mend), start=1):
        same = [one for one in mend if one.title == title]
        console.say(f"   {number}. ", (title, "bold"), f" ({len(same)})" if len(same) > 1 else "")
        said = ""
        for one in same[: len(same) if invocation.verbose else _SHOWN_FILES]:
            place = ":".join(str(part) for part in (one.file, one.line) if part is not None)
            console.say(
                f"      {place}  " if place else "      ", (one.what if one.what != said else "the same", "")
            )
            said = one.what
        if len(same) > _SHOWN_FILES and not invocation.verbose:
            console.say(f"      … and {len(same) - _SHOWN_FILES} more (--verbose shows all)")
