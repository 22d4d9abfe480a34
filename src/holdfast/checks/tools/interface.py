"""The interface of external tools such as Checkov.

A new tool is one module in this folder with a `TOOL`, and one line in `catalogue.py`:

    def _check(request: ToolRequest) -> Iterator[ToolResult]:
        if (program := request.program("tflint")) is None:
            yield request.missing("`tflint` is not on PATH", hint="Install it.")
        else:
            yield from …

    TOOL = tool("tflint", _check)

A finding has a `Rule` of the tool: an id and a title. A tool that fails is `request.failed(…)`: an error in
the report, never a pass.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.engine.running import crash_location
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Skipped, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.rules.hf901_own_findings import HF908
from holdfast.config.checks import Use
from holdfast.system import environment
from holdfast.system.environment import Environment
from holdfast.system.processes import Finished

ToolResult = tuple[Rule, CheckResult]
_SHOWN = 300


class ToolRequest(Struct, frozen=True, kw_only=True):
    """What a tool has to check, and whether it must be installed."""

    name: str
    use: Use
    checkout: Checkout
    plans: Mapping[str, CheckedPlan]
    """By stack name."""
    environment: Environment

    @property
    def root(self) -> Path:
        return self.checkout.config.root

    def program(self, name: str) -> str | None:
        return program_of(self.environment, name)

    def failed(self, message: str, *, hint: str | None = None, stack: str | None = None) -> ToolResult:
        return replace(HF908, tool=self.name), Finding(
            message=f"{self.name}: {message}", hint=hint, stack=stack
        )

    def missing(self, reason: str, *, hint: str) -> ToolResult:
        """The tool is not installed: a skip with its reason, or an error if the configuration says `on`."""
        if self.use is Use.ON:
            return self.failed(f"{reason}, and `checks.tools.{self.name}` is `on`", hint=hint)
        return tool_rule(self.name), Skipped(reason=reason)


CheckFunction = Callable[[ToolRequest], Iterable[ToolResult]]


def tool(name: str, check: CheckFunction) -> Tool:
    def run(checkout: Checkout, plans: Mapping[str, CheckedPlan]) -> Iterator[ToolResult]:
        use = checkout.config.checks.tools.get(name, Use.AUTO)
        if use is not Use.OFF:
            request = ToolRequest(
                name=name, use=use, checkout=checkout, plans=plans, environment=environment.read()
            )
            yield from run_tool(check, request)

    return Tool(name=name, run=run)


def run_tool(check: CheckFunction, request: ToolRequest) -> Iterator[ToolResult]:
    try:
        yield from check(request)
    except Exception as error:  # noqa: BLE001 - the other tools must still run
        yield request.failed(f"crashed: {crash_location(error)}", hint="Please report it.")


def tool_rule(id_: str, title: str = "") -> Rule:
    """A rule of an external tool, of which only id and title are known."""
    return Rule(id=id_, title=title or id_, why="", fix="", severity=HF908.severity)


def exit_message(finished: Finished) -> str:
    """The exit code or signal, and the end of the error output."""
    text = " ".join(finished.err.decode(errors="replace").split())
    code = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
    return f"{code}: {text[-_SHOWN:]}" if text else code


def program_of(environment: Environment, name: str) -> str | None:
    """The path of a program. Relative folders in PATH are ignored: they could be in the repository."""
    folders = [str(folder) for folder in environment.path if folder.is_absolute()]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None


_CHILD = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"})


def child_variables(environment: Environment) -> dict[str, str]:
    """The environment variables of a tool, without any credentials of the caller."""
    return {name: value for name, value in environment.variables.items() if name in _CHILD}
