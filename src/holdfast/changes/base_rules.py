"""Compares a change with the base that it is reviewed against: which rules differ, and which are weaker."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from holdfast.changes.old_repository import OldRepository
from holdfast.changes.weakened import RuleFile, same_checks, weakened_checks, weakened_guard, weakened_stacks
from holdfast.checks.engine.new_waivers import without_new_waivers
from holdfast.checks.model.baseline import BASELINE, common_entries
from holdfast.checks.model.report import Waiver
from holdfast.checks.tools.rego.policies import FOLDER, changes_policies, policy_files
from holdfast.config.checks import Use
from holdfast.config.defaults import EntryDefaults, merge, merge_values
from holdfast.config.settings import Config, Environment, Target
from holdfast.config.stack_rules import RuleKind
from holdfast.guard.policy import policy_for
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.text import plural
from holdfast.plans.base_rules import BaseRules, BaseStack, SealedRules, open_rules
from holdfast.plans.policies import policy_of
from holdfast.review.baseline import lenient_baseline
from holdfast.stacks.backend import state_key
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import FolderTree
from holdfast.stacks.reads.remote_states import stack_backend
from holdfast.stacks.scope import variables_reader
from holdfast.stacks.stack import Stack
from holdfast.system import clock

Judged = Mapping[str, tuple[BaseStack, ...]]


def base_rules(
    config: Config, code: Code, stacks: tuple[Stack, ...], base: OldRepository, reference: str
) -> BaseRules | None:
    """The rules of the base; None if they are those of the change.

    If its configuration cannot be read, every stack is judged as production with the built-in rules.
    """
    try:
        old, known = base.config, base.stacks
    except HoldfastError:
        old, known = Config(file=config.file, root=config.root), None
    if known is None:
        text, old = None, Config(file=config.file, root=config.root)
        judged: Judged = {stack.name: (BaseStack(environment=None, production=True),) for stack in stacks}
        unread = f"{reference} has no readable {config.file.name}, so every stack is judged as production"
        weakened = [f"{unread} with the built-in rules"]
    else:
        text = (base.code.content(config.file.name) or b"").decode("utf-8-sig")
        judged = _Comparison(config, code, old, base, known).judged(stacks)
        weakened = [
            *weakened_stacks(config, old, stacks, judged),
            *weakened_guard(config, old, judged.values()),
        ]
    files = _rule_files(config, code, old, base)
    weakened += weakened_checks(config, old, files.changed, files.waivers)
    added = _added_to_baseline(code, base.code)
    if added:
        weakened.append(f"{BASELINE} accepts {plural(added, 'more finding')}")
    differing = {
        stack.name: tuple(twin for twin in judged.get(stack.name, ()) if _differs(config, old, stack, twin))
        for stack in stacks
    }
    differing = {name: twins for name, twins in differing.items() if twins}
    checks = bool(files.files or files.unreadable) or not same_checks(old, config)
    if not differing and not checks and not weakened:
        return None
    sealed = SealedRules(
        reference=reference,
        config=text,
        stacks=differing,
        checks=checks,
        files={**files.files, BASELINE: base.code.content(BASELINE)} if added else files.files,
        unreadable=files.unreadable,
        weakened=tuple(dict.fromkeys(weakened)),
    )
    return open_rules(sealed, config, code)


def _added_to_baseline(code: Code, base: Code) -> int:
    """How many findings are known only with the change."""
    entries = lenient_baseline(code)
    known = common_entries(entries, lenient_baseline(base)) if entries else ()
    return sum(entry.count for entry in entries) - sum(entry.count for entry in known)


def _differs(config: Config, old: Config, stack: Stack, base: BaseStack) -> bool:
    policy = policy_for(old.guard, environment=base.environment, production=base.production)
    return (
        (base.environment, base.production) != (stack.environment, stack.production)
        or _binding(base.target) != _binding(stack.target)
        or bool(base.readers)
        or policy != policy_of(config, stack)
    )


def _binding(target: Target | None) -> tuple[object, ...]:
    """What a target decides about a plan."""
    return (target.owner, target.proof, target.contract) if target is not None else (None, None, None)


class _Comparison:
    """Finds the stacks of the base that a stack of the change is, by name or by state."""

    def __init__(
        self, config: Config, code: Code, old: Config, base: OldRepository, known: Mapping[str, Stack]
    ) -> None:
        self._config = config
        self._code = code
        self._old = old
        self._base = base
        self._known = known

    def judged(self, stacks: Sequence[Stack]) -> Judged:
        readers = _readers(self._known.values())
        now = _readers(stacks)
        judged: dict[str, tuple[BaseStack, ...]] = {}
        for stack in stacks:
            twins = (
                BaseStack(
                    environment=twin.environment,
                    production=twin.production,
                    target=twin.target,
                    readers=tuple(sorted(readers.get(twin.name, set()) - now.get(stack.name, set()))),
                )
                for twin in self._twins(stack)
            )
            judged[stack.name] = tuple(dict.fromkeys(twins))
        return judged

    def _twins(self, stack: Stack) -> Iterator[Stack]:
        twin = self._known.get(stack.name)
        if twin is not None:
            yield twin
            if self._same_state(twin, stack):
                return
        state = state_key(stack, stack_backend(self._code, stack))
        other = self._by_state.get(state) if state is not None else None
        if other is not None:
            yield other
        elif twin is None:
            yield from self._new(stack)

    def _same_state(self, twin: Stack, stack: Stack) -> bool:
        deciding = [(one.module, one.workspace, one.backend, one.env) for one in (twin, stack)]
        return deciding[0] == deciding[1] and stack.module not in self._base.changed_folders

    @functools.cached_property
    def _by_state(self) -> Mapping[str, Stack]:
        keys = {state_key(twin, self._base.code_backend(twin)): twin for twin in self._known.values()}
        return {key: twin for key, twin in keys.items() if key is not None}

    # A new stack: the base cannot know it, but its entries or its environments may say what it is.

    def _new(self, stack: Stack) -> Iterator[Stack]:
        if self._old is self._config:
            return
        for twin in self._by_old_entries:
            by_file = stack.own_file is not None and twin.own_file == stack.own_file
            by_folder = twin.kind is stack.kind is RuleKind.FOLDER and twin.module == stack.module
            if twin.name == stack.name or by_file or by_folder:
                yield twin
        same = [twin for twin in self._by_old_environments if twin.name == stack.name]
        yield from same
        if not same:
            yield structs.replace(stack, environment=None, production=True)

    @functools.cached_property
    def _by_old_entries(self) -> tuple[Stack, ...]:
        return self._discover(self._old)

    @functools.cached_property
    def _by_old_environments(self) -> tuple[Stack, ...]:
        return self._discover(_with_environments(self._config, self._old.environments))

    def _discover(self, config: Config) -> tuple[Stack, ...]:
        """On the current files; entries with mistakes are left out."""
        return discover(
            config,
            files=FolderTree(config.root),
            read_values=variables_reader(self._code.tree),
            code_backend=functools.partial(stack_backend, self._code),
            read_content=self._code.content_or_problem,
            lenient=True,
        )


def _with_environments(config: Config, environments: tuple[Environment, ...]) -> Config:
    """Every stack still has the values and defaults that the change's environments give it."""
    layers = [environment.defaults for environment in config.environments] + [config.defaults]
    written = [layer.written for layer in layers if layer is not None]
    values = [environment.values for environment in config.environments] + [config.values]
    return structs.replace(
        config,
        environments=tuple(
            structs.replace(environment, values={}, defaults=None) for environment in environments
        ),
        defaults=EntryDefaults(written=functools.reduce(merge, written)) if written else None,
        values=functools.reduce(merge_values, values),
    )


def _readers(stacks: Iterable[Stack]) -> dict[str, set[str]]:
    """By name, the modules of the stacks that depend on it."""
    readers: dict[str, set[str]] = {}
    for stack in stacks:
        for name in stack.depends_on:
            readers.setdefault(name, set()).add(stack.module)
    return readers


# Files with rules


class _RuleFiles(Struct, frozen=True, kw_only=True):
    files: Mapping[str, bytes | None]
    """The base's policies and contracts, and changed files without the waivers that the base lacks."""
    unreadable: tuple[str, ...]
    changed: tuple[RuleFile, ...]
    waivers: tuple[Waiver, ...]


def _rule_files(config: Config, code: Code, old: Config, base: OldRepository) -> _RuleFiles:
    schemas = (target.contract.schema for target in old.targets if target.contract is not None)
    contracts = {alias for schema in schemas for alias in base.tree.aliases(posixpath.normpath(schema))}
    with_rego = old.checks.tools.get("rego") is not Use.OFF
    linked = _linked_policies(code, base) if with_rego else frozenset()

    def has_rules(path: str) -> bool:
        policy = path == ".gitmodules" or changes_policies(path) or path in linked
        return path in contracts or (with_rego and policy)

    files = {path: content for path, content in base.tree.old.items() if has_rules(path)}
    unreadable = tuple(sorted({*filter(has_rules, base.tree.unreadable), *(linked & {FOLDER})}))
    changed = [
        RuleFile(path=path, removed=not (config.root / path).exists())
        for path in sorted({*(path for path, content in files.items() if content is not None), *unreadable})
        if path != ".gitmodules"
    ]
    waivers: list[Waiver] = []
    today = clock.now().date()
    for path, content in base.tree.old.items():
        now = code.content(path) if path not in files else None
        stripped = without_new_waivers(path, content, now, today=today) if now is not None else None
        if stripped is not None:
            files[path] = stripped.content
            waivers += (added.waiver for added in stripped.added)
    return _RuleFiles(files=files, unreadable=unreadable, changed=tuple(changed), waivers=tuple(waivers))


def _linked_policies(code: Code, base: OldRepository) -> frozenset[str]:
    """The changed files that are policies because a link in `policy/` leads to them.

    The folder itself if a link leads out of the root, and policies there changed: they cannot be read.
    """
    links = {
        (path, tree.real(path))
        for tree, listed in ((code.tree, policy_files(code)), (base.tree, policy_files(base.code)))
        for path in listed.paths
    }
    outside = any(path.startswith("../") and path.endswith(".rego") for path in base.changed)
    if outside and any(real is None for _, real in links):
        return frozenset({FOLDER})
    return frozenset(real for path, real in links if real is not None and real != path)
