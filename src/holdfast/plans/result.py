"""The result of one stack: shown on a console, printed as JSON, recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct, field, structs

from holdfast.guard.decision import Allow, Decision
from holdfast.kernel.errors import Exit, Problem, most_severe
from holdfast.kernel.server_hints import KNOWN_SERVER, on_server, problem_on_server
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.saved_plan import StateIdentity
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack
from holdfast.terraform.engine.interface import EngineId
from holdfast.terraform.plan.model import Plan

NOT_STARTED = "not started"
"""The outcome of a planned change that an apply did not get to."""


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
    remark: str | None = None
    """The note that a table shows beside the status: `already applied`."""
    replaces: str | None = None
    """The digest of the saved plan that was planned again as this one."""
    state_before: StateIdentity | None = None
    state_after: StateIdentity | None = None
    """Of an applied stack: a bundle proves with them that nothing else changed the state."""
    blocked_by: str | None = None
    """Of a blocked stack: the stack that it waits for."""
    outcomes: Mapping[str, str] = field(default_factory=dict)
    """After an apply, of each change that Terraform started, by address: `applied`, `failed`, `unknown`, or
    `incomplete` for half a replacement."""
    removed_resources: tuple[str, ...] | None = None
    """For a removed stack: the resources in its state. None: the state was not read."""


def with_plan_of(planned: StackResult, failed: StackResult) -> StackResult:
    """A failed apply is shown with its plan."""
    return structs.replace(
        planned,
        status=failed.status,
        error=failed.error,
        problems=failed.problems,
        notes=tuple(dict.fromkeys((*planned.notes, *failed.notes))),
        duration=failed.duration,
    )


def result_on_server(result: StackResult, option: str = KNOWN_SERVER) -> StackResult:
    """Its hints and notes name commands that work there."""
    return structs.replace(
        result,
        error=problem_on_server(result.error, option) if result.error is not None else None,
        problems=tuple(problem_on_server(problem, option) for problem in result.problems),
        notes=tuple(on_server(note, option) for note in result.notes),
    )


def read_outputs(answer: bytes) -> dict[str, Output]:
    """The result of `output -json`, without sensitive values."""
    return {
        name: Output(value=None if output["sensitive"] else output["value"], sensitive=output["sensitive"])
        for name, output in json.loads(answer or b"{}").items()
    }


def planned_later(results: Iterable[StackResult]) -> int:
    """How many stacks can be planned only after others are applied. Nothing failed on the way to them."""
    by_name = {result.stack.name: result for result in results}

    def waits(result: StackResult) -> bool:
        if result.status is not Status.BLOCKED:
            return False
        cause = by_name.get(result.blocked_by or "")
        if cause is None:
            return result.blocked_by is None  # It needs an output of a stack that is not selected.
        return waits(cause) if cause.status is Status.BLOCKED else not cause.status.stops_dependents

    return sum(map(waits, by_name.values()))


def awaiting_approval(results: Iterable[StackResult]) -> frozenset[str]:
    """The stacks that wait for an approval, and those that only wait for them."""
    by_name = {result.stack.name: result for result in results}

    def waits(result: StackResult | None) -> bool:
        if result is None or result.status is not Status.BLOCKED:
            return result is not None and result.status is Status.WAITING
        return waits(by_name.get(result.blocked_by or ""))

    return frozenset(name for name, result in by_name.items() if waits(result))


def exit_code(results: tuple[StackResult, ...], *, detailed: bool = False, blocked: Exit = Exit.DONE) -> Exit:
    """The most severe result; with `detailed`, planned changes are exit 2. On apply, `blocked` is exit 1."""
    special = {Status.BLOCKED: blocked} | ({Status.PLANNED: Exit.CHANGES} if detailed else {})
    return most_severe([special.get(result.status, result.status.exit) for result in results])
