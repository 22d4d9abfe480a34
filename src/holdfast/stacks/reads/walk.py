"""Follow a stack from its root module through its values and every local module: the way to its `Reach`."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef
from holdfast.hcl.eval.code import Code, ModuleCall, ModuleCode, is_auto_loaded
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import convert, number_of, pairs, same, strings
from holdfast.hcl.reader import UNKNOWN, Unknown, values
from holdfast.stacks.reads.collector import Gathering
from holdfast.stacks.reads.file_references import Group, Sites, find_references
from holdfast.stacks.reads.inputs import Reach
from holdfast.stacks.reads.resolve import Inspection
from holdfast.stacks.stack import Stack

_MOST_VISITS = 2000
_MOST_INSTANCES = 500
_DEEPEST = 30
_TF_VAR = "TF_VAR_"


def stack_inputs(code: Code, stack: Stack, env_variables: frozenset[str] = frozenset()) -> Reach:
    """What decides a stack. `env_variables`: variables that a TF_VAR_ of the caller's environment may set."""
    from_env = {name.removeprefix(_TF_VAR) for name in stack.env if name.startswith(_TF_VAR)}
    return module_inputs(
        code,
        stack.module,
        stack.variables_files,
        stack.variables,
        env_variables | from_env,
        workspace=stack.workspace,
        named=tuple(strings(_plain(stack.env))),
    )


def module_inputs(
    code: Code,
    module: str,
    variables_files: tuple[str, ...] = (),
    inline: Mapping[str, object] | None = None,
    env_variables: frozenset[str] = frozenset(),
    *,
    workspace: str | None = None,
    named: tuple[str, ...] = (),
) -> Reach:
    """`named`: strings from elsewhere that may name a file. Never raises for what files hold."""
    gathering = Gathering(code, module)
    given = _given(gathering, variables_files, inline or {})
    gathering.add_names(named, (module, "."), folders=False)
    known = _root_values(code.module(module), given, env_variables)
    tree = code.tree.root.as_posix()
    scope = Scope(
        variables=known,
        cwd=posixpath.normpath(f"{tree}/{module}"),
        tree=tree,
        workspace=workspace,
        listing=gathering.listing,
    )
    _Walk(gathering).visit(_Visit(folder=module, scope=scope))
    return gathering.done()


class Visited(Struct, frozen=True, kw_only=True):
    """A module as one stack calls it, with the values that it has there."""

    folder: str
    address: str
    """`module.network.module.subnets["a"]`; empty for the root module, without a key that cannot be told."""
    scope: Scope
    dormant: bool = False
    """Called with `count = 0`: nothing in it is made."""


def module_instances(code: Code, stack: Stack) -> Iterator[Visited]:
    """The stack's root module, then every local module that it calls, once for each instance."""
    gathering = Gathering(code, stack.module)
    from_env = frozenset(name.removeprefix(_TF_VAR) for name in stack.env if name.startswith(_TF_VAR))
    given = _given(gathering, stack.variables_files, stack.variables)
    known = _root_values(code.module(stack.module), given, from_env)
    tree = code.tree.root.as_posix()
    scope = Scope(
        variables=known,
        cwd=posixpath.normpath(f"{tree}/{stack.module}"),
        tree=tree,
        workspace=stack.workspace,
        listing=gathering.listing,
    )
    waiting = deque([Visited(folder=stack.module, address="", scope=_at_home(code, stack.module, scope))])
    for _ in range(_MOST_VISITS):
        if not waiting:
            return
        found = waiting.popleft()
        yield found
        if found.address.count("module.") < _DEEPEST:
            waiting.extend(_calls_from(code, found))


def _at_home(code: Code, folder: str, scope: Scope) -> Scope:
    return replace(scope, locals=code.module(folder).locals, settled={})


def _calls_from(code: Code, visited: Visited) -> Iterator[Visited]:
    for call in code.module(visited.folder).calls:
        source = evaluate(call.source, visited.scope) if call.source is not None else UNKNOWN
        folder = code.tree.inside(visited.folder, source) if isinstance(source, str) else None
        if folder is None or not isinstance(source, str) or not _is_local(source):
            continue
        path = source if source.startswith("/") else posixpath.join(visited.scope.path_module, source)
        for instance, dormant in _called(call, visited.scope):
            given = {name: evaluate(value, instance) for name, value in call.arguments.items()}
            inner = replace(
                visited.scope,
                variables=_values(code.module(folder), given),
                path_module=posixpath.normpath(path),
                names={},
            )
            yield Visited(
                folder=folder,
                address=f"{visited.address}.module.{call.name}{_key(instance)}".removeprefix("."),
                scope=_at_home(code, folder, inner),
                dormant=dormant or visited.dormant,
            )


def _key(instance: Scope) -> str:
    """How an instance is told from the others in an address, where that is known."""
    match instance.names:
        case {"each": {"key": str() | int() as key}}:
            return f'["{key}"]'
        case {"count": {"index": int() as index}}:
            return f"[{index}]"
        case _:
            return ""


def _plain(value: object) -> object:
    """A value of the configuration as Terraform would get it; a secret's value is never looked at."""
    if isinstance(value, SecretRef):
        return UNKNOWN
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _given(
    gathering: Gathering, variables_files: tuple[str, ...], inline: Mapping[str, object]
) -> dict[str, object]:
    """What files and the configuration set, the last one winning; every string in them may name a file."""
    code, module = gathering.code, gathering.module
    own = [code.tree.join(module, name) for name in code.tree.names(module) if is_auto_loaded(name)]
    # terraform.tfvars, terraform.tfvars.json, then *.auto.tfvars and *.auto.tfvars.json by name.
    own.sort(key=lambda path: (path.rpartition("/")[2] not in _FIRST, path.rpartition("/")[2]))
    found: dict[str, object] = {}
    for path in (*own, *variables_files):
        gathering.add_variables_file(path)
        file = code.file(path)
        if file is None:
            continue
        if file.problems:
            gathering.everything(f"{file.problems[0].place or path} cannot be read")
        set_here = values(file)
        folder = path.rpartition("/")[0] or "."
        gathering.add_names(strings(set_here), (module, folder, "."), folders=False)
        found.update(set_here)
    for name, value in inline.items():
        plain = _plain(value)
        gathering.add_names(strings(plain), (module, "."), folders=False)
        # Which of the two wins is for the one who runs Terraform to say, not for this room.
        found[name] = plain if name not in found or same(found[name], plain) else UNKNOWN
    return found


_FIRST = ("terraform.tfvars", "terraform.tfvars.json")


def _root_values(
    module: ModuleCode, given: Mapping[str, object], env_variables: frozenset[str]
) -> dict[str, object]:
    """The environment counts for less than any file, and only its names are known."""
    known = {name: UNKNOWN for name in env_variables if name in module.variables}
    return _values(module, {**known, **given})


def _values(module: ModuleCode, given: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    nothing = Scope()
    for name, variable in module.variables.items():
        default = UNKNOWN if variable.default is None else evaluate(variable.default, nothing)
        value = given.get(name, default)
        if value is None and not variable.nullable:
            value = default
        found[name] = convert(variable.type, value)
    return found


class _Visit(Struct, frozen=True, kw_only=True):
    """One module with one set of values. Dormant: called with `count = 0`, so nothing in it is made."""

    folder: str
    scope: Scope
    dormant: bool = False
    depth: int = 0


class _Walk:
    def __init__(self, gathering: Gathering) -> None:
        self._into = gathering
        self._code = gathering.code
        self._seen: set[tuple[str, str, bool, str]] = set()

    def visit(self, visit: _Visit) -> None:
        module = self._code.module(visit.folder)
        key = (
            visit.folder,
            visit.scope.path_module,
            visit.dormant,
            repr(sorted(visit.scope.variables.items())),
        )
        if key in self._seen:
            return
        self._seen.add(key)
        if visit.depth > _DEEPEST or len(self._seen) > _MOST_VISITS:
            self._into.everything(f"{visit.folder} is called too many times to be followed")
            return
        sites = self._sites(visit.folder, module)
        scope = replace(visit.scope, locals=module.locals, settled={})
        for group in sites.groups:
            self._group(group, scope, visit.folder, dormant=visit.dormant)
        for call in module.calls:
            self._call(call, scope, visit)

    def _sites(self, folder: str, module: ModuleCode) -> Sites:
        sites = self._code.once(("sites", folder), lambda: find_references(module.files))
        if folder not in self._into.modules:
            self._into.add_module(folder)
            self._into.add_words(folder, sites.words, sites.folder_words)
            self._into.tofu.update(dict.fromkeys(module.tofu))
            for reason in sites.unread:
                self._into.everything(reason)
        return sites

    def _group(self, group: Group, scope: Scope, folder: str, *, dormant: bool) -> None:
        instances = _instances(group, scope)
        if not instances:
            dormant = True
            instances = [scope.bind({group.iterator or "each": UNKNOWN, "count": UNKNOWN})]
        if not dormant:
            for reason in group.runs:
                self._into.everything(reason)
        inspection = Inspection(self._into, folder, dormant=dormant)
        for inner in instances:
            for site in group.sites:
                inspection.site(site, inner)
            for nested in group.inner:
                self._group(nested, inner, folder, dormant=dormant)

    def _call(self, call: ModuleCall, scope: Scope, visit: _Visit) -> None:
        place = f"{call.place.file}:{call.place.line}"
        source = evaluate(call.source, scope) if call.source is not None else UNKNOWN
        if not isinstance(source, str):
            self._into.everything(f"{place} calls a module whose source is computed")
            return
        if not _is_local(source):
            return
        folder = self._code.tree.inside(visit.folder, source)
        if folder is None:
            self._into.outside(source, place, beyond=True)
            self._into.everything(f"{place} calls a module outside the repository")
            return
        child = self._code.module(folder)
        path = source if source.startswith("/") else posixpath.join(visit.scope.path_module, source)
        for instance, dormant in _called(call, scope):
            given = {name: evaluate(value, instance) for name, value in call.arguments.items()}
            inner = replace(
                visit.scope,
                variables=_values(child, given),
                path_module=posixpath.normpath(path),
                names={},
            )
            self.visit(
                _Visit(
                    folder=folder,
                    scope=inner,
                    dormant=dormant or visit.dormant,
                    depth=visit.depth + 1,
                )
            )


def _is_local(source: str) -> bool:
    return source in (".", "..") or source.startswith(("./", "../", "/"))


def _called(call: ModuleCall, scope: Scope) -> Iterator[tuple[Scope, bool]]:
    for_each, count = call.block.body.attribute("for_each"), call.block.body.attribute("count")
    group = Group(
        for_each=for_each.expression if for_each else None,
        count=count.expression if count else None,
        repeats=True,
    )
    instances = _instances(group, scope)
    if not instances:
        yield scope.bind({"each": UNKNOWN, "count": UNKNOWN}), True
    for instance in instances:
        yield instance, False


def _instances(group: Group, scope: Scope) -> list[Scope]:
    """A scope for each element; one with unknown names when they cannot be told; none when there are none."""
    if group.for_each is not None:
        found = _for_each(group, scope)
    elif group.count is not None:
        found = _count(evaluate(group.count, scope), scope)
    else:
        return [scope]
    return found if group.repeats else found[:1]


def _for_each(group: Group, scope: Scope) -> list[Scope]:
    name = group.iterator or "each"
    collection = evaluate(group.for_each, scope) if group.for_each is not None else UNKNOWN
    found = pairs(collection)
    if found is None or len(found) > _MOST_INSTANCES:
        unknown = collection if isinstance(collection, Unknown) else UNKNOWN
        return [scope.bind({name: unknown})]
    return [scope.bind({name: {"key": key, "value": value}}) for key, value in found]


def _count(value: object, scope: Scope) -> list[Scope]:
    number = number_of(value) if not isinstance(value, Unknown) else value
    if not isinstance(number, int) or number > _MOST_INSTANCES:
        unknown = value if isinstance(value, Unknown) else UNKNOWN
        return [scope.bind({"count": unknown})]
    return [scope.bind({"count": {"index": index}}) for index in range(number)]
