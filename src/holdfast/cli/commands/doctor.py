"""`holdfast doctor`: what is there, and what would be chosen for each stack, and why."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from holdfast.cli.command import Group, Invocation, command
from holdfast.kernel.errors import Exit, HoldfastError

if TYPE_CHECKING:
    from holdfast.changes.repository import Repository
    from holdfast.terraform.engine.discovery import InstalledEngines


def register(app: Group) -> None:
    command(app, "doctor")(doctor)


def doctor(invocation: Invocation) -> Exit:
    """Say which engines there are, what would run each stack and why, and what is missing."""
    from holdfast import __version__
    from holdfast.changes.repository import open_repository
    from holdfast.terraform.engine.discovery import InstalledEngines

    repository, mistake = None, None
    try:
        repository = open_repository(invocation.config, invocation.environment)
        repository.tune(invocation.console.redactor)
    except HoldfastError as error:
        mistake = error
    engines = repository.engines if repository is not None else InstalledEngines(invocation.environment)
    found = engines.all()
    chosen = _choices(repository) if repository is not None else []
    if invocation.as_json:
        invocation.document(
            {
                "version": 1,
                "holdfast": __version__,
                "python": platform.python_version(),
                "home": str(invocation.environment.home),
                "ci": invocation.environment.ci,
                "git": _git(invocation),
                "engines": [
                    {
                        "kind": one.kind.value,
                        "product": one.product.value,
                        "version": one.version,
                        "path": one.path,
                    }
                    for one in found
                ],
                "unusable": [{"path": path, "reason": reason} for path, reason in engines.unusable],
                "stacks": chosen,
                "errors": [
                    {"code": one.code, "message": one.message, "hint": one.hint}
                    for one in (mistake.problems if mistake else ())
                ],
            }
        )
        return _exit(mistake, chosen)
    _show(invocation, engines, chosen)
    if mistake is not None:
        invocation.console.problems(mistake.problems, mistake.exit)
    return _exit(mistake, chosen)


def _exit(mistake: HoldfastError | None, chosen: list[dict[str, object]]) -> Exit:
    if mistake is not None and mistake.problem.code != "HF-CONF-1":
        return mistake.exit
    return Exit.USAGE if any(one["error"] for one in chosen) else Exit.DONE


def _choices(repository: Repository) -> list[dict[str, object]]:
    choices: list[dict[str, object]] = []
    for stack in repository.stacks:
        try:
            choice = repository.choose(stack)
            choices.append(
                {
                    "name": stack.name,
                    "engine": str(choice.engine),
                    "path": choice.engine.path,
                    "why": choice.why,
                    "error": None,
                }
            )
        except HoldfastError as error:
            choices.append(
                {
                    "name": stack.name,
                    "engine": None,
                    "path": None,
                    "why": None,
                    "error": error.problem.message,
                }
            )
    return choices


def _git(invocation: Invocation) -> bool:
    import shutil

    return shutil.which("git", path=invocation.environment.get("PATH") or "") is not None


def _show(invocation: Invocation, engines: InstalledEngines, chosen: list[dict[str, object]]) -> None:
    from holdfast import __version__

    console = invocation.console
    console.line(f" Holdfast {__version__} · Python {platform.python_version()} · {sys.platform}")
    console.line(f" data directory: {invocation.environment.home}")
    if not _git(invocation):
        console.line((" ! ", "yellow"), "git is not on PATH: --since cannot be used")
    console.line("")
    console.line((" Engines", "bold"))
    found = engines.all()
    for one in found:
        console.line(f"   {one!s:<32} {one.path}")
    for path, reason in engines.unusable:
        console.line(("   ✗ ", "red"), f"{path}: {reason}")
    if not found:
        console.line("   none. Install the embedded one (pip install 'holdfast[embedded]'),")
        console.line("   or put terraform or tofu on PATH.")
    if chosen:
        console.line("")
        console.line((" Stacks", "bold"))
    groups: dict[tuple[str, str], list[str]] = {}
    for choice in chosen:
        key = (str(choice["engine"] or "none"), str(choice["error"] or choice["why"]))
        groups.setdefault(key, []).append(str(choice["name"]))
    for (engine, why), names in groups.items():
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004
        console.line(f"   {engine}: {shown}")
        console.line(("     ", ""), (why, "dim"))
