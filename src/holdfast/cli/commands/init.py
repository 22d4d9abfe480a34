"""`holdfast init`: a starter configuration, what was guessed, and what to fix, in order."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Invocation, Option, fields
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import first_names, plural

if TYPE_CHECKING:  # These are loaded when the command runs.
    from holdfast.onboarding.adoption import AdoptionStep
    from holdfast.onboarding.starter import Starter
    from holdfast.onboarding.translators.translation import Translation
    from holdfast.stacks.stack import Stack

_SHOWN_STACKS = 8
_SHOWN_FILES = 3


def init(
    invocation: Invocation,
    force: Annotated[bool, Option("--force", help="Replace an existing holdfast.yaml.")] = False,
    tool: Annotated[
        str | None,
        Option(
            "--from",
            metavar="TOOL",
            help="Translate the files of terragrunt, atmos or atlantis, and show what became of each part.",
        ),
    ] = None,
) -> Exit:
    """Scan this repository and write a starter holdfast.yaml. Shows what was guessed and what to fix."""
    from holdfast.hcl.eval.code import Code
    from holdfast.onboarding.config_file import config_path, require_new, verifiable_starter, write_verified
    from holdfast.onboarding.scan import scan_repository
    from holdfast.system import git as system_git

    here = Path.cwd()
    git = system_git.find(here, invocation.environment.variables)
    file = invocation.config.absolute() if invocation.config else config_path(here, git.top if git else None)
    root = file.parent
    if not root.is_dir():
        raise UsageError(
            "HF-INIT-2",
            f"the folder {root} does not exist",
            hint="--config names the file to write, in an existing folder of the repository.",
        )
    if not force:
        require_new(file)
    prefix = (
        "" if git is None or root == git.top else root.resolve().relative_to(git.top.resolve()).as_posix()
    )
    start = f"{prefix}/" if prefix else ""
    tracked = [path.removeprefix(start) for path in (git.tracked() if git else ()) if path.startswith(start)]
    code = Code(root)
    starter = verifiable_starter(scan_repository(root, tracked=tracked, tool=tool, code=code), file, code)
    if tool is not None and (starter.translation is None or starter.translation.tool.lower() != tool):
        raise UsageError(
            "HF-INIT-5",
            f"this repository has no files of {tool}",
            hint="Recognise the layout instead: holdfast init",
        )
    stacks = write_verified(starter, file, code)
    found = document(starter, stacks, os.path.relpath(file, here))
    beside = starter.translation if tool is not None else None
    return invocation.answer(found, lambda: _show(invocation, starter, stacks, file, here, beside))


def document(starter: Starter, stacks: tuple[Stack, ...], file: str) -> dict[str, object]:
    return {
        "version": 1,
        "file": file,
        **fields(starter, "stacks", "held_back", "found", "guesses"),
        "depends_on": {stack.name: list(stack.depends_on) for stack in stacks if stack.depends_on},
        "steps": [fields(step, "title", "file", "line", "what") for step in starter.steps],
        "translation": _translation_document(starter.translation),
    }


def _translation_document(translation: Translation | None) -> dict[str, object] | None:
    if translation is None:
        return None
    stacks = [
        {
            **fields(stack, "original", "name", "reasons"),
            "parts": [fields(part, "original", "keys") for part in stack.parts],
        }
        for stack in translation.stacks
    ]
    return {"tool": translation.tool.lower(), "stacks": stacks}


def _show(
    invocation: Invocation,
    starter: Starter,
    stacks: tuple[Stack, ...],
    file: Path,
    here: Path,
    beside: Translation | None,
) -> None:
    from holdfast.onboarding.starter_text import DETAILS_FILE

    console = invocation.console
    where = file.name if file.parent.resolve() == here.resolve() else str(file)
    held = f", {len(starter.held_back)} held back" if starter.held_back else ""
    console.line(f" Wrote {where}: {plural(len(stacks), 'stack')}{held}")
    if invocation.config is None and file.parent.resolve() != here.resolve():
        console.say("   It is at the top of the Git working tree: Holdfast finds it from every folder below.")
    _section(invocation, "Found", starter.found)
    production = sum(stack.production for stack in stacks)
    shown = [
        f"{stack.name}  {stack.environment or 'no environment'}{' (production)' if stack.production else ''}"
        f"{', depends on ' if stack.depends_on else ''}{first_names(stack.depends_on, _SHOWN_FILES)}"
        for stack in stacks[: len(stacks) if invocation.verbose else _SHOWN_STACKS]
    ]
    if len(stacks) > len(shown):
        shown.append(
            f"… and {len(stacks) - len(shown)} more; {production} of {len(stacks)} count as production"
        )
    _section(invocation, "Stacks", shown)
    _section(invocation, "Guessed", starter.guesses)
    if beside is not None:
        _show_translation(invocation, beside)
    again = ["holdfast init --verbose", *((f"--from {beside.tool.lower()}",) if beside else ())]
    details = shlex.quote(os.path.relpath(file.with_name(DETAILS_FILE), here))
    command = " ".join((*again, "--config", details))
    _show_steps(invocation, starter.steps, f"Details, without changing {file.name}: {command}")
    console.say("")
    console.say((" Next", "bold"))
    if stacks:
        console.say("   holdfast stacks     list the stacks, and which ones count as production")
        console.say(
            "   holdfast check      find problems in the code; `--baseline write` accepts the existing ones"
        )
        console.say("   holdfast plan       show the changes; existing stacks should have none")
    elif starter.held_back:
        console.say(f"   Complete the held-back entries in {where}, then: holdfast stacks")
    else:
        console.say(f"   Add your stacks to {where} (see its comments), then: holdfast stacks")


def _show_translation(invocation: Invocation, translation: Translation) -> None:
    """Each original beside the entry that it became."""
    console = invocation.console
    for stack in translation.stacks:
        console.say("")
        held = " (held back)" if stack.reasons else ""
        console.say(" ", (stack.original, "bold"), f"  →  {stack.name}{held}")
        width = max((len(part.original) for part in stack.parts), default=0)
        for part in stack.parts:
            console.say(f"   {part.original:<{width}}  {part.keys}")
        for reason in stack.reasons:
            console.say(f"   ! {reason}")


def _section(invocation: Invocation, title: str, lines: tuple[str, ...] | list[str]) -> None:
    if not lines:
        return
    invocation.console.say("")
    invocation.console.say((f" {title}", "bold"))
    for line in lines:
        invocation.console.say(f"   {line}")


def _show_steps(invocation: Invocation, steps: tuple[AdoptionStep, ...], details: str) -> None:
    """One paragraph per kind with the first places; `--verbose` and `--json` show all.

    `details`: how to show all, though the file exists now.
    """
    if not steps:
        return
    console = invocation.console
    console.say("")
    console.say((" To fix, in this order", "bold"))
    shortened = False
    for number, title in enumerate(dict.fromkeys(step.title for step in steps), start=1):
        same = [step for step in steps if step.title == title]
        shown = same if invocation.verbose else same[:_SHOWN_FILES]
        console.say(f"   {number}. ", (title, "bold"), f" ({len(same)})" if len(same) > 1 else "")
        previous = ""
        for step in shown:
            place = ":".join(str(part) for part in (step.file, step.line) if part is not None)
            text = step.what if step.what != previous else "the same"
            console.say(f"      {place}  {text}" if place else f"      {text}")
            previous = step.what
        if len(shown) < len(same):
            console.say(f"      … and {len(same) - len(shown)} more")
            shortened = True
    if shortened:
        console.say("")
        console.say(f"   {details}")
