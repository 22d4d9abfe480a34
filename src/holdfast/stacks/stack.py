"""A stack, the unit of plan and apply, and the rules for its name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from holdfast.config.engine import EnginePin
from holdfast.config.hooks import Hook
from holdfast.config.output_refs import OutputRef
from holdfast.config.secret_refs import Value, frozen
from holdfast.config.settings import ContractUse, Target
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.patterns import pattern
from holdfast.kernel.values import PlacedStruct


class Derived(Struct, frozen=True, kw_only=True):
    """A dependency that follows from what a stack reads, not from `depends_on`."""

    stack: str
    """The stack whose outputs are read."""
    source: str
    """What reads them: `input vpc_id`, or `data.terraform_remote_state.network`."""
    place: Place
    output: str | None = None
    """The output that an input reads; None for a remote state."""
    module: str | None = None
    """The folder of the module that reads a remote state, and the name of its data source."""
    name: str = ""


class GeneratedFile(Struct, frozen=True, kw_only=True):
    content: str
    template: str | None = None
    """The path of the template, if it is a file."""


class Stack(PlacedStruct, frozen=True, kw_only=True):
    """Every path is relative to the root and uses `/`. Placeholders are filled in."""

    name: str
    kind: RuleKind
    device: bool = False
    """One of many with the same code: its name and variables come from an event."""
    recreates: bool = False
    """What vanished of the device is created again: its blueprint says so."""
    place: Place
    """The entry of holdfast.yaml that defines it. A stack whose entry only moved in the file is unchanged."""
    module: str
    """The folder of the root module; `.` for the top of the repository."""
    variables_files: tuple[str, ...] = ()
    """In the order in which Terraform gets them: the last one wins. A stack's own file is last."""
    absent_files: tuple[str, ...] = ()
    """Optional variables files that do not exist: they would count if they did."""
    sources: tuple[str, ...] = ()
    """Files and folders that give the placeholders of a matrix their values."""
    variables: Mapping[str, Value] = field(default_factory=frozen)
    """Those of `inputs` included, except outputs of other stacks."""
    inputs: Mapping[str, OutputRef] = field(default_factory=dict)
    """Variables that get an output of another stack."""
    environment: str | None = None
    production: bool = True
    environment_reason: str = ""
    """Why it does or does not count as production, as shown to users."""
    environment_unclear: bool = False
    """It counts as production only because its environment is unknown or contradictory."""
    account: str | None = None
    region: str | None = None
    target: Target | None = None
    backend: Backend | None = None
    credentials: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    env: Mapping[str, Value] = field(default_factory=frozen)
    pass_env: tuple[str, ...] = ()
    """Names of the caller's variables that Terraform gets, in addition to the usual ones."""
    workspace: str = "default"
    depends_on: tuple[str, ...] = ()
    """Names of existing stacks, those that follow from what it reads included."""
    derived: tuple[Derived, ...] = ()
    hooks: tuple[Hook, ...] = ()
    worker: Mapping[str, str] = field(default_factory=dict)
    """Labels of the workers that may run it."""
    generate: Mapping[str, GeneratedFile] = field(default_factory=dict)
    """By name in the module."""
    warm_providers: bool = False
    """Whether its provider processes are kept between commands."""
    engine: EnginePin | None = None
    terraform_parallelism: int | None = None
    """`-parallelism` of plan and apply."""
    reads: tuple[str, ...] = ()
    """Globs of more files that it reads, those of the file included."""
    ignores: tuple[str, ...] = ()
    """Globs of files that never affect it."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot be used: a file that its settings depend on cannot be read."""

    @property
    def is_unknown(self) -> bool:
        """It stands for the stacks of an entry whose matrix takes values from a file that cannot be read."""
        return "{" in self.name

    @property
    def lane(self) -> str:
        """Of the target, otherwise of the environment. The lane of a target has no colon in its name.

        Devices run in parallel, each in a lane of its own.
        """
        if self.device:
            return f"device:{self.name}"
        if self.target is not None:
            return self.target.lane or self.target.name
        return "default" if self.environment is None else f"env:{self.environment}"

    @property
    def generated(self) -> Mapping[str, str]:
        """The content of generated files by path."""
        folder = "" if self.module == "." else f"{self.module}/"
        return {f"{folder}{name}": file.content for name, file in self.generate.items()}

    @property
    def own_file(self) -> str | None:
        """The variables file that defines this stack, if one does."""
        return self.variables_files[-1] if self.kind is RuleKind.VARIABLES else None

    @property
    def contract(self) -> ContractUse | None:
        """The contract that its target requires of its outputs."""
        use = self.target.contract if self.target is not None else None
        if use is None or (use.stacks and not any(matches(self, argument) for argument in use.stacks)):
            return None
        return use


class RemovedStack(Struct, frozen=True, kw_only=True):
    """A stack whose variables file or folder was deleted; its state may still contain resources."""

    stack: Stack | None
    """The stack as it was, if it is still known (to read its state)."""
    name: str
    variables: str | None
    reason: str


class Selected(Struct, frozen=True, kw_only=True):
    """A stack and why it is in the selection."""

    stack: Stack
    reasons: tuple[str, ...]


_FILTERS = ("env", "account", "region", "target")


def matches(stack: Stack, argument: str) -> bool:
    """`prod/*`, `env:prod`, `account:…`, `region:…`, `target:…`, or an exact name."""
    key, colon, pattern = argument.partition(":")
    if colon and key in _FILTERS:
        value = _filters(stack)[key]
        if stack.is_unknown and (value is None or "{" in value):
            return True
        return value is not None and fnmatch.fnmatchcase(value, pattern)
    if stack.name == argument or may_be(stack.name, argument):
        return True
    return fnmatch.fnmatchcase(stack.name, argument)


def may_be(entry: str, name: str) -> bool:
    """Whether a stack may be one of an entry whose matrix cannot be read: that has a `{name}` in its name."""
    parts = entry.split("{")
    others = (".+" + re.escape(part.partition("}")[2]) for part in parts[1:])
    return len(parts) > 1 and re.fullmatch(re.escape(parts[0]) + "".join(others), name) is not None


def _filters(stack: Stack) -> dict[str, str | None]:
    return {
        "env": stack.environment,
        "account": stack.account,
        "region": stack.region,
        "target": stack.target.name if stack.target else None,
    }


def selectors(stack: Stack) -> tuple[str, ...]:
    """Every argument without a glob that matches the stack."""
    filters = _filters(stack).items()
    return (stack.name, *(f"{key}:{value}" for key, value in filters if value is not None))


LONGEST_NAME: Final = 200
_SUFFIXES: Final = (".tfvars", ".tfvars.json")
_ALLOWED: Final = pattern(r"[A-Za-z0-9._/@+-]")
_USUAL: Final = pattern(
    r"(?:(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._@+][A-Za-z0-9._@+-]*)(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._@+-]+)*"
)


def name_problem(name: str) -> str | None:
    """What is wrong with a stack's name, or None. Names become paths, arguments and keys."""
    if len(name) <= LONGEST_NAME and _USUAL.fullmatch(name):
        return None
    invalid = sorted({character for character in name if not _ALLOWED.fullmatch(character)})
    shown = " ".join(printable(repr(character)) for character in invalid)
    parts = name.split("/")
    problems = (
        (not name, "it is empty"),
        (len(name) > LONGEST_NAME, f"it is longer than {LONGEST_NAME} characters"),
        (bool(invalid), f"it contains {shown}; allowed are letters, digits and . _ / @ + -"),
        (name.startswith("-"), "it starts with -"),
        ("" in parts, "it has an empty part: a / at its start or end, or two in a row"),
        ("." in parts or ".." in parts, "one of its parts is . or .."),
    )
    return next((text for wrong, text in problems if wrong), None)


def name_from_path(path: str) -> str:
    """The name of a stack that is defined by a variables file."""
    return path.removesuffix(".json").removesuffix(".tfvars") if path.endswith(_SUFFIXES) else path


def printable(text: str) -> str:
    """Text for a message; a file name need not be valid text."""
    return text.encode("utf-8", "backslashreplace").decode()
