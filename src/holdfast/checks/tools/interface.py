"""How a program of other people's is asked.

A new one is one file in this folder that holds a `TOOL`, and one line in `catalogue.py`:

    def _look(asked: Asked) -> Iterator[Said]:
        if (program := asked.program("tflint")) is None:
            yield asked.missing("there is no `tflint` on PATH", hint="Install it.")
        else:
            yield from …

    TOOL = tool("tflint", _look)

What it finds comes with a `Rule` of its own: an id and words. What cannot be believed is `asked.failed(…)`:
an error in the report, never silence.
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
from holdfast.checks.rules.hf908_tool_without_answer import RULE as NO_ANSWER
from holdfast.config.checks import Use
from holdfast.system import environment as environment_door
from holdfast.system.environment import Environment
from holdfast.system.processes import Finished

Said = tuple[Rule, CheckResult]
_SHOWN = 300


class Asked(Struct, frozen=True, kw_only=True):
    """What a tool is asked about, and how much its absence matters."""

    name: str
    use: Use
    checkout: Checkout
    plans: Mapping[str, CheckedPlan]
    """By the name of their stack."""
    environment: Environment

    @property
    def root(self) -> Path:
        return self.checkout.config.root

    def program(self, name: str) -> str | None:
        return program_of(self.environment, name)

    def failed(self, message: str, *, hint: str | None = None, stack: str | None = None) -> Said:
        return replace(NO_ANSWER, tool=self.name), Finding(
            message=f"{self.name}: {message}", hint=hint, stack=stack
        )

    def missing(self, reason: str, *, hint: str) -> Said:
        """It is not there: a skip with its reason, or an error where the configuration wants it."""
        if self.use is Use.ON:
            return self.failed(f"{reason}, and `checks.tools.{self.name}` is on", hint=hint)
        return words(self.name, self.name), Skipped(reason=reason)


Look = Callable[[Asked], Iterable[Said]]


def tool(name: str, look: Look) -> Tool:
    """One that is off says nothing; one that breaks while it looks is a finding."""

    def run(checkout: Checkout, plans: Mapping[str, CheckedPlan]) -> Iterator[Said]:
        use = checkout.config.checks.tools.get(name, Use.AUTO)
        if use is not Use.OFF:
            environment = environment_door.read()
            yield from answers(
                look, Asked(name=name, use=use, checkout=checkout, plans=plans, environment=environment)
            )

    return Tool(name=name, run=run)


def answers(look: Look, asked: Asked) -> Iterator[Said]:
    try:
        yield from look(asked)
    except Exception as error:  # noqa: BLE001 - one tool that breaks must not silence the others
        yield asked.failed(f"broke while it looked: {crash_location(error)}", hint="Please report it.")


def words(id_: str, title: str) -> Rule:
    """A rule of somebody else's: only an id and words."""
    return Rule(id=id_, title=title, why="", fix="", severity=NO_ANSWER.severity)


def how_it_ended(finished: Finished) -> str:
    """For a person: the code or the signal, and the last of what it said."""
    said = " ".join(finished.err.decode(errors="replace").split())
    code = f"signal {-finished.code}" if finished.code < 0 else f"exit code {finished.code}"
    return f"{code}: {said[-_SHOWN:]}" if said else code


def program_of(environment: Environment, name: str) -> str | None:
    """Where a program lies. A relative folder of PATH could be the repository itself: it is not looked at."""
    folders = [str(folder) for folder in environment.path if folder.is_absolute()]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None


_CHILD = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"})


def child_variables(environment: Environment) -> dict[str, str]:
    """What a tool may see: nothing of the caller's credentials."""
    return {name: value for name, value in environment.variables.items() if name in _CHILD}
