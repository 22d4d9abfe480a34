"""`holdfast tools`: verified Terraform and OpenTofu binaries in Holdfast's tools directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.kernel.errors import Exit

if TYPE_CHECKING:
    from holdfast.terraform.engine.installed import Tool
HELP = "List, add and remove Terraform and OpenTofu binaries."
COMMANDS = ("list", "add", "remove")


def list_(invocation: Invocation) -> Exit:
    """List the added terraform and tofu binaries, newest first."""
    from holdfast.terraform.engine import installed

    tools = installed.installed_tools(invocation.environment.home)
    if invocation.as_json:
        invocation.document({"version": 1, "tools": [_document(tool) for tool in tools]})
        return Exit.DONE
    for tool in tools:
        invocation.console.line(f" {tool.product.value} {tool.version}  ", (str(tool.path), "dim"))
    if not tools:
        invocation.console.say(
            " None. Holdfast uses binaries on PATH; add others with: holdfast tools add FILE"
        )
    return Exit.DONE


def add(
    invocation: Invocation,
    file: Annotated[Path, Argument(metavar="FILE", help="A binary, or the vendor's zip file.")],
    sha256: Annotated[
        str | None,
        Option("--sha256", metavar="SUM", help="Its SHA-256. Default: from the SHA256SUMS file beside it."),
    ] = None,
) -> Exit:
    """Verify and add a terraform or tofu binary. Several versions can be installed side by side."""
    from holdfast.terraform.engine import installed
    from holdfast.terraform.engine.discovery import program_version

    environment = invocation.environment
    tool, new = installed.add_tool(
        environment.home,
        file.absolute(),
        checksum=sha256,
        ask_version=lambda program: program_version(program, environment),
    )
    done = (
        f" {tool.product.value} {tool.version}: {'added' if new else 'already added'}  ",
        (str(tool.path), "dim"),
    )
    document = {"version": 1, "added": new, "tool": _document(tool)}
    return invocation.answer(document, lambda: invocation.console.line(*done))


def remove(
    invocation: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="terraform or tofu.")],
    version: Annotated[str, Argument(metavar="VERSION", help="Its version, from `tools list`.")],
) -> Exit:
    """Remove one version of an added binary."""
    from holdfast.terraform.engine import installed

    tool = installed.remove_tool(invocation.environment.home, name, version)
    document = {"version": 1, "removed": _document(tool)}
    return invocation.answer(document, f" {tool.product.value} {tool.version}: removed")


def _document(tool: Tool) -> dict[str, object]:
    return {
        "product": tool.product.value,
        "version": tool.version,
        "path": str(tool.path),
        "bytes": tool.size,
    }
