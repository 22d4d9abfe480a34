"""The result of one stack: shown on a console, printed as JSON, recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct, field

from holdfast.guard.decision import Allow, Decision
from holdfast.kernel.errors import Exit, Problem, most_severe
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.interface import EngineId
from holdfast.terraform.plan.model import Plan


class Output(MaskedStruct, frozen=True, kw_only=True):
    value: object
    sensitive: bool


class Reader(Struct, frozen=True, kw_only=True):
    """A stack that reads outputs which a plan changes."""

    stack: str
    outputs: tuple[str, ...]
    selected: bool
    """Whether it is part of the change."""


class StackResult(MaskedStruct, frozen=True, kw_only=True):
    stack: Stack
    status: Status
    engine: EngineId | None = None
    run: str | None = None
    digest: str | None = None
    plan: Plan | None = None
    decision: Decision = field(default_factory=Allow)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    duration: float = 0.0
    error: Problem | None = None
    problems: tuple[Problem, ...] = ()
    """All errors; `error` is the first or sums them up."""
    mocks: Mapping[str, object] = field(default_factory=dict)
    """Variables with a mock value: the output did not exist when it was planned."""
    readers: tuple[Reader, ...] = ()
    notes: tuple[str, ...] = ()
    """For the user: a pending dependency, a changed lock file."""
    saved: bool = False
    """Its plan is in a bundle: it can be approved, rejected and applied."""
    removed_resources: tuple[str, ...] | None = None
    """For a removed stack: the resources in its state. None: the state was not read."""


def read_outputs(answer: bytes) -> dict[str, Output]:
    """The result of `output -json`, without sensitive values."""
    return {
        name: Output(value=None if output["sensitive"] else output["value"], sensitive=output["sensitive"])
        for name, output in json.loads(answer or b"{}").items()
    }


def exit_code(results: tuple[StackResult, ...], *, detailed: bool = False, blocked: Exit = Exit.DONE) -> Exit:
    """The most severe result; with `detailed`, planned changes are exit 2. On apply, `blocked` is exit 1."""
    special = {Status.BLOCKED: blocked} | ({Status.PLANNED: Exit.CHANGES} if detailed else {})
    return most_severe([special.get(result.status, result.status.exit) for result in results])
