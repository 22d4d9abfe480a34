"""`holdfast tools`: Terraform and OpenTofu programs that Holdfast keeps, verified and side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Group, Invocation, Option, command
from holdfast.kernel.errors import Exit

if TYPE_CHECKING:
    from holdfast.terraform.engine.installed import Tool


def register(app: Group) -> None:
    group = Group("tools", help="Terraform and OpenTofu programs: list, add, remove.")
    command(group, "list")(list_)
    command(group, "add")(add)
    command(group, "remove")(remove)
    app.add_command(group)


def list_(invocation: Invocation) -> Exit:
    """List the programs that were added, by product, the newest first."""
    from holdfast.terraform.engine import installed

    found = installed.installed_tools(invocation.environment.home)
    if invocation.as_json:
        invocation.document({"version": 1, "tools": [_document(tool) for tool in found]})
        return Exit.DONE
    for tool in found:
        invocation.console.line(f" {tool.product.value} {tool.version}  ", (str(tool.path), "dim"))
    if not found:
        invocation.console.say(" none yet: holdfast tools add FILE. Programs on PATH are found without.")
    return Exit.DONE


def add(
    invocation: Invocation,
    file: Annotated[Path, Argument(metavar="FILE", help="A program, or the vendor's zip.")],
    sha256: Annotated[
        str | None,
        Option("--sha256", metavar="SUM", help="Its sum; without, from SHA256SUMS beside it."),
    ] = None,
) -> Exit:
    """Add a terraform or tofu program, after its content was verified. Versions stand side by side."""
    from holdfast.terraform.engine import installed
    from holdfast.terraform.engine.discovery import program_version

    environment = invocation.environment
    tool, new = installed.add_tool(
        environment.home,
        file.absolute(),
        given_sum=sha256,
        ask_version=lambda program: program_version(program, environment),
    )
    if invocation.as_json:
        invocation.document({"version": 1, "added": new, "tool": _document(tool)})
    else:
        word = "added" if new else "there already"
        invocation.console.line(f" {tool.product.value} {tool.version}: {word}  ", (str(tool.path), "dim"))
    return Exit.DONE


def remove(
    invocation: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="terraform or tofu.")],
    version: Annotated[str, Argument(metavar="VERSION", help="Its version, as `tools list` says it.")],
) -> Exit:
    """Remove one version of a program that was added."""
    from holdfast.terraform.engine import installed

    tool = installed.remove_tool(invocation.environment.home, name, version)
    if invocation.as_json:
        invocation.document({"version": 1, "removed": _document(tool)})
    else:
        invocation.console.line(f" {tool.product.value} {tool.version}: removed")
    return Exit.DONE


def _document(tool: Tool) -> dict[str, object]:
    return {
        "product": tool.product.value,
        "version": tool.version,
        "path": str(tool.path),
        "bytes": tool.size,
    }
