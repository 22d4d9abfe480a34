r"""What a rule is and what it answers. What it is handed stands in `subjects.py`.

A new rule is one file in `rules/` that holds a `RULE`, and one line in `catalogue.py`:

    def _look(module: Module) -> Iterator[Finding]:
        for resource in module.resources("aws_s3_bucket"):
            if value(resource.body, "acl") == "public-read":
                yield finding(resource.block, "the bucket can be read by anyone", address=resource.address)

    RULE = Rule(
        id="HF999",
        title="A bucket that anyone can read",
        why="What is in it is public from the moment it is there.",
        fix='Take `acl = "public-read"` away.',
        severity=Severity.ERROR,
        source=_look,
        bad='resource "aws_s3_bucket" "a" {\n  acl = "public-read"\n}\n',
        good='resource "aws_s3_bucket" "a" {\n  acl = "private"\n}\n',
    )

A rule is made of pure functions, one for each kind of thing it looks at. Each answers with findings; where it
could not look it answers `Skipped` with the reason, and is not taken for one that found nothing. It never
raises for what files hold. Whether a finding counts (severity, waivers) is not the rule's business.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.checks.model.subjects import (
    CheckedPlan,
    CheckedStack,
    CheckedState,
    Checkout,
    EngineSaid,
    History,
    Module,
    VariablesFile,
)
from holdfast.hcl.nodes import Attribute, Block, Expression, File
from holdfast.kernel.errors import Place

T = TypeVar("T")


class Severity(StrEnum):
    """The gravest first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    def is_at_least(self, level: Severity) -> bool:
        """Whether it is as grave as this level, or graver."""
        return _MOST_SEVERE_FIRST.index(self) <= _MOST_SEVERE_FIRST.index(level)


_MOST_SEVERE_FIRST = tuple(Severity)
_FEW = 3


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, as a rule says it. `finding` makes one from a piece of code."""

    message: str
    """What is wrong here, as a sentence without its end; it never holds a secret."""
    place: Place | None = None
    """The file relative to the root. None: it stands in no file (a plan, a state)."""
    end_line: int | None = None
    address: str | None = None
    """`aws_db_instance.main`, inside its module in source, as a whole in plans and states."""
    hint: str | None = None
    """What to do here; else the rule's `fix` is shown."""
    stack: str | None = None
    """Only needed from rules that look at the repository as a whole: else it is known."""
    severity: Severity | None = None
    """Only where it is not the rule's own."""


class Skipped(Struct, frozen=True, kw_only=True):
    """The rule could not look, or not at everything."""

    reason: str
    file: str | None = None
    """The only file that it could not look at; None: it could not look at anything of what it was handed."""
    stack: str | None = None


CheckResult = Finding | Skipped
CheckFunction = Callable[[T], Iterable[CheckResult]]


class CheckTarget(StrEnum):
    """What a rule can look at, in the order of `Rule`'s functions."""

    SOURCE = "source"
    VARIABLES = "variables"
    STACK = "stack"
    REPOSITORY = "repository"
    HISTORY = "history"
    ENGINE = "engine"
    PLAN = "plan"
    STATE = "state"


class Rule(Struct, frozen=True, kw_only=True, dict=True):
    """A rule, its page, and its functions: each is called once for each thing of its kind."""

    id: str
    title: str
    """What is wrong where it finds something: a few words, no full stop."""
    why: str
    """What happens to people who do it all the same: one to three sentences."""
    fix: str
    """What to do, as the hint of a finding: one or two sentences."""
    severity: Severity
    source: CheckFunction[Module] | None = None
    """Each folder of code, once however many stacks use it."""
    variables: CheckFunction[VariablesFile] | None = None
    """Each variables file, once."""
    stack: CheckFunction[CheckedStack] | None = None
    """Each selected stack: its backend, environment, values."""
    repository: CheckFunction[Checkout] | None = None
    """Once: the files of the tree, and every stack side by side."""
    history: CheckFunction[History] | None = None
    """Once, with `--history`: what Git has ever kept."""
    engine: CheckFunction[EngineSaid] | None = None
    """With `--engine`, and in a plan: what Terraform said about each root module."""
    plan: CheckFunction[CheckedPlan] | None = None
    """Each plan at hand."""
    state: CheckFunction[CheckedState] | None = None
    """Each state at hand."""
    extra_files: Callable[[Any], Iterable[str]] | None = None
    """The files that it looks at beside those of what it was handed: policies that the code names, say."""
    tool: str = ""
    """The program of other people's that it comes from, or that it says something about."""
    of_git: bool = False
    """It is about what Git keeps, not about what a stack is made of: plans do not ask it."""
    secret: bool = False
    """It finds secrets: of the lines of its findings no rule shows more than names (`source_lines`)."""
    bad: str = ""
    """Code (of a `main.tf`) that it finds something in: for its page, and a test proves it."""
    good: str = ""
    """The same, put right."""
    more: str = ""
    """Markdown for its page: settings, exceptions, what it does not see."""

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
) -> Finding:
    """At a block (all its lines), an attribute, a place, or a file as a whole."""
    place, last = _place_and_end(where)
    return Finding(
        message=message,
        place=place,
        end_line=end_line or last,
        address=address,
        hint=hint,
        severity=severity,
        stack=stack,
    )


def known_at_run_time_only(what: str, places: Iterable[tuple[str, str]], so: str = "") -> Iterator[Skipped]:
    """One skip for each file, with the first few addresses. `places`: file and address of each."""
    found: dict[str, list[str]] = {}
    for file, address in dict.fromkeys(places):
        found.setdefault(file, []).append(address)
    for file, addresses in found.items():
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
    """Where an expression stands: it knows its line, and whoever holds it knows the file."""
    path = file if isinstance(file, str) else file.path
    return Place(file=path, line=expression.line, column=expression.column)


class Tool(Struct, frozen=True, kw_only=True):
    """A program of other people's whose findings come into the same report, under their own ids.

    `run` is not pure: it starts the program through the doors. A program that is missing is `Skipped` while
    it is on `auto`; one that crashes or prints nonsense is a finding of severity error, never silence.
    """

    name: str
    run: Callable[[Checkout, Mapping[str, CheckedPlan]], Iterable[tuple[Rule, CheckResult]]]
    """Plans by the name of their stack. The rules it answers with need no functions, only an id and words."""
