"""States that a stack's code reads with `terraform_remote_state`, and which outputs of them it uses."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.hcl.eval.code import Code, ModuleCode
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import known, pairs
from holdfast.hcl.nodes import Block, Body, Expression, Literal, Opaque, Traversal, walk
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Place, Problem, internal_error
from holdfast.stacks.backend import (
    CodeBackend,
    NamedState,
    backend_block,
    code_backend,
    named_state,
    state_of_stack,
)
from holdfast.stacks.backend_types import DEFAULT_WORKSPACE
from holdfast.stacks.reads.walk import is_local_source, module_instances
from holdfast.stacks.stack import Derived, Stack

TYPE: Final = "terraform_remote_state"
_NAME: Final = TYPE.encode()
Outputs = frozenset[str] | None
"""Names of outputs; None for all of them, also where the code does not say which."""


class RemoteState(Struct, frozen=True, kw_only=True):
    """One state that the code of a stack reads."""

    folder: str
    """Of the module with the data source."""
    name: str
    block: Block
    state: NamedState | None
    """None if it is not known before Terraform runs."""

    @property
    def address(self) -> str:
        """Within its module."""
        return f"data.{TYPE}.{self.name}"

    @property
    def place(self) -> Place:
        return self.block.place


def remote_states(code: Code, stack: Stack) -> tuple[RemoteState, ...]:
    """Follows every local module except those with `count = 0`. Never raises because of a file's content."""
    if not may_read_states(code, stack.module):
        return ()
    return tuple(
        RemoteState(folder=instance.folder, name=name, block=block, state=_state(code, stack, block, scope))
        for instance in module_instances(code, stack)
        if not instance.dormant
        for name, block in _data_sources(code, instance.folder)
        for scope in _instances(block.body, instance.scope)
    )


def stack_backend(
    code: Code, stack: Stack, env_variables: frozenset[str] = frozenset()
) -> CodeBackend | None:
    """With the settings that OpenTofu computes, as far as the variables in them are known.

    `env_variables`: variables that TF_VAR_ of the caller's environment may set.
    """
    backend, block = code_backend(code, stack.module), backend_block(code.module(stack.module))
    if backend is None or block is None or not backend.computed:
        return backend
    scope = next(module_instances(code, stack, env_variables)).scope
    values = {item.name: evaluate(item.expression, scope) for item in block.body.attributes}
    settings = {name: value for name, value in values.items() if known(value)}
    computed = tuple(name for name in backend.computed if name not in settings)
    return replace(backend, settings={**backend.settings, **settings}, computed=computed)


def may_read_states(code: Code, module: str) -> bool:
    """Whether a root module, or a local module that it calls, may read a state. Found once per module."""

    def find() -> bool:
        folders, computed = called_folders(code, module)
        return computed or any(_mentions_states(code, folder) for folder in folders)

    return code.once(("may read states", module), find)


def called_folders(code: Code, module: str) -> tuple[frozenset[str], bool]:
    """The folders of a root module and of the local modules it calls; and whether a source is computed."""
    folders, waiting, computed = {module}, [module], False
    while waiting:
        folder = waiting.pop()
        for call in code.module(folder).calls:
            source = constant(call.source) if call.source is not None else None
            if not isinstance(source, str):
                computed = True
            elif is_local_source(source):
                called = code.tree.inside(folder, source)
                if called is not None and called not in folders:
                    folders.add(called)
                    waiting.append(called)
    return frozenset(folders), computed


def _mentions_states(code: Code, folder: str) -> bool:
    return any(_NAME in (code.content(file.path) or b"") for file in code.module(folder).files)


def _data_sources(code: Code, folder: str) -> tuple[tuple[str, Block], ...]:
    """Also those in `check` blocks."""

    def find() -> tuple[tuple[str, Block], ...]:
        if not _mentions_states(code, folder):
            return ()
        blocks = (
            block
            for top in code.module(folder).blocks("data", "check")
            for block in ((top,) if top.type == "data" else top.body.blocks_of("data"))
        )
        return tuple((block.labels[1], block) for block in blocks if block.labels[:-1] == (TYPE,))

    return code.once(("remote states", folder), find)


def _instances(body: Body, scope: Scope) -> Iterator[Scope]:
    count, for_each = body.attribute("count"), body.attribute("for_each")
    if count is not None and evaluate(count.expression, scope) == 0:
        return
    elements = pairs(evaluate(for_each.expression, scope)) if for_each is not None else None
    if elements is None:
        yield scope
        return
    for key, item in elements:
        yield scope.bind({"each": {"key": key, "value": item}})


def _state(code: Code, stack: Stack, block: Block, scope: Scope) -> NamedState | None:
    def value(name: str) -> object:
        attribute = block.body.attribute(name)
        return evaluate(attribute.expression, scope) if attribute is not None else None

    type_, config, workspace = value("backend"), value("config"), value("workspace") or DEFAULT_WORKSPACE
    if config is None:
        config = {}
    if not isinstance(type_, str) or not isinstance(config, Mapping) or not isinstance(workspace, str):
        return None
    settings = {str(name): item for name, item in config.items()}
    path = settings.get("path")
    if type_ == "local" and isinstance(path, str) and path.startswith("/"):
        settings["path"] = posixpath.relpath(path, f"{code.tree.root.as_posix()}/{stack.module}")
    return named_state(stack, type_, settings, workspace)


def derived_dependencies(
    code_of: Callable[[Stack], Code], stacks: Sequence[Stack]
) -> Iterator[tuple[str, Derived | Problem]]:
    """The stacks whose state another stack reads, with that stack's name. Its own state does not count.

    A problem, if the code of a stack cannot be followed.
    """
    reads: list[tuple[Stack, RemoteState]] = []
    for stack in stacks:
        try:
            reads.extend((stack, read) for read in remote_states(code_of(stack), stack))
        except Exception as error:  # noqa: BLE001 - only this stack's dependencies are unknown
            yield stack.name, internal_error(error, f"reading the code of {stack.name}").problem
    owners = state_owners(code_of, stacks) if reads else {}
    for stack, read in reads:
        for owner in owners.get(read.state.key, ()) if read.state is not None else ():
            if owner.name != stack.name:
                yield (
                    stack.name,
                    Derived(
                        stack=owner.name,
                        source=read.address,
                        place=read.place,
                        module=read.folder,
                        name=read.name,
                    ),
                )


def state_owners(
    code_of: Callable[[Stack], Code], stacks: Iterable[Stack]
) -> Mapping[str, tuple[Stack, ...]]:
    """The stacks by the key of their state."""
    by_key: dict[str, tuple[Stack, ...]] = {}
    for stack in stacks:
        if (state := state_of_stack(code_of(stack), stack)) is not None:
            by_key[state.key] = (*by_key.get(state.key, ()), stack)
    return by_key


def used_outputs(code: Code, folder: str, name: str) -> Outputs:
    """The outputs of a remote state that a module uses: `data.terraform_remote_state.NAME.outputs.OUTPUT`."""
    uses = code.once(("outputs used", folder), lambda: _uses(code.module(folder)))
    return uses.get(name, frozenset()) if uses is not None else None


def _uses(module: ModuleCode) -> Mapping[str, Outputs] | None:
    """By the data source's name; None if a part of the module cannot be read."""
    if module.problems:
        return None
    uses: dict[str, Outputs] = {}
    for expression in (part for file in module.files for part in _expressions(file.body)):
        match expression:
            case Opaque(unread=True):
                return None
            case Traversal(root="data", steps=(step, *_)) if step == TYPE:
                name, output = _use(expression)
                if name is None:
                    return None
                known = uses.get(name, frozenset())
                uses[name] = None if known is None or output is None else known | {output}
            case _:
                continue
    return uses


def _use(traversal: Traversal) -> tuple[str | None, str | None]:
    """The data source and the output that it names; None for what it does not name."""
    steps = traversal.steps[1:]
    name = steps[0] if steps and isinstance(steps[0], str) else None
    steps = steps[2:] if len(steps) > 1 and not isinstance(steps[1], str) else steps[1:]  # an instance key
    match steps:
        case ("outputs", str() as output, *_):
            return name, output
        case ("outputs", Literal(value=str() as output), *_):
            return name, output
        case _:
            return name, None


def _expressions(body: Body) -> Iterator[Expression]:
    for attribute in body.attributes:
        if attribute.name != "depends_on":
            yield from walk(attribute.expression)
    for block in body.blocks:
        yield from _expressions(block.body)
