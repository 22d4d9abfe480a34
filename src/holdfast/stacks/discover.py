"""From the configuration and the repository's files to its stacks: every one of them, or every mistake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import Needs
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.secret_refs import Value
from holdfast.config.settings import Config, Target
from holdfast.config.stack_rules import Backend, RuleKind, StackRule
from holdfast.hcl.eval.code import is_auto_loaded
from holdfast.kernel.errors import Place
from holdfast.stacks import names, order
from holdfast.stacks.backend import DEFAULT_WORKSPACE, ReadBackend, state_location, type_mismatch
from holdfast.stacks.listing import Listing, Tree, has_file
from holdfast.stacks.pattern import compile_pattern, matching_paths
from holdfast.stacks.scope import MissingValueError, PathError, PlaceholderScope, VariablesFiles, needs_of
from holdfast.stacks.stack import Stack
from holdfast.stacks.variables import ReadValues

_CODE: Final = (".tf", ".tofu", ".tf.json", ".tofu.json")

T = TypeVar("T")


class _Draft(Struct, frozen=True, kw_only=True):
    stack: Stack
    wishes: tuple[order.Dependency, ...]


def discover(
    config: Config, *, files: Tree, read_values: ReadValues, code_backend: ReadBackend
) -> tuple[Stack, ...]:
    """The stacks, by name. Raises ConfigError with everything that is wrong.

    `read_values` is called only for stacks whose placeholders or environment need a value from a file.
    """
    return _Discovery(config, files, read_values, code_backend).run()


def rules_without_stacks(config: Config, stacks: tuple[Stack, ...]) -> tuple[StackRule, ...]:
    """Entries that found nothing: no mistake by itself, but worth a word."""
    fruitful = {stack.place for stack in stacks}
    return tuple(rule for rule in config.stacks if rule.place not in fruitful)


def has_root_module(listing: Listing | None) -> bool:
    return listing is not None and any(
        name.endswith(_CODE) and not name.startswith((".", "#")) for name in listing.files
    )


class _Discovery:
    def __init__(
        self, config: Config, tree: Tree, read_values: ReadValues, code_backend: ReadBackend
    ) -> None:
        self._config = config
        self._tree = tree
        self._files = VariablesFiles(read_values, tree)
        self._code_backend = code_backend
        self._problems = Problems()
        self._targets = {target.name: target for target in config.targets}
        self._broken: set[str | None] = set()
        """Names of stacks that have a mistake of their own; None for one whose name is not known."""

    def run(self) -> tuple[Stack, ...]:
        drafts = [
            draft
            for rule in self._config.stacks
            for scope in self._scopes(rule)
            if (draft := self._draft(scope)) is not None
        ]
        for path, found in self._files.problems:
            self._problems.extend(found, place=Place(file=path))
        stacks = [draft.stack for draft in drafts]
        self._check_names(stacks)
        self._check_states(stacks)
        finished = self._with_dependencies(drafts)
        self._problems.raise_any()
        return finished

    def _scopes(self, rule: StackRule) -> Iterator[PlaceholderScope]:
        """One for each stack that the entry finds."""
        if rule.pattern is None:
            yield self._scope(rule, {}, None, None, needs_of(rule, ()))
            return
        pattern = compile_pattern(rule.pattern)
        folders = rule.kind is RuleKind.FOLDER
        needs = needs_of(rule, pattern.names)
        for path, captured in sorted(
            matching_paths(pattern, self._tree, folders=folders), key=lambda pair: pair[0]
        ):
            if folders and not has_root_module(self._tree.listing(path)):
                continue
            if not folders and self._read_by_itself(path):
                continue
            name = path if folders else names.without_suffix(path)
            yield self._scope(rule, captured, path, name, needs)

    def _read_by_itself(self, path: str) -> bool:
        """`terraform.tfvars` and `*.auto.tfvars` beside code belong to every stack of that code."""
        folder, _, name = path.rpartition("/")
        return is_auto_loaded(name) and has_root_module(self._tree.listing(folder or "."))

    def _scope(
        self,
        rule: StackRule,
        captured: Mapping[str, str],
        found: str | None,
        name: str | None,
        needs: Needs,
    ) -> PlaceholderScope:
        return PlaceholderScope(
            rule=rule,
            config=self._config,
            captured=captured,
            found=found,
            default_name=name,
            needs=needs,
            files=self._files,
            tree=self._tree,
        )

    def _draft(self, scope: PlaceholderScope) -> _Draft | None:
        before = len(self._problems)
        rule = scope.rule
        name = self._try(scope, "name", lambda: scope.name)
        if name is None or not self._check_name(name, scope):
            self._broken.add(None)
            return None
        module = self._try(scope, "module", lambda: scope.module)
        verdict = self._try(scope, "environment", lambda: scope.environment)
        stack = Stack(
            name=name,
            kind=rule.kind,
            place=rule.place,
            module=module or ".",
            variables_files=self._try(scope, "variables_files", lambda: scope.variables_files) or (),
            variables=self._filled(scope, "variables", rule.variables),
            environment=verdict.environment if verdict else None,
            production=verdict.production if verdict else True,
            environment_reason=verdict.reason if verdict else "",
            account=self._try(scope, "account", lambda: scope.account),
            region=self._try(scope, "region", lambda: scope.region),
            target=self._target(scope, name),
            backend=self._backend(scope),
            credentials=MappingProxyType(
                {
                    provider: self._filled(scope, "credentials", values)
                    for provider, values in rule.credentials.items()
                }
            ),
            env=self._filled(scope, "env", rule.env),
            workspace=self._try(scope, "workspace", lambda: scope.fill(rule.workspace or DEFAULT_WORKSPACE))
            or DEFAULT_WORKSPACE,
            engine=rule.engine,
        )
        if module is not None:
            self._check_files(stack, rule)
        wishes = self._try(scope, "depends_on", lambda: _wishes(scope, name)) or ()
        if len(self._problems) > before:
            self._broken.add(name)
            return None
        return _Draft(stack=stack, wishes=wishes)

    def _try(self, scope: PlaceholderScope, key: str, make: Callable[[], T]) -> T | None:
        """A value that placeholders decide, or None after saying what is missing."""
        try:
            return make()
        except MissingValueError as error:
            self._problems.add(
                "HF-STACK-6",
                f"{key} of {_called(scope)}: {error}",
                place=scope.rule.place_of(key),
                hint="Give the value in the entry or in the variables file, or write the text without it.",
            )
        except PathError as error:
            self._problems.add(
                "HF-STACK-10",
                f"{key} of {_called(scope)}: {names.printable(str(error))} leads out of the repository",
                place=scope.rule.place_of(key),
                hint="A path is relative to holdfast.yaml and has no `..`.",
            )
        return None

    def _filled(self, scope: PlaceholderScope, key: str, values: Mapping[str, Value]) -> Mapping[str, Value]:
        return self._try(scope, key, lambda: scope.fill_values(values)) or MappingProxyType({})

    def _backend(self, scope: PlaceholderScope) -> Backend | None:
        backend = scope.rule.backend
        if backend is None:
            return None
        return Backend(type=backend.type, settings=self._filled(scope, "backend", backend.settings))

    def _target(self, scope: PlaceholderScope, stack: str) -> Target | None:
        name = self._try(scope, "target", lambda: scope.target)
        if name is None:
            return None
        if name not in self._targets:
            self._problems.add(
                "HF-STACK-9",
                f"{stack} lives on the target `{names.printable(name)}`, which is not in `targets`",
                place=scope.rule.place_of("target"),
                hint=lambda: did_you_mean(name, self._targets) or "Add it to `targets`.",
            )
        return self._targets.get(name)

    def _check_name(self, name: str, scope: PlaceholderScope) -> bool:
        fault = names.fault(name)
        if fault is None:
            return True
        source = f" (from {names.printable(scope.found)})" if scope.found else ""
        self._problems.add(
            "HF-STACK-3",
            f"a stack cannot be called `{names.printable(name)}`{source}: {fault}",
            place=scope.rule.place_of("name"),
            hint="Rename the file or folder, or give the entry a `name:`.",
        )
        return False

    def _check_files(self, stack: Stack, rule: StackRule) -> None:
        listing = self._tree.listing(stack.module)
        if not has_root_module(listing):
            what = "is not there" if listing is None else "holds no Terraform files"
            self._problems.add(
                "HF-STACK-4",
                f"the module of {stack.name}, {stack.module}, {what}",
                place=rule.place_of("module"),
                hint="`module:` is the folder of a root module, relative to holdfast.yaml.",
            )
        for path in stack.variables_files:
            if path != stack.own_file and not has_file(self._tree, path):
                self._problems.add(
                    "HF-STACK-5",
                    f"the variables file {path} of {stack.name} is not there",
                    place=rule.place_of("variables_files"),
                    hint="Paths are relative to holdfast.yaml.",
                )

    def _check_names(self, stacks: list[Stack]) -> None:
        by_name: defaultdict[str, list[Stack]] = defaultdict(list)
        for stack in stacks:
            by_name[stack.name].append(stack)
        for name, same in by_name.items():
            if len(same) > 1:
                self._problems.add(
                    "HF-STACK-1",
                    f"{len(same)} stacks are called {name}: {_both(_origin(one) for one in same)}",
                    place=same[1].place,
                    hint="Give the entry a `name:` that tells them apart.",
                )

    def _check_states(self, stacks: list[Stack]) -> None:
        by_state: defaultdict[object, list[tuple[Stack, str]]] = defaultdict(list)
        for stack in stacks:
            code = self._code_backend(stack.module)
            said = type_mismatch(stack, code)
            if said is not None and stack.backend is not None:
                self._problems.add(
                    "HF-STACK-11",
                    f"{stack.name} is to have a backend of type {stack.backend.type}, "
                    f"and the code in {stack.module} says {said}",
                    place=stack.place,
                    hint="Let both say the same; without `type` the code alone decides.",
                )
                continue
            where = state_location(stack, code)
            if where is not None:
                by_state[where.identity].append((stack, where.shown))
        for same in by_state.values():
            if len({stack.name for stack, _ in same}) > 1:
                self._problems.add(
                    "HF-STACK-2",
                    f"{len(same)} stacks are on one state ({same[0][1]}): "
                    f"{_both(f'{stack.name} ({_origin(stack)})' for stack, _ in same)}",
                    place=same[1][0].place,
                    hint="Give each its own: a placeholder in the backend's key, or a workspace.",
                )

    def _with_dependencies(self, drafts: list[_Draft]) -> tuple[Stack, ...]:
        known = {draft.stack.name: draft for draft in drafts}
        needs = order.resolve(
            [wish for draft in drafts for wish in draft.wishes],
            {*known, *(name for name in self._broken if name is not None)},
            self._problems,
            complete=None not in self._broken,
        )
        for circle in order.cycles({name: needs.get(name, ()) for name in known}):
            wishes = known[circle[0]].wishes
            self._problems.add(
                "HF-STACK-8",
                f"stacks depend on each other in a circle: {' → '.join(circle)}",
                place=wishes[0].place if wishes else known[circle[0]].stack.place,
                hint="Take one of these dependencies away.",
            )
        stacks = (
            replace(draft.stack, depends_on=needs[draft.stack.name]) if draft.wishes else draft.stack
            for draft in drafts
        )
        return tuple(sorted(stacks, key=lambda stack: stack.name))


def _wishes(scope: PlaceholderScope, name: str) -> tuple[order.Dependency, ...]:
    return tuple(
        order.Dependency(
            stack=name,
            text=scope.fill(text),
            glob=scope.as_glob(text),
            place=scope.rule.place_of("depends_on"),
            shared=scope.rule.pattern is not None,
        )
        for text in scope.rule.depends_on
    )


def _called(scope: PlaceholderScope) -> str:
    """What to call a stack whose name may be what is missing."""
    if scope.found is not None:
        return names.printable(scope.found)
    return scope.rule.name or "the entry"


def _origin(stack: Stack) -> str:
    match stack.kind:
        case RuleKind.VARIABLES:
            return f"{stack.own_file}, entry at {stack.place}"
        case RuleKind.FOLDER:
            return f"folder {stack.module}, entry at {stack.place}"
        case RuleKind.NAMED:
            return f"entry at {stack.place}"


def _both(texts: Iterator[str]) -> str:
    """The first two: they are enough to see what is wrong."""
    first, second, *more = texts
    return f"{first} and {second}" + (f", and {len(more)} more" if more else "")
