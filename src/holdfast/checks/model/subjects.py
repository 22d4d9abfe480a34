"""What rules are handed: the repository as it stands, its modules, variables files, stacks, plans and states.

Paths are relative to the root and use `/`; the root itself is `.`. Every file is read once, whoever asks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from msgspec import Struct, field

from holdfast.checks.code.bodies import ABSENT, Absent, bodies, nested, value
from holdfast.checks.model.traces import Trace, Unread
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code, ModuleCode
from holdfast.hcl.eval.evaluate import Scope
from holdfast.hcl.nodes import Block, Body, File
from holdfast.hcl.reader import COMPUTED, UNKNOWN, values
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.values import MaskedStruct
from holdfast.stacks.reads.walk import Visited, module_instances
from holdfast.stacks.stack import Stack
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.statefile.contents import Contents
from holdfast.terraform.statefile.model import State, StateFile, StateOutput, StateResource

MODES: Final = {"resource": "managed", "data": "data", "ephemeral": "ephemeral"}
"""The types of blocks that are objects of a provider, with the mode that plans and states give them."""


class Resource(Struct, frozen=True, kw_only=True, eq=False):
    """A `resource`, `data` or `ephemeral` block."""

    mode: str
    """`managed`, `data` or `ephemeral`."""
    type: str
    name: str
    block: Block

    @property
    def body(self) -> Body:
        return self.block.body

    @property
    def place(self) -> Place:
        return self.block.place

    @property
    def address(self) -> str:
        """Inside its module."""
        prefix = "" if self.mode == "managed" else f"{self.mode}."
        return f"{prefix}{self.type}.{self.name}"


class Module(Struct, kw_only=True, eq=False, dict=True):
    """One folder of code. Several stacks may use it, or none."""

    checkout: Checkout
    folder: str

    @functools.cached_property
    def code(self) -> ModuleCode:
        """Variables, locals, calls, backend, providers: what `stacks.code` reads."""
        return self.checkout.code.module(self.folder)

    @property
    def files(self) -> tuple[File, ...]:
        return self.code.files

    @functools.cached_property
    def stacks(self) -> tuple[CheckedStack, ...]:
        """The selected stacks that use it, as their root module or through calls."""
        return tuple(self.checkout.users.get(self.folder, ()))

    @property
    def roots(self) -> tuple[CheckedStack, ...]:
        """Those of them whose root module it is."""
        return tuple(stack for stack in self.stacks if stack.stack.module == self.folder)

    @property
    def production(self) -> bool:
        """Whether a stack in production uses it."""
        return any(stack.stack.production for stack in self.stacks)

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """Those of its files."""
        return tuple(file.path for file in self.files)

    def blocks(self, *types: str) -> Iterator[Block]:
        """The blocks of these types at the top of its files: `blocks("output")`."""
        return iter(self._blocks.get(types[0], ())) if len(types) == 1 else self.code.blocks(*types)

    @functools.cached_property
    def _blocks(self) -> Mapping[str, list[Block]]:
        found: dict[str, list[Block]] = {}
        for file in self.files:
            for block in file.body.blocks:
                found.setdefault(block.type, []).append(block)
        return found

    def declared(self, type_: str, name: str) -> Block | None:
        """The first block of this type with this name: `declared("output", "url")`."""
        return self._declared.get((type_, name))

    @functools.cached_property
    def _declared(self) -> Mapping[tuple[str, str], Block]:
        found: dict[tuple[str, str], Block] = {}
        for type_, blocks in self._blocks.items():
            for block in blocks:
                if block.labels:
                    found.setdefault((type_, block.labels[0]), block)
        return found

    @functools.cached_property
    def _resources(self) -> tuple[Resource, ...]:
        found = (
            (MODES[block.type], block.labels, block)
            for file in self.files
            for top in file.body.blocks
            for block in (top, *(top.body.blocks_of("data") if top.type == "check" else ()))
            if block.type in MODES
        )
        return tuple(
            Resource(
                mode=mode,
                type=labels[0] if labels else "",
                name=labels[1] if len(labels) > 1 else "",
                block=block,
            )
            for mode, labels, block in found
        )

    def resources(self, *types: str, mode: str | None = None) -> Iterator[Resource]:
        """Its resources, data sources (those of `check` blocks too) and ephemeral ones: of these types, of
        this mode, or all.
        """
        return (
            one
            for one in self._resources
            if (not types or one.type in types) and (mode is None or one.mode == mode)
        )


class VariablesFile(Struct, kw_only=True, eq=False, dict=True):
    """A `.tfvars` or `.tfvars.json`."""

    checkout: Checkout
    path: str
    file: File
    stacks: tuple[CheckedStack, ...] = ()
    """The selected stacks that are given it."""

    @functools.cached_property
    def values(self) -> Mapping[str, object]:
        return values(self.file)


class CheckedStack(Struct, kw_only=True, eq=False, dict=True):
    """A selected stack: `stack` says what it is, `folders` which code it is made of."""

    checkout: Checkout
    stack: Stack

    @property
    def name(self) -> str:
        return self.stack.name

    @property
    def module(self) -> Module:
        return self.checkout.module(self.stack.module)

    @functools.cached_property
    def scopes(self) -> tuple[Visited, ...]:
        """Its root module and every local module it calls, each with the values it has there.

        `value(resource.body, "name", visited.scope)` then knows variables, locals and arguments of calls.
        """
        return tuple(module_instances(self.checkout.code, self.stack))

    @property
    def scope(self) -> Scope:
        """What names mean in its root module."""
        return self.scopes[0].scope

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(visited.folder for visited in self.scopes)

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """The files that decide it: of its code, its variables files, and holdfast.yaml."""
        code = self.checkout.code
        inside = (file.path for folder in sorted(self.folders) for file in code.module(folder).files)
        return (*inside, *self.stack.variables_files, self.checkout.config.file.name)

    @functools.cached_property
    def backend(self) -> BackendSeen:
        return _backend(self)

    @property
    def place(self) -> Place:
        """Its own variables file, or the entry of holdfast.yaml it comes from."""
        return Place(file=self.stack.own_file) if self.stack.own_file is not None else self.stack.place


class BackendSeen(Struct, frozen=True, kw_only=True):
    """Where a stack keeps its state: what code and configuration say together."""

    type: str
    """`holdfast` where neither names a backend and Holdfast keeps the state; `cloud` for a `cloud` block."""
    settings: Mapping[str, object]
    """Plain values; `UNKNOWN` where it is computed; a `SecretRef` stays one. The configuration wins."""
    in_code: Mapping[str, object]
    """Those that stand in the code."""
    place: Place
    """The block in the code, else where the configuration names it."""


def _backend(checked: CheckedStack) -> BackendSeen:
    stack, code = checked.stack, checked.module.code
    configured = stack.backend
    in_code = dict(code.backend.settings) if code.backend is not None else {}
    given = dict(configured.settings) if configured is not None else {}
    said = code.backend.type if code.backend is not None else ("cloud" if code.cloud is not None else None)
    place = code.backend.place if code.backend is not None else code.cloud
    return BackendSeen(
        type=said or (configured.type if configured is not None else None) or "holdfast",
        settings={**in_code, **given},
        in_code=in_code,
        place=place or stack.place,
    )


class EngineSaid(MaskedStruct, frozen=True, kw_only=True):
    """What Terraform said about the code of one folder."""

    stack: CheckedStack
    folder: str
    formatted: Mapping[str, bytes] = field(default_factory=dict)
    """Path to content as `fmt` would have it, for every file of the folder that it looked at."""
    problems: tuple[Problem, ...] = ()
    """What `validate` said, with places in the source."""
    warnings: tuple[Problem, ...] = ()
    """What it only warned of."""
    unseen: str | None = None
    """Why `validate` could not be asked."""
    unformatted: str | None = None
    """Why `fmt` could not be asked."""
    mended: tuple[str, ...] = ()
    """Files that were written in the format, because somebody asked for it; `formatted` has none of them."""
    alone: tuple[str, ...] = ()
    """Folders that no stack uses: only their format was asked for, beside that of this one."""


class CheckedPlan(MaskedStruct, frozen=True, kw_only=True):
    stack: CheckedStack
    plan: Plan
    document: bytes
    """The plan as `show -json` gave it."""


class CheckedState(MaskedStruct, frozen=True, kw_only=True):
    stack: CheckedStack
    contents: Contents
    """By address, with attributes; `contents.unseen` says why the state could not be read."""
    file: StateFile

    @property
    def resources(self) -> tuple[StateResource, ...]:
        return (self.file.resources or ()) if isinstance(self.file, State) else ()

    @property
    def outputs(self) -> tuple[StateOutput, ...]:
        return (self.file.outputs or ()) if isinstance(self.file, State) else ()


class Commit(Struct, frozen=True, kw_only=True):
    id: str
    date: str
    paths: tuple[str, ...]
    """Paths that it added."""
    blobs: tuple[tuple[str, str], ...] = ()
    """Path and object id of every content that it brought."""


class History(Struct, kw_only=True, eq=False, dict=True):
    checkout: Checkout
    commits: tuple[Commit, ...]
    """Newest first. A shallow clone cuts them off: `shallow` says so."""
    shallow: bool = False
    traces: tuple[Trace, ...] = ()
    """What old contents were, the oldest first."""
    unread: tuple[Unread, ...] = ()
    """Old contents that nobody could look into."""


class Checkout(Struct, kw_only=True, eq=False, dict=True):
    """The repository as it stands, and what of it was selected."""

    config: Config
    code: Code
    stacks: tuple[CheckedStack, ...] = ()
    """Those that were selected."""
    all_stacks: tuple[Stack, ...] = ()
    modules: tuple[Module, ...] = ()
    """Those of the selected stacks, or all of the tree; each once."""
    variables_files: tuple[VariablesFile, ...] = ()
    files: tuple[str, ...] = ()
    """Every file that Git keeps or would keep, of the whole tree; without Git, every file there is."""
    tracked: frozenset[str] | None = None
    """Those that Git keeps; None without Git."""
    today: date
    whole: bool = True
    """False where only some stacks were selected."""
    _modules: dict[str, Module] = field(default_factory=dict)

    def module(self, folder: str) -> Module:
        """Any folder of code, selected or not."""
        if folder not in self._modules:
            self._modules[folder] = Module(checkout=self, folder=folder)
        return self._modules[folder]

    @functools.cached_property
    def users(self) -> Mapping[str, list[CheckedStack]]:
        """Every folder that selected stacks use, as their root module or through calls, with these."""
        found: dict[str, list[CheckedStack]] = {}
        for stack in self.stacks:
            for folder in stack.folders:
                found.setdefault(folder, []).append(stack)
        return found

    @functools.cached_property
    def roots(self) -> frozenset[str]:
        """The folders that are the root module of a stack, selected or not."""
        return frozenset(stack.module for stack in self.all_stacks)

    def content(self, path: str) -> bytes | None:
        """The bytes of any file below the root; None where there is none or it cannot be read."""
        return self.code.content(path)

    def text(self, path: str) -> str | None:
        """The text of a file, odd bytes replaced."""
        content = self.content(path)
        return None if content is None else content.decode(errors="replace").removeprefix("\ufeff")

    def lines(self, path: str) -> tuple[str, ...]:
        """The lines of a file without their ends: line 1 is the first. None of a file that is not there.

        As HCL counts them: only a line feed ends one. Counted otherwise, the line of a secret would be taken
        for another one, and shown.
        """
        return self.code.once(("lines", path), lambda: _lines(self.text(path) or ""))


def _lines(text: str) -> tuple[str, ...]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return tuple(line.removesuffix("\r") for line in lines)


__all__ = [
    "ABSENT",
    "COMPUTED",
    "MODES",
    "UNKNOWN",
    "Absent",
    "BackendSeen",
    "CheckedPlan",
    "CheckedStack",
    "CheckedState",
    "Checkout",
    "Commit",
    "EngineSaid",
    "History",
    "Module",
    "Resource",
    "VariablesFile",
    "bodies",
    "nested",
    "value",
]
