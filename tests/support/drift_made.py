"""Stacks whose reality is changed behind Terraform, and checks of them at a time of the test's choice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lab_stacks import lab_module
from program import Program

from holdfast.cli.command import Invocation
from holdfast.cli.console import Console
from holdfast.cli.context import CommandContext
from holdfast.drift.check import check_stacks
from holdfast.drift.healing import heal
from holdfast.drift.observation import Observation
from holdfast.drift.result import DriftResult
from holdfast.drift.telling import AlertSink, tell_drift
from holdfast.plans.context import ChangeContext
from holdfast.store.drift import Finding, FindingState
from holdfast.system.environment import Environment

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
CANARY = "canary-7f3a9c51d2"
BODY = """
variable "body" { default = "hello" }
resource "lab_object" "one" {
  name   = "NAME-one"
  body   = var.body
  secret = "SECRET"
}
resource "lab_object" "two" {
  name = "NAME-two"
}
"""


class FakeTime:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self.moment = start

    def __call__(self) -> datetime:
        return self.moment

    def pass_(self, **length: float) -> datetime:
        self.moment += timedelta(**length)
        return self.moment


def drift_repository(
    program: Program, stacks: tuple[str, ...] = ("a",), *, environment: str = "dev", **drift: Any
) -> None:
    """With these stacks, each with two objects."""
    objects = program.environment["TF_VAR_objects"]
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}, "prod": {"match": ["prod"]}},
        "stacks": [
            {"name": name, "module": name, "environment": environment, "env": {"LAB_DIRECTORY": objects}}
            for name in stacks
        ],
        "drift": drift,
    }
    program.write("holdfast.yaml", json.dumps(document))
    for name in stacks:
        code = BODY.replace("NAME", name).replace("SECRET", f"{CANARY}-{name}")
        program.write(f"{name}/main.tf", lab_module(code))


def object_file(program: Program, name: str) -> Path:
    folder = Path(program.environment["TF_VAR_objects"])
    [file] = [file for file in folder.iterdir() if file.name.startswith(f"{name}-")]
    return file


def change_object(program: Program, name: str, **values: Any) -> None:
    """As someone with a console does."""
    file = object_file(program, name)
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def delete_object(program: Program, name: str) -> Callable[[], None]:
    """Answers what brings it back."""
    file = object_file(program, name)
    content = file.read_text()
    file.unlink()

    def bring_back() -> None:
        file.write_text(content)

    return bring_back


class DriftCheck:
    """Checks in this process, at the time of a clock."""

    def __init__(self, program: Program, now: FakeTime) -> None:
        self._program = program
        self.now = now

    def __call__(self, *, healing: bool = False, tell: AlertSink | None = None) -> dict[str, DriftResult]:
        environment = Environment(variables=self._program.environment)
        invocation = Invocation(
            as_json=True,
            config=self._program.folder / "holdfast.yaml",
            verbose=False,
            environment=environment,
            console=Console(as_json=True, quiet=True),
        )
        context = CommandContext(invocation)

        async def work(change: ChangeContext) -> tuple[DriftResult, ...]:
            results = await check_stacks(change, context.repository.stacks, now=self.now)
            return await heal(change, results, now=self.now) if healing else results

        results = context.run(work)
        asyncio.set_event_loop(None)
        if tell is not None:
            tell_drift(context.repository.store, results, tell, now=self.now)
        return {result.stack.name: result for result in results}


def by_attribute(result: DriftResult) -> dict[tuple[str, str | None], Finding]:
    return {finding.key: finding for finding in result.known.findings}


def states(result: DriftResult) -> dict[str, FindingState]:
    """By what is left of the address, and the attribute."""
    return {
        f"{finding.address.rpartition('.')[2]} {finding.attribute or ''}".strip(): finding.state
        for finding in result.known.findings
    }


def observed(
    address: str = "lab_object.one", attribute: str | None = "body", value: object = "bye", **more: Any
) -> Observation:
    given: dict[str, Any] = {
        "type": "lab_object",
        "before": "hello",
        "fingerprint": f"print of {value!r}",
    } | more
    return Observation(address=address, attribute=attribute, after=value, **given)
