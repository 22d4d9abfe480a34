"""`holdfast doctor`: installed engines, and which one would run each stack and why."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from holdfast.cli.command import Invocation, fields
from holdfast.kernel.errors import Exit, HoldfastError
from holdfast.kernel.text import first_names

if TYPE_CHECKING:
    from holdfast.changes.repository import Repository
    from holdfast.stacks.stack import Stack
    from holdfast.terraform.engine.discovery import InstalledEngines

_MOST_NAMES = 3


def doctor(invocation: Invocation) -> Exit:
    """Show the installed engines, and which one runs each stack. Shows why, and what is missing.

    Exit 64 if the configuration is invalid or a stack has no engine.
    """
    from holdfast import __version__
    from holdfast.changes.repository import open_repository
    from holdfast.terraform.engine.discovery import InstalledEngines

    repository, config_error = None, None
    try:
        repository = open_repository(invocation.config, invocation.environment)
        repository.tune(invocation.console.redactor)
    except HoldfastError as error:
        config_error = error
    engines = repository.engines if repository is not None else InstalledEngines(invocation.environment)
    chosen = _choices(repository) if repository is not None else []
    problems = config_error.problems if config_error is not None else ()
    exit_code = Exit.USAGE if any(choice["error"] for choice in chosen) else Exit.DONE
    # Without a configuration there is nothing wrong: doctor also describes a machine.
    if config_error is not None and config_error.problem.code != "HF-CONF-1":
        exit_code = config_error.exit

    def show() -> None:
        _show(invocation, engines, chosen)
        if config_error is not None:
            invocation.console.problems(problems, config_error.exit)

    document = {
        "version": 1,
        "holdfast": __version__,
        "python": platform.python_version(),
        "home": str(invocation.environment.home),
        "ci": invocation.environment.ci,
        "git": _git(invocation),
        "engines": [
            {"kind": engine.kind.value, "product": engine.product.value, **fields(engine, "version", "path")}
            for engine in engines.all()
        ],
        "unusable": [{"path": path, "reason": reason} for path, reason in engines.unusable],
        "stacks": chosen,
        "errors": [fields(problem, "code", "message", "hint") for problem in problems],
    }
    return invocation.answer(document, show, exit_code=exit_code)


def _choices(repository: Repository) -> list[dict[str, object]]:
    def choice(stack: Stack) -> dict[str, object]:
        document: dict[str, object] = dict.fromkeys(("engine", "path", "why", "error"))
        document = {"name": stack.name, **document}
        try:
            chosen = repository.choose(stack)
        except HoldfastError as error:
            return {**document, "error": error.problem.message}
        return {**document, "engine": str(chosen.engine), "path": chosen.engine.path, "why": chosen.why}

    return [choice(stack) for stack in repository.stacks]


def _git(invocation: Invocation) -> bool:
    import shutil

    return shutil.which("git", path=invocation.environment.get("PATH") or "") is not None


def _show(invocation: Invocation, engines: InstalledEngines, chosen: list[dict[str, object]]) -> None:
    from holdfast import __version__

    console = invocation.console
    console.line(f" Holdfast {__version__} · Python {platform.python_version()} · {sys.platform}")
    console.line(f" data directory: {invocation.environment.home}")
    if not _git(invocation):
        console.line((" ! ", "yellow"), "git is not on PATH: --since does not work")
    console.line("")
    console.line((" Engines", "bold"))
    installed = engines.all()
    for engine in installed:
        console.line(f"   {engine!s:<32} {engine.path}")
    for path, reason in engines.unusable:
        console.line(("   ✗ ", "red"), f"{path}: {reason}")
    if not installed:
        console.line("   none. Install the embedded engine (pip install 'holdfast[embedded]'),")
        console.line("   or put terraform or tofu on PATH.")
    if chosen:
        console.line("")
        console.line((" Stacks", "bold"))
    groups: dict[tuple[str, str], list[str]] = {}
    for choice in chosen:
        key = (str(choice["engine"] or "none"), str(choice["error"] or choice["why"]))
        groups.setdefault(key, []).append(str(choice["name"]))
    for (engine_name, why), names in groups.items():
        console.line(f"   {engine_name}: {first_names(names, _MOST_NAMES)}")
        console.line(("     ", ""), (why, "dim"))
