"""The interface of external tools such as Checkov.

A new tool is one module in this folder with a `TOOL`, and one entry in `TOOLS`:

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

import importlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.checks.engine.running import crash_location
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Skipped, Tool
from holdfast.checks.model.subjects import CheckedPlan, Checkout
from holdfast.checks.rules.code.hf901_own_findings import HF908
from holdfast.config.checks import Use
from holdfast.config.problems import did_you_mean
from holdfast.system import environment, processes
from holdfast.system.environment import Environment
from holdfast.system.processes import Finished

TOOLS: Final = {"checkov": "checkov", "rego": "rego.tool"}
"""Every external tool, with the module that has its `TOOL`."""
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
        return tool_rule(self.name), Skipped(reason=reason, expected=True)


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


def all_tools() -> tuple[Tool, ...]:
    """The last one reports unknown names in `checks.tools`."""
    return (*map(load_tool, TOOLS), Tool(name="tools", run=_report_unknown))


def load_tool(name: str) -> Tool:
    loaded: Tool = importlib.import_module(f"holdfast.checks.tools.{TOOLS[name]}").TOOL
    return loaded


def _report_unknown(checkout: Checkout, _: Mapping[str, CheckedPlan]) -> Iterator[ToolResult]:
    for name in checkout.config.checks.tools:
        if name not in TOOLS:
            hint = did_you_mean(name, tuple(TOOLS)) or f"Known tools: {', '.join(TOOLS)}."
            yield HF908, Finding(message=f"unknown tool `{name}` in `checks.tools`", hint=hint)


def tool_rule(id_: str, title: str = "") -> Rule:
    """A rule of an external tool, of which only id and title are known."""
    return Rule(id=id_, title=title or id_, fix="", severity=HF908.severity)


def exit_message(finished: Finished) -> str:
    """The exit code or signal, and the end of the error output."""
    text = " ".join(finished.err.decode(errors="replace").split())
    code = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
    return f"{code}: {text[-_SHOWN:]}" if text else code


def run_program(
    argv: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    seconds: float,
    given: bytes | None = None,
) -> Finished:
    """Runs a tool in the background: Holdfast stops it when it stops itself."""
    return processes.run(
        argv, folder=folder, environment=variables, seconds=seconds, background=True, stdin=given
    )


def program_of(environment: Environment, name: str) -> str | None:
    """The path of a program. Relative folders in PATH are ignored: they could be in the repository."""
    folders = [str(folder) for folder in environment.path if folder.is_absolute()]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None


_CHILD = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"})


def child_variables(environment: Environment) -> dict[str, str]:
    """The environment variables of a tool, without any credentials of the caller."""
    return {name: value for name, value in environment.variables.items() if name in _CHILD}
