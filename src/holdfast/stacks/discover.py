"""Finds the stacks of a repository from its configuration and files: all stacks, or all mistakes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.hooks import Hook
from holdfast.config.output_refs import OUTPUT_NAME, OutputRef, outputs_in
from holdfast.config.problems import Problems, did_you_mean
from holdfast.config.secret_refs import Value
from holdfast.config.settings import Config, Target
from holdfast.config.stack_entries import add_missing_keys
from holdfast.config.stack_rules import Backend, RuleKind, StackRule
from holdfast.hcl.eval.code import is_auto_loaded
from holdfast.kernel.errors import Place, Problem
from holdfast.stacks import order
from holdfast.stacks.backend import ReadBackend, settings_in_files
from holdfast.stacks.backend_types import DEFAULT_WORKSPACE
from holdfast.stacks.duplicates import check_files, check_names, check_states
from holdfast.stacks.generated import (
    GenerateError,
    ReadContent,
    UnreadTemplateError,
    generated_files,
    no_content,
)
from holdfast.stacks.listing import Tree, has_root_module
from holdfast.stacks.matrix import combinations
from holdfast.stacks.pattern import compile_pattern, matching_paths
from holdfast.stacks.scope import (
    EntryRules,
    MissingValueError,
    PathError,
    PlaceholderScope,
    ReadValues,
    VariablesFiles,
)
from holdfast.stacks.stack import Derived, GeneratedFile, Stack, name_problem, printable

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
"""Most stacks have most keys empty, and a repository may have thousands."""

T = TypeVar("T")

DeriveDependencies = Callable[[Sequence[Stack]], Iterable[tuple[str, Derived | Problem]]]
"""From all stacks to the dependencies that follow from the states they read, each with its stack's name.

A problem, if those of a stack cannot be found.
"""


def _derive_none(_stacks: Sequence[Stack]) -> tuple[()]:
    return ()


class _Draft(Struct, frozen=True, kw_only=True):
    stack: Stack
    dependencies: tuple[order.Dependency, ...]
    reads: tuple[Derived, ...]
    """Of its inputs."""


def discover(
    config: Config,
    *,
    files: Tree,
    read_values: ReadValues,
    code_backend: ReadBackend,
    read_content: ReadContent = no_content,
    derive: DeriveDependencies = _derive_none,
    lenient: bool = False,
    scopes: dict[str, PlaceholderScope] | None = None,
) -> tuple[Stack, ...]:
    """The stacks, sorted by name. Raises ConfigError with every mistake; if `lenient`, leaves those out.

    `read_values` is called only for stacks whose placeholders or environment need a value from a file.
    `read_content` reads templates. `scopes` receives what each stack was made of, by name.
    """
    discovery = _Discovery(config, files, read_values, code_backend, read_content, derive)
    stacks = discovery.run(lenient=lenient)
    if scopes is not None:
        scopes.update(discovery.scopes)
    return stacks


class _Discovery:
    def __init__(
        self,
        config: Config,
        tree: Tree,
        read_values: ReadValues,
        code_backend: ReadBackend,
        read_content: ReadContent,
        derive: DeriveDependencies,
    ) -> None:
        self._config = config
        self._tree = tree
        self._files = VariablesFiles(read_values, tree)
        self._code_backend, self._read_content = code_backend, read_content
        self._derive = derive
        self._problems = Problems()
        # Without defaults, which are in the stack itself.
        self._targets = {target.name: replace(target, defaults=None) for target in config.targets}
        self.scopes: dict[str, PlaceholderScope] = {}
        self._broken: set[str | None] = set()
        """Names of stacks with a mistake; None for one whose name is unknown."""
        self._unread_templates: list[Problem] = []

    def run(self, *, lenient: bool) -> tuple[Stack, ...]:
        drafts = [
            draft
            for rule in self._config.stacks
            for scope in self._scopes(rule)
            if (draft := self._draft(scope)) is not None
        ]
        stacks = [draft.stack for draft in drafts]
        check_names(stacks, self._problems)
        check_states([stack for stack in stacks if not stack.problems], self._code_backend, self._problems)
        finished = self._with_dependencies(drafts)
        if not lenient:
            self._problems.raise_any()
        return finished

    def _scopes(self, rule: StackRule) -> Iterator[PlaceholderScope]:
        """One per stack of the entry."""
        pattern = compile_pattern(rule.pattern) if rule.pattern is not None else None
        scope = partial(
            PlaceholderScope,
            rules=EntryRules(rule, self._config, pattern.names if pattern is not None else tuple(rule.axes)),
            config=self._config,
            files=self._files,
            tree=self._tree,
        )
        if pattern is None:
            for combination in combinations(rule, self._tree, self._files.items, self._problems):
                yield scope(captured=combination.values, path=None, sources=combination.sources)
            return
        folders = rule.kind is RuleKind.FOLDER
        matches = matching_paths(pattern, self._tree, folders=folders)
        for path, captured in sorted(matches, key=lambda pair: pair[0]):
            if has_root_module(self._tree.listing(path)) if folders else not self._is_auto_loaded(path):
                yield scope(captured=captured, path=path)

    def _is_auto_loaded(self, path: str) -> bool:
        """`terraform.tfvars` and `*.auto.tfvars` next to code belong to every stack of that code."""
        folder, _, name = path.rpartition("/")
        return is_auto_loaded(name) and has_root_module(self._tree.listing(folder or "."))

    def _draft(self, scope: PlaceholderScope) -> _Draft | None:
        """A mistake in the configuration stops everything; a file that cannot be read only its stacks."""
        every, self._problems, self._unread_templates = self._problems, Problems(), []
        try:
            draft = self._draft_from(scope)
        finally:
            own, self._problems = self._problems, every
        self._files.need(scope.sources)
        unread = (*self._files.take_problems(), *self._unread_templates)
        if draft is None or (own and not unread):
            self._broken.add(draft.stack.name if draft is not None else None)
            every.add_all(own)
            every.extend(unread, place=Place(file=""))
            return None
        self.scopes[draft.stack.name] = scope
        # What else is missing follows from the file.
        return replace(draft, stack=replace(draft.stack, problems=unread)) if unread else draft

    def _draft_from(self, scope: PlaceholderScope) -> _Draft | None:
        rule = scope.rule
        name = self._try(scope, "name", lambda: scope.name)
        if name is None or not self._check_name(name, scope):
            return None
        module = self._try(scope, "module", lambda: scope.module)
        decision = self._try(scope, "environment", lambda: scope.environment)
        inputs = self._inputs(scope, name) if rule.inputs else _NONE
        plain = {key: value for key, value in rule.inputs.items() if not isinstance(value, OutputRef)}
        variables = self._filled(scope, "variables", rule.variables)
        if plain:
            variables = {**variables, **self._filled(scope, "inputs", plain)}
        files = self._try(scope, "variables_files", lambda: scope.variables_files)
        stack = Stack(
            name=name,
            kind=rule.kind,
            place=rule.place,
            module=module or ".",
            variables_files=files or (),
            absent_files=scope.absent_files if files is not None else (),
            sources=scope.sources,
            variables=variables,
            inputs=inputs,
            environment=decision.environment if decision else None,
            production=decision.production if decision else True,
            environment_reason=decision.reason if decision else "",
            environment_unclear=decision.unclear if decision else False,
            account=self._try(scope, "account", lambda: scope.account),
            region=self._try(scope, "region", lambda: scope.region),
            target=self._target(scope, name),
            backend=self._backend(scope),
            credentials=_NONE
            if not rule.credentials
            else {key: self._filled(scope, "credentials", own) for key, own in rule.credentials.items()},
            env=self._filled(scope, "env", rule.env),
            pass_env=tuple(dict.fromkeys((*self._config.pass_env, *rule.pass_env))),
            workspace=self._try(scope, "workspace", lambda: scope.fill(rule.workspace or DEFAULT_WORKSPACE))
            or DEFAULT_WORKSPACE,
            hooks=(self._try(scope, "hooks", lambda: _hooks(scope)) if rule.hooks else None) or (),
            worker=rule.worker,
            warm_providers=rule.warm_providers,
            generate=self._generated(scope) if rule.generate else _NONE,
            engine=rule.engine,
            terraform_parallelism=rule.terraform_parallelism,
            reads=self._globs(scope, "reads"),
            ignores=self._globs(scope, "ignores"),
        )
        if module is not None:
            check_files(stack, rule, self._tree, self._problems)
        if rule is not scope.entry:
            # Without defaults, the reader has already looked.
            add_missing_keys(rule.written, self._problems)
        dependencies: tuple[order.Dependency, ...] = ()
        if rule.depends_on:
            dependencies = self._try(scope, "depends_on", lambda: _dependencies(scope, name)) or ()
        reads: tuple[Derived, ...] = ()
        if inputs:
            place = rule.place_of("inputs")
            reads = tuple(
                Derived(stack=other.stack, source=f"input {variable}", place=place, output=other.output)
                for variable, other in inputs.items()
            )
            dependencies += tuple(
                order.Dependency(stack=name, text=read.stack, place=place, shared=False, source=read.source)
                for read in reads
            )
        return _Draft(stack=stack, dependencies=dependencies, reads=reads)

    def _try(self, scope: PlaceholderScope, key: str, make: Callable[[], T]) -> T | None:
        """A value with placeholders; None after reporting what is missing."""
        try:
            return make()
        except MissingValueError as error:
            self._problems.add(
                "HF-STACK-6",
                f"{key} of {_label(scope)}: {error}",
                place=scope.rule.place_of(key, error.text),
                hint="Set the value in the entry or in the variables file, or do not use the placeholder.",
            )
        except UnreadTemplateError as error:
            self._unread_templates.append(error.problem)
        except GenerateError as error:
            message, place = f"{_label(scope)} cannot {error}", scope.rule.place_of(key)
            self._problems.add("HF-STACK-21", message, place=place, hint=error.hint)
        except PathError as error:
            self._problems.add(
                "HF-STACK-10",
                f"{key} of {_label(scope)}: {printable(str(error))} leads out of the repository",
                place=scope.rule.place_of(key),
                hint="Paths are relative to holdfast.yaml and cannot contain `..`.",
            )
        return None

    def _filled(self, scope: PlaceholderScope, key: str, values: Mapping[str, Value]) -> Mapping[str, Value]:
        return (self._try(scope, key, lambda: scope.fill_values(values)) if values else None) or _NONE

    def _globs(self, scope: PlaceholderScope, key: str) -> tuple[str, ...]:
        """Those of the file and of the entry."""
        globs: tuple[str, ...] = (*getattr(self._config, key), *getattr(scope.rule, key))
        filled = self._try(scope, key, lambda: tuple(map(scope.fill_path, globs))) if globs else ()
        return tuple(dict.fromkeys(filled or ()))

    def _generated(self, scope: PlaceholderScope) -> Mapping[str, GeneratedFile]:
        make = partial(generated_files, scope, self._tree, self._read_content)
        return self._try(scope, "generate", make) or _NONE

    def _inputs(self, scope: PlaceholderScope, stack: str) -> Mapping[str, OutputRef]:
        """The inputs that are outputs of other stacks."""
        references = outputs_in(scope.rule.inputs)
        inputs = {
            name: filled
            for name, reference in references.items()
            if (filled := self._try(scope, "inputs", partial(scope.fill_output, reference))) is not None
        }
        for name, filled in inputs.items():
            if not filled.stack or not re.fullmatch(OUTPUT_NAME, filled.output):
                self._problems.add(
                    "HF-STACK-15",
                    f"the input {name} of {stack} reads `{printable(filled.text)}`, not STACK.OUTPUT",
                    place=scope.rule.place_of("inputs"),
                    hint="The last dot separates the stack and the output: dev/network.vpc_id",
                )
        return MappingProxyType(inputs)

    def _backend(self, scope: PlaceholderScope) -> Backend | None:
        backend = scope.rule.backend
        if backend is None:
            return None
        files = self._try(scope, "backend", lambda: tuple(map(scope.fill_path, backend.files))) or ()
        settings = settings_in_files(
            files, self._tree, self._files.values, self._problems, place=scope.rule.place_of("backend")
        )
        settings.update(self._filled(scope, "backend", backend.settings))
        return Backend(type=backend.type, settings=MappingProxyType(settings), files=files)

    def _target(self, scope: PlaceholderScope, stack: str) -> Target | None:
        name = self._try(scope, "target", lambda: scope.target)
        if name is None:
            return None
        if name not in self._targets:
            self._problems.add(
                "HF-STACK-9",
                f"{stack} has the target `{printable(name)}`, which is not in `targets`",
                place=scope.rule.place_of("target"),
                hint=lambda: did_you_mean(name, self._targets) or "Add it to `targets`.",
            )
        return self._targets.get(name)

    def _check_name(self, name: str, scope: PlaceholderScope) -> bool:
        problem = name_problem(name)
        if problem is None or self._files.need(scope.sources):
            return True
        source = f" (from {printable(scope.path)})" if scope.path else ""
        self._problems.add(
            "HF-STACK-3",
            f"`{printable(name)}`{source} is not a valid stack name: {problem}",
            place=scope.rule.place_of("name"),
            hint="Rename the file or folder, or set `name:` in the entry.",
        )
        return False

    def _with_dependencies(self, drafts: list[_Draft]) -> tuple[Stack, ...]:
        known = {draft.stack.name for draft in drafts}
        needs = order.resolve(
            [dependency for draft in drafts for dependency in draft.dependencies],
            {*known, *(name for name in self._broken if name is not None)},
            self._problems,
            complete=None not in self._broken,
        )
        derived: defaultdict[str, tuple[Derived, ...]] = defaultdict(tuple)
        for draft in drafts:
            name, reads = draft.stack.name, tuple(read for read in draft.reads if read.stack in known)
            if reads:
                derived[name] = reads
                needs[name] = (*needs.get(name, ()), *(read.stack for read in reads))
        places = {draft.stack.name: draft.stack.place for draft in drafts}
        order.report_cycles(needs, derived, places, self._problems)
        states: defaultdict[str, set[str]] = defaultdict(set)
        failed: dict[str, tuple[Problem, ...]] = {}
        for name, dependency in self._derive([draft.stack for draft in drafts]):
            if isinstance(dependency, Problem):
                failed[name] = (dependency,)
                continue
            derived[name] += (dependency,)
            states[name].add(dependency.stack)
        ordered = order.without_mutual_reads(needs, states)
        stacks = (
            replace(
                draft.stack,
                depends_on=tuple(sorted(ordered.get(name, ()))),
                derived=derived[name],
                problems=(*draft.stack.problems, *failed.get(name, ())),
            )
            if (name := draft.stack.name) in ordered or name in failed
            else draft.stack
            for draft in drafts
        )
        return tuple(sorted(stacks, key=lambda stack: stack.name))


def _dependencies(scope: PlaceholderScope, name: str) -> tuple[order.Dependency, ...]:
    return tuple(
        order.Dependency(
            stack=name,
            text=scope.fill(text),
            glob=scope.as_glob(text),
            place=scope.rule.place_of("depends_on"),
            shared=scope.rule.pattern is not None or bool(scope.rule.matrix),
        )
        for text in scope.rule.depends_on
    )


def _hooks(scope: PlaceholderScope) -> tuple[Hook, ...]:
    return tuple(
        replace(hook, run=tuple(map(scope.fill, hook.run)), files=tuple(map(scope.fill_path, hook.files)))
        for hook in scope.rule.hooks
    )


def _label(scope: PlaceholderScope) -> str:
    """How to refer to a stack whose name may be the missing value."""
    if scope.path is not None:
        return printable(scope.path)
    try:
        return scope.name
    except MissingValueError:
        return scope.entry.name or "the entry"
