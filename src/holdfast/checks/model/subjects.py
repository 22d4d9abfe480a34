"""What rules receive: the repository, its modules, variables files, stacks, plans and states.

Paths are relative to the root and use `/`; the root itself is `.`. Every file is read once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Final

from msgspec import Struct, field

from holdfast.checks.code.bodies import ABSENT, Absent, bodies, nested, value
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code, ModuleCode
from holdfast.hcl.eval.evaluate import Scope
from holdfast.hcl.nodes import Block, Body, File
from holdfast.hcl.reader import COMPUTED, UNKNOWN, constant, values
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.values import MaskedStruct
from holdfast.stacks.reads.remote_states import stack_backend
from holdfast.stacks.reads.walk import ModuleInstance, module_instances
from holdfast.stacks.stack import Stack
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.statefile.model import Contents, State, StateFile, StateOutput, StateResource

MODES: Final = {"resource": "managed", "data": "data", "ephemeral": "ephemeral"}
"""Block types of resources, with their mode in plans and states."""


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
        """Within its module."""
        prefix = "" if self.mode == "managed" else f"{self.mode}."
        return f"{prefix}{self.type}.{self.name}"


class Module(Struct, kw_only=True, eq=False, dict=True):
    """One folder of code, used by any number of stacks."""

    checkout: Checkout
    folder: str

    @functools.cached_property
    def code(self) -> ModuleCode:
        """Variables, locals, calls, backend, providers."""
        return self.checkout.code.module(self.folder)

    @property
    def files(self) -> tuple[File, ...]:
        return self.code.files

    @functools.cached_property
    def stacks(self) -> tuple[CheckedStack, ...]:
        """The selected stacks that use it, as root module or through calls."""
        return tuple(self.checkout.users.get(self.folder, ()))

    @functools.cached_property
    def roots(self) -> tuple[CheckedStack, ...]:
        """The stacks of which it is the root module."""
        return tuple(stack for stack in self.stacks if stack.stack.module == self.folder)

    @functools.cached_property
    def production(self) -> bool:
        """Whether a stack in production uses it."""
        return any(stack.stack.production for stack in self.stacks)

    @functools.cached_property
    def called(self) -> frozenset[str]:
        """The folders of the local modules that it calls."""
        inside = self.checkout.code.tree.inside
        sources = (constant(call.source) for call in self.code.calls if call.source is not None)
        folders = (inside(self.folder, source) for source in sources if isinstance(source, str))
        return frozenset(folder for folder in folders if folder is not None)

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths of its files."""
        return tuple(file.path for file in self.files)

    def blocks(self, *types: str) -> Iterator[Block]:
        """Top-level blocks of these types: `blocks("output")`."""
        return iter(self._blocks.get(types[0], ())) if len(types) == 1 else self.code.blocks(*types)

    @functools.cached_property
    def _blocks(self) -> Mapping[str, list[Block]]:
        blocks: dict[str, list[Block]] = {}
        for file in self.files:
            for block in file.body.blocks:
                blocks.setdefault(block.type, []).append(block)
        return blocks

    def declared(self, type_: str, name: str) -> Block | None:
        """The first block of this type and name: `declared("output", "url")`."""
        return self._declared.get((type_, name))

    @functools.cached_property
    def _declared(self) -> Mapping[tuple[str, str], Block]:
        declared: dict[tuple[str, str], Block] = {}
        for type_, blocks in self._blocks.items():
            for block in blocks:
                if block.labels:
                    declared.setdefault((type_, block.labels[0]), block)
        return declared

    @functools.cached_property
    def _resources(self) -> tuple[Resource, ...]:
        blocks = (
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
            for mode, labels, block in blocks
        )

    def resources(self, *types: str, mode: str | None = None) -> Iterator[Resource]:
        """Its resources, data sources (also in `check` blocks) and ephemeral resources: of these types, of
        this mode, or all.
        """
        return (
            resource
            for resource in self._resources
            if (not types or resource.type in types) and (mode is None or resource.mode == mode)
        )


class VariablesFile(Struct, kw_only=True, eq=False, dict=True):
    """A `.tfvars` or `.tfvars.json`."""

    checkout: Checkout
    path: str
    file: File
    stacks: tuple[CheckedStack, ...] = ()
    """The selected stacks that use it."""

    @functools.cached_property
    def values(self) -> Mapping[str, object]:
        return values(self.file)


class CheckedStack(Struct, kw_only=True, eq=False, dict=True):
    """A selected stack."""

    checkout: Checkout
    stack: Stack

    @property
    def name(self) -> str:
        return self.stack.name

    @property
    def module(self) -> Module:
        return self.checkout.module(self.stack.module)

    @functools.cached_property
    def scopes(self) -> tuple[ModuleInstance, ...]:
        """Its root module and every local module it calls, each with its values.

        `value(resource.body, "name", visited.scope)` resolves variables, locals and module arguments.
        """
        return tuple(module_instances(self.checkout.code, self.stack))

    @property
    def scope(self) -> Scope:
        """The scope of its root module."""
        return self.scopes[0].scope

    def resources(self, *types: str, mode: str) -> Iterator[tuple[Resource, Scope]]:
        """The resources of its modules, except those with `count = 0`, each with the scope of its module."""
        for visited in self.scopes:
            if not visited.dormant:
                for resource in self.checkout.module(visited.folder).resources(*types, mode=mode):
                    yield resource, visited.scope

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(visited.folder for visited in self.scopes)

    @functools.cached_property
    def paths(self) -> tuple[str, ...]:
        """The files that determine it: code, variables files, and holdfast.yaml."""
        code = self.checkout.code
        inside = (file.path for folder in sorted(self.folders) for file in code.module(folder).files)
        return (*inside, *self.stack.variables_files, self.checkout.config.file.name)

    @functools.cached_property
    def backend(self) -> BackendSettings:
        return _backend(self)

    @property
    def place(self) -> Place:
        """Its own variables file, or its entry in holdfast.yaml."""
        return Place(file=self.stack.own_file) if self.stack.own_file is not None else self.stack.place


class BackendSettings(Struct, frozen=True, kw_only=True):
    """The backend of a stack, from code and configuration."""

    type: str
    """`holdfast` for managed state (neither names a backend); `cloud` for a `cloud` block."""
    settings: Mapping[str, object]
    """Plain values; `UNKNOWN` if computed; a `SecretRef` stays one. The configuration wins."""
    place: Place
    """The block in the code, otherwise the place in the configuration."""


def _backend(checked: CheckedStack) -> BackendSettings:
    stack, code = checked.stack, checked.module.code
    configured = stack.backend
    in_code = dict(code.backend.settings) if code.backend is not None else {}
    if UNKNOWN in in_code.values() and (evaluated := stack_backend(checked.checkout.code, stack)) is not None:
        in_code.update(evaluated.settings)
    from_configuration = dict(configured.settings) if configured is not None else {}
    type_ = code.backend.type if code.backend is not None else ("cloud" if code.cloud is not None else None)
    place = code.backend.place if code.backend is not None else code.cloud
    return BackendSettings(
        type=type_ or (configured.type if configured is not None else None) or "holdfast",
        settings={**in_code, **from_configuration},
        place=place or stack.place,
    )


class EngineOutput(MaskedStruct, frozen=True, kw_only=True):
    """Terraform's output for the code of one folder."""

    stack: CheckedStack
    folder: str
    formatted: Mapping[str, bytes] = field(default_factory=dict)
    """Formatted content by path, for every file of the folder that `fmt` read."""
    problems: tuple[Problem, ...] = ()
    """Errors of `validate`, with places in the source."""
    warnings: tuple[Problem, ...] = ()
    """Warnings of `validate`."""
    validate_skipped: str | None = None
    """Why `validate` was not run."""
    fmt_skipped: str | None = None
    """Why `fmt` was not run."""
    fixed: tuple[str, ...] = ()
    """Files that `--fix` formatted; they are not in `formatted`."""
    unused_folders: tuple[str, ...] = ()
    """Folders that no stack uses: only their format was checked, together with this one."""


class CheckedPlan(MaskedStruct, frozen=True, kw_only=True):
    stack: CheckedStack
    plan: Plan
    document: bytes
    """The output of `show -json`."""


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


class Checkout(Struct, kw_only=True, eq=False, dict=True):
    """The repository, and the selection in it."""

    config: Config
    code: Code
    stacks: tuple[CheckedStack, ...] = ()
    """The selected stacks."""
    all_stacks: tuple[Stack, ...] = ()
    modules: tuple[Module, ...] = ()
    """Those of the selected stacks, or all of the tree; each once."""
    variables_files: tuple[VariablesFile, ...] = ()
    files: tuple[str, ...] = ()
    """Every file that Git tracks or would track, of the whole tree; without Git, every file."""
    tracked: frozenset[str] | None = None
    """Files that Git tracks; None without Git."""
    today: date
    whole: bool = True
    """False if only some stacks were selected."""
    count_authors: Callable[[], int | None] = lambda: None
    """Of the history; None if it is not known."""
    _modules: dict[str, Module] = field(default_factory=dict)

    def module(self, folder: str) -> Module:
        """Any folder of code, selected or not."""
        if folder not in self._modules:
            self._modules[folder] = Module(checkout=self, folder=folder)
        return self._modules[folder]

    @functools.cached_property
    def users(self) -> Mapping[str, list[CheckedStack]]:
        """Selected stacks by the folders that they use, as root module or through calls.

        Of a root module only those with the same generated files.
        """
        users: dict[str, list[CheckedStack]] = {}
        for stack in self.stacks:
            for folder in stack.folders:
                if stack.checkout is self or stack.stack.module != folder:
                    users.setdefault(folder, []).append(stack)
        return users

    @functools.cached_property
    def stacks_by_name(self) -> Mapping[str, Stack]:
        """All stacks, selected or not."""
        return {stack.name: stack for stack in self.all_stacks}

    @functools.cached_property
    def listed(self) -> frozenset[str]:
        return frozenset(self.files)

    @functools.cached_property
    def called(self) -> frozenset[str]:
        """The folders that a selected module calls."""
        return frozenset(folder for module in self.modules for folder in module.called)

    @functools.cached_property
    def roots(self) -> frozenset[str]:
        """The root modules of all stacks, selected or not."""
        return frozenset(stack.module for stack in self.all_stacks)

    def content(self, path: str) -> bytes | None:
        """The bytes of a file below the root, or of a generated one; None if it is missing or unreadable."""
        content = self.code.content(path)
        return (
            content if content is not None or path not in self._generated else self._generated[path].encode()
        )

    @functools.cached_property
    def _generated(self) -> Mapping[str, str]:
        """By path; of several contents of one path, the last."""
        return {path: text for checked in self.stacks for path, text in checked.stack.generated.items()}

    def mentions(self, path: str, word: bytes) -> bool:
        """Whether the word is anywhere in the file: if not, nothing of it needs to be parsed."""
        return self.code.once(("mentions", path, word), lambda: word in (self.content(path) or b""))

    def text(self, path: str) -> str | None:
        """The text of a file, with invalid bytes replaced."""
        content = self.content(path)
        return None if content is None else content.decode(errors="replace").removeprefix("\ufeff")

    def lines(self, path: str) -> tuple[str, ...]:
        """The lines of a file without line endings; empty if it is missing.

        As in HCL, only a line feed ends a line. Otherwise the line of a secret would be mistaken for
        another one and shown.
        """
        return self.code.once(("lines", path), lambda: _lines(self.text(path) or ""))


def _lines(text: str) -> tuple[str, ...]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return tuple(line.removesuffix("\r") for line in lines)


__all__ = [
    "ABSENT", "COMPUTED", "MODES", "UNKNOWN", "Absent", "BackendSettings", "CheckedPlan", "CheckedStack",
    "CheckedState", "Checkout", "EngineOutput", "Module", "Resource", "VariablesFile", "bodies",
    "nested", "value",
]  # fmt: skip
