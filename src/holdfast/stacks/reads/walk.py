"""Walks a stack's modules, from the root module through every local module call, and collects its inputs."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef
from holdfast.hcl.eval.code import Code, ModuleCall, ModuleCode, auto_loaded
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import convert, number_of, pairs, strings
from holdfast.hcl.nodes import Expression
from holdfast.hcl.reader import UNKNOWN, Unknown, values
from holdfast.stacks.generated import code_of
from holdfast.stacks.reads.collector import InputCollector
from holdfast.stacks.reads.file_references import ModuleReferences, ReferenceBlock, find_references
from holdfast.stacks.reads.inputs import StackInputs
from holdfast.stacks.reads.resolver import ReferenceResolver
from holdfast.stacks.stack import Stack

_MOST_VISITS = 2000
_MOST_INSTANCES = 500
_DEEPEST = 30
_TF_VAR = "TF_VAR_"


def stack_inputs(code: Code, stack: Stack, env_variables: frozenset[str] = frozenset()) -> StackInputs:
    """The inputs of a stack. Never raises because of a file's content.

    `env_variables`: variables that TF_VAR_ of the caller's environment may set.
    """
    code = code_of(code, stack)
    collector = InputCollector(code, stack.module)
    for generated in stack.generate.values():
        if generated.template is not None:
            collector.add_template(generated.template)
    root = _root_instance(collector, stack, env_variables)
    collector.add_patterns(stack.reads, stack.ignores)
    # A variable of its environment may name a file, too.
    collector.add_names(strings(_plain(stack.env)), (stack.module, "."), folders=False)
    for hook in stack.hooks:
        for glob in hook.files:
            collector.add_files(".", glob)
        if not hook.files:
            collector.add_files(stack.module, "**")
    for path in stack.absent_files:
        collector.add_variables_file(path)
    _Walk(collector).visit(root)
    return collector.inputs()


class ModuleInstance(Struct, frozen=True, kw_only=True):
    """A module as one stack calls it, with the values that it has there."""

    folder: str
    address: str
    """`module.network.module.subnets["a"]`; empty for the root module; an unknown key is left out."""
    scope: Scope
    dormant: bool = False
    """Called with `count = 0`: none of its resources exist."""
    depth: int = 0


def module_instances(
    code: Code, stack: Stack, env_variables: frozenset[str] = frozenset()
) -> Iterator[ModuleInstance]:
    """The stack's root module, then every local module that it calls, once per instance."""
    code = code_of(code, stack)
    waiting = deque([_root_instance(InputCollector(code, stack.module), stack, env_variables)])
    for _ in range(_MOST_VISITS):
        if not waiting:
            return
        instance = waiting.popleft()
        yield instance
        if instance.depth < _DEEPEST:
            for call in code.module(instance.folder).calls:
                source = _source(call, instance.scope)
                folder = code.tree.inside(instance.folder, source) if isinstance(source, str) else None
                if folder is not None and isinstance(source, str) and is_local_source(source):
                    waiting.extend(_called_instances(code, instance, call, folder, source))


def _root_instance(
    collector: InputCollector, stack: Stack, env_variables: frozenset[str] = frozenset()
) -> ModuleInstance:
    module = collector.code.module(stack.module)
    own = (name.removeprefix(_TF_VAR) for name in stack.env if name.startswith(_TF_VAR))
    # The environment has the lowest precedence, and only its names are known.
    assigned: dict[str, object] = dict.fromkeys(env_variables.union(own) & {*module.variables}, UNKNOWN)
    assigned.update(_assigned_values(collector, stack.variables_files, stack.variables))
    assigned.update(dict.fromkeys(stack.inputs, UNKNOWN))
    tree = collector.tree.root.as_posix()
    scope = Scope(
        variables=_variable_values(module, assigned),
        locals=module.locals,
        cwd=posixpath.normpath(f"{tree}/{stack.module}"),
        tree=tree,
        workspace=stack.workspace,
        listing=collector.fileset_value,
    )
    return ModuleInstance(folder=stack.module, address="", scope=scope)


def _called_instances(
    code: Code, parent: ModuleInstance, call: ModuleCall, folder: str, source: str
) -> Iterator[ModuleInstance]:
    """The instances of a called local module; one dormant instance if there are none."""
    module = code.module(folder)
    path = source if source.startswith("/") else posixpath.join(parent.scope.path_module, source)
    for_each, count = call.block.body.attribute("for_each"), call.block.body.attribute("count")
    bindings = _iterations(
        parent.scope, for_each.expression if for_each else None, count.expression if count else None
    )
    dormant = parent.dormant or not bindings
    for binding in bindings or [parent.scope.bind({"each": UNKNOWN, "count": UNKNOWN})]:
        arguments = {name: evaluate(value, binding) for name, value in call.arguments.items()}
        scope = replace(
            parent.scope,
            variables=_variable_values(module, arguments),
            locals=module.locals,
            known_locals={},
            path_module=posixpath.normpath(path),
            names={},
        )
        address = f"{parent.address}.module.{call.name}{_key(binding)}".removeprefix(".")
        yield ModuleInstance(
            folder=folder, address=address, scope=scope, dormant=dormant, depth=parent.depth + 1
        )


def _key(binding: Scope) -> str:
    """The instance key of an address, where it is known."""
    match binding.names:
        case {"each": {"key": str() | int() as key}}:
            return f'["{key}"]'
        case {"count": {"index": int() as index}}:
            return f"[{index}]"
        case _:
            return ""


def _plain(value: object) -> object:
    """A configuration value as Terraform receives it; the value of a secret is never read."""
    if isinstance(value, SecretRef):
        return UNKNOWN
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _assigned_values(
    collector: InputCollector, variables_files: tuple[str, ...], inline: Mapping[str, object]
) -> dict[str, object]:
    """What files and the configuration set, the last one winning; every string in them may name a file."""
    code, module = collector.code, collector.module
    own = (code.tree.join(module, name) for name in auto_loaded(code.tree.names(module)))
    assigned: dict[str, object] = {}
    for path in (*own, *variables_files):
        collector.add_variables_file(path)
        file = code.file(path)
        if file is None:
            continue
        folder = path.rpartition("/")[0] or "."
        if file.problems:
            collector.add_unread(path, f"{file.problems[0].place or path} cannot be read", folder)
        in_file = values(file)
        collector.add_names(strings(in_file), (module, folder, "."), folders=False)
        assigned.update(in_file)
    for name, value in inline.items():
        plain = _plain(value)
        collector.add_names(strings(plain), (module, "."), folders=False)
        assigned[name] = plain  # Holdfast passes it last, so it wins.
    return assigned


def _variable_values(module: ModuleCode, assigned: Mapping[str, object]) -> dict[str, object]:
    converted: dict[str, object] = {}
    empty = Scope()
    for name, variable in module.variables.items():
        default = UNKNOWN if variable.default is None else evaluate(variable.default, empty)
        value = assigned.get(name, default)
        if value is None and not variable.nullable:
            value = default
        converted[name] = convert(variable.type, value)
    return converted


class _Walk:
    """Visits modules depth first and collects the files that they read."""

    def __init__(self, collector: InputCollector) -> None:
        self._collector = collector
        self._code = collector.code
        self._seen: set[tuple[str, str, bool, str]] = set()

    def visit(self, instance: ModuleInstance) -> None:
        scope = instance.scope
        variables = repr(sorted(scope.variables.items()))
        key = (instance.folder, scope.path_module, instance.dormant, variables)
        if key in self._seen:
            return
        self._seen.add(key)
        if instance.depth > _DEEPEST or len(self._seen) > _MOST_VISITS:
            self._collector.add_everything(f"{instance.folder} is called too many times to be followed")
            return
        module = self._code.module(instance.folder)
        references = self._references(instance.folder, module)
        for block in references.blocks:
            self._resolve(block, scope, instance.folder, dormant=instance.dormant)
        for call in module.calls:
            self._call(call, instance)
        for path, reason in references.unread:
            self._unread(path, reason, instance)

    def _unread(self, path: str, reason: str, instance: ModuleInstance) -> None:
        """Every folder with code that a file names, which can be read only in part, may be a module."""
        for source in filter(is_local_source, self._collector.add_unread(path, reason, instance.folder)):
            folder = self._code.tree.inside(instance.folder, source)
            if folder is not None and (module := self._code.module(folder)).files:
                unknown = dict.fromkeys(module.variables, UNKNOWN)
                scope = replace(
                    instance.scope, variables=unknown, locals=module.locals, known_locals={}, names={}
                )
                scope = replace(scope, path_module=posixpath.join(instance.scope.path_module, source))
                self.visit(ModuleInstance(folder=folder, address="", scope=scope, depth=instance.depth + 1))

    def _references(self, folder: str, module: ModuleCode) -> ModuleReferences:
        references = self._code.once(("references", folder), lambda: find_references(module.files))
        if folder not in self._collector.modules:
            self._collector.add_module(folder)
            self._collector.add_literals(folder, references.literals, references.folder_literals)
            for path in references.absolute_files:
                self._collector.add_outside_file(path)
            for path in references.kubeconfigs:
                self._collector.add_outside_file(path, kubeconfig=True)
            self._collector.tofu.update(dict.fromkeys(module.tofu))
        return references

    def _resolve(
        self, block: ReferenceBlock, scope: Scope, folder: str, *, dormant: bool, resource: bool = False
    ) -> None:
        resource = resource or block.resource
        iterations = _iterations(scope, block.for_each, block.count, block.iterator or "each")
        if not iterations:
            dormant = True
            iterations = [scope.bind({block.iterator or "each": UNKNOWN, "count": UNKNOWN})]
        resolver = ReferenceResolver(self._collector, folder, dormant=dormant, resource=resource)
        for unclear in block.unclear:
            resolver.add_unclear(unclear)
        for inner in iterations if block.repeats else iterations[:1]:
            for reference in block.references:
                resolver.resolve(reference, inner)
            for nested in block.nested:
                self._resolve(nested, inner, folder, dormant=dormant, resource=resource)

    def _call(self, call: ModuleCall, instance: ModuleInstance) -> None:
        place = f"{call.place.file}:{call.place.line}"
        source = _source(call, instance.scope)
        if not isinstance(source, str):
            self._collector.add_everything(f"{place} calls a module whose source is computed")
        elif is_local_source(source):
            folder = self._code.tree.inside(instance.folder, source)
            if folder is None:
                self._collector.add_outside(source, place, relative=True)
                self._collector.add_everything(f"{place} calls a module outside the repository")
                return
            self._collector.add_vendoring(folder)
            for called in _called_instances(self._code, instance, call, folder, source):
                self.visit(called)


def _source(call: ModuleCall, scope: Scope) -> object:
    return UNKNOWN if call.source is None else evaluate(call.source, scope)


def is_local_source(source: str) -> bool:
    return source in (".", "..") or source.startswith(("./", "../", "/"))


def _iterations(
    scope: Scope, for_each: Expression | None, count: Expression | None, name: str = "each"
) -> list[Scope]:
    """A scope per element; one with unknown names if the elements are unknown; none if there are none."""
    if for_each is not None:
        collection = evaluate(for_each, scope)
        elements = pairs(collection)
        if elements is None or len(elements) > _MOST_INSTANCES:
            return [scope.bind({name: collection if isinstance(collection, Unknown) else UNKNOWN})]
        return [scope.bind({name: {"key": key, "value": value}}) for key, value in elements]
    if count is not None:
        value = evaluate(count, scope)
        number = value if isinstance(value, Unknown) else number_of(value)
        if not isinstance(number, int) or number > _MOST_INSTANCES:
            return [scope.bind({"count": value if isinstance(value, Unknown) else UNKNOWN})]
        return [scope.bind({"count": {"index": index}}) for index in range(number)]
    return [scope]
