"""What a rule is and what it returns; `subjects.py` has what it receives.

A new rule is a `Rule` in a file in `rules/`, alone or beside rules that share its code, its reason,
examples and limits in `rules/details/`, one line in `catalogue.py`, and a row in
`tests/support/rule_cases_*`:

    def _check(module: Module) -> Iterator[Finding]:
        for resource in module.resources("aws_s3_bucket"):
            if value(resource.body, "acl") == "public-read":
                yield finding(resource.block, "anyone can read the bucket", address=resource.address)

    RULE = Rule(
        id="HF999",
        title="Public bucket",
        fix='Remove `acl = "public-read"`.',
        severity=Severity.ERROR,
        source=_check,
    )

A rule consists of pure functions, one for each target it checks. Each returns findings; what it cannot
evaluate it returns as `Skipped` with the reason, which never counts as passed. File contents never make it
raise. It does not decide whether a finding counts (severity, waivers).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.checks.model.contents import History
from holdfast.checks.model.subjects import (
    CheckedPlan,
    CheckedStack,
    CheckedState,
    Checkout,
    EngineOutput,
    Module,
    VariablesFile,
)
from holdfast.hcl.nodes import Attribute, Block, Expression, File
from holdfast.kernel.errors import Place

T = TypeVar("T")


class Severity(StrEnum):
    """Most severe first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 is the most severe."""
        return _RANKS[self]

    @property
    def milder(self) -> Severity:
        """One step less severe."""
        return Severity.WARNING if self is Severity.ERROR else Severity.NOTE

    def is_at_least(self, level: Severity) -> bool:
        """Whether it is at least as severe as this level."""
        return self.rank <= level.rank


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}
_FEW = 3


class Finding(Struct, frozen=True, kw_only=True):
    """One problem that a rule reports. `finding` creates one from a piece of code."""

    message: str
    """What is wrong, as a sentence without its full stop; it never contains a secret."""
    place: Place | None = None
    """The file relative to the root. None: not in a file (a plan, a state)."""
    end_line: int | None = None
    address: str | None = None
    """`aws_db_instance.main`: within its module in source, complete in plans and states."""
    hint: str | None = None
    """What to do here; the default is the rule's `fix`."""
    stack: str | None = None
    """Only needed for rules about the whole repository; otherwise it is known."""
    severity: Severity | None = None
    """If it differs from the rule's."""
    group: str | None = None
    """Those of a rule with the same one are shown as one. It may be the digest of a secret: never shown."""


class Skipped(Struct, frozen=True, kw_only=True):
    """The rule could not be evaluated, or only in part."""

    reason: str
    file: str | None = None
    """The only file that could not be evaluated; None: nothing of the subject could be."""
    stack: str | None = None
    expected: bool = False
    """It follows from what was asked for or configured: summaries do not count it."""


CheckResult = Finding | Skipped
CheckFunction = Callable[[T], Iterable[CheckResult]]


class CheckTarget(StrEnum):
    """What a rule can check, in the order of `Rule`'s functions."""

    SOURCE = "source"
    VARIABLES = "variables"
    STACK = "stack"
    REPOSITORY = "repository"
    HISTORY = "history"
    ENGINE = "engine"
    PLAN = "plan"
    STATE = "state"


class Rule(Struct, frozen=True, kw_only=True, dict=True):
    """A rule, its documentation, and its functions: each is called once per subject of its kind."""

    id: str
    title: str
    """The problem in a few words, without a full stop."""
    fix: str
    """What to do, as the default hint: one or two sentences."""
    severity: Severity
    why: str = ""
    """Of a rule of an external tool; for others `rules/details/` says why."""
    source: CheckFunction[Module] | None = None
    """Each folder of code, once however many stacks use it."""
    variables: CheckFunction[VariablesFile] | None = None
    """Each variables file, once."""
    stack: CheckFunction[CheckedStack] | None = None
    """Each selected stack: its backend, environment, values."""
    repository: CheckFunction[Checkout] | None = None
    """Once: the files of the tree, and all stacks."""
    history: CheckFunction[History] | None = None
    """Once, with `--history`: the Git history."""
    engine: CheckFunction[EngineOutput] | None = None
    """With `--engine`, and in a plan: Terraform's output for each root module."""
    plan: CheckFunction[CheckedPlan] | None = None
    """Each available plan."""
    state: CheckFunction[CheckedState] | None = None
    """Each available state."""
    extra_files: Callable[[Any], Iterable[str]] | None = None
    """Files that it also reads for a subject, such as policies that the code names."""
    tool: str = ""
    """The external tool that it comes from or reports on."""
    of_git: bool = False
    """It checks files in Git, not the content of a stack: plans skip it."""
    secret: bool = False
    """It finds secrets: no rule shows more than names of the lines it reports (`source_lines`)."""
    everywhere: bool = False
    """Its findings count in full in code that no stack uses; those of other rules are notes there."""
    needs: str = ""
    """A convention: what turns the rule on, such as `checks.tags`. It is off until then."""
    configured: Callable[[Checkout], bool] | None = None
    """Whether that is so; a severity for the rule's full id also turns it on."""

    @functools.cached_property
    def targets(self) -> tuple[CheckTarget, ...]:
        return tuple(target for target in CheckTarget if getattr(self, target) is not None)


Where = Place | Block | Attribute | File


def finding(
    where: Where,
    message: str,
    *,
    address: str | None = None,
    hint: str | None = None,
    severity: Severity | None = None,
    stack: str | None = None,
    end_line: int | None = None,
    group: str | None = None,
) -> Finding:
    """At a block (all its lines), an attribute, a place, or a whole file."""
    place, last = _place_and_end(where)
    return Finding(
        message=message,
        place=place,
        end_line=end_line or last,
        address=address,
        hint=hint,
        severity=severity,
        stack=stack,
        group=group,
    )


def known_at_run_time_only(what: str, places: Iterable[tuple[str, str]], so: str = "") -> Iterator[Skipped]:
    """One skip for each file, with the first few addresses. `places`: file and address of each."""
    by_file: dict[str, list[str]] = {}
    for file, address in dict.fromkeys(places):
        by_file.setdefault(file, []).append(address)
    for file, addresses in by_file.items():
        listed = ", ".join(addresses[:_FEW]) + (", …" if len(addresses) > _FEW else "")
        yield Skipped(reason=f"only known at run time: {what} of {listed}{so}", file=file)


def _place_and_end(where: Where) -> tuple[Place, int | None]:
    match where:
        case Place():
            return where, None
        case Block():
            return where.place, where.end.line
        case Attribute():
            return where.place, None
        case File():
            return Place(file=where.path), None


def place_of(expression: Expression, file: str | File) -> Place:
    """The place of an expression, which knows its line but not its file."""
    path = file if isinstance(file, str) else file.path
    return Place(file=path, line=expression.line, column=expression.column)


class Tool(Struct, frozen=True, kw_only=True):
    """An external program whose findings are part of the report, under their own ids.

    `run` starts the program. A missing program is `Skipped` with `auto`; one that crashes or prints invalid
    output is an error, never a pass.
    """

    name: str
    run: Callable[[Checkout, Mapping[str, CheckedPlan]], Iterable[tuple[Rule, CheckResult]]]
    """Plans by stack name. Its rules need no functions, only an id and texts."""
