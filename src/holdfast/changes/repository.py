"""A repository as a command sees it: configuration, stacks, run store, installed engines."""

from __future__ import annotations

import functools
import posixpath
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.changes.base_rules import base_rules
from holdfast.changes.old_repository import OldRepository, old_files
from holdfast.changes.selection import (
    Selection,
    changed_policies,
    expand_selection,
    matches_removed,
    parse_path_list,
    select_changed,
    select_named,
)
from holdfast.config import read as config_read
from holdfast.config.held_back import held_back_entries
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import Worktree
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.kernel.text import plural
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.context import actor_of
from holdfast.secrets.keys import Key, existing_key
from holdfast.secrets.redact import Redactor, redaction_settings
from holdfast.stacks.backend import code_backend
from holdfast.stacks.discover import discover
from holdfast.stacks.engine_requirement import engine_requirement
from holdfast.stacks.listing import FolderTree
from holdfast.stacks.reads.remote_states import derived_dependencies, stack_backend
from holdfast.stacks.scope import PlaceholderScope, variables_reader
from holdfast.stacks.select import ignored_changes
from holdfast.stacks.stack import Stack
from holdfast.store.blobs import BlobStore
from holdfast.store.place import is_on_server, open_blobs
from holdfast.store.run_records import SPOOL
from holdfast.store.run_store import RunStore
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.system.environment import Environment
from holdfast.system.git import Git, find
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.environment import terraform_variables
from holdfast.terraform.engine.interface import Product
from holdfast.terraform.engine.selection import (
    EngineRequirement,
    EngineSelection,
    depends_on_last_apply,
    select_engine,
)


class Repository(Struct, kw_only=True, dict=True):
    config: Config
    environment: Environment
    code: Code
    stacks: tuple[Stack, ...]
    store: RunStore

    @functools.cached_property
    def by_name(self) -> Mapping[str, Stack]:
        return {stack.name: stack for stack in self.stacks}

    @functools.cached_property
    def held_back(self) -> str | None:
        """How many entries are held back, and what to do; None if none are."""
        file = self.config.file
        count = held_back_entries((self.config.root / file.name).read_text(errors="replace"))
        if not count:
            return None
        are, comments, them = ("is", "a comment", "it") if count == 1 else ("are", "comments", "them")
        entries = f"{plural(count, 'entry', 'entries')} of {file.name} {are} held back as {comments}"
        return f"{entries}: complete and uncomment {them} below `stacks`"

    def require_stacks(self) -> None:
        """A repository without stacks is fine; one in which all are held back is not finished."""
        if not self.stacks and self.held_back is not None:
            raise UsageError(
                "HF-USE-42",
                f"there is no stack: {self.held_back}",
                hint="Each has a note with what is missing. Then: holdfast stacks",
            )

    def tune(self, redactor: Redactor) -> None:
        """Apply the `redaction:` settings."""
        wanted = self.config.redaction
        redactor.tune(redaction_settings(wanted.off, wanted.words, wanted.entropy))

    @functools.cached_property
    def engines(self) -> InstalledEngines:
        return InstalledEngines(self.environment)

    @functools.cached_property
    def git(self) -> Git | None:
        return find(self.config.root, self.environment.variables)

    @functools.cached_property
    def _choices(self) -> dict[EngineRequirement, EngineSelection]:
        return {}

    def choose(self, stack: Stack) -> EngineSelection:
        """The engine that runs a stack, and why."""
        requirement = engine_requirement(self.code, stack, self.config.engine.pin, self.environment.variables)
        if requirement not in self._choices:
            engines, known = self.engines.all(), requirement
            if depends_on_last_apply(requirement, engines):
                known = replace(known, last_product=self._last_product(stack))
            self._choices[requirement] = select_engine(known, engines, self.engines.unknown)
        return self._choices[requirement]

    def _last_product(self, stack: Stack) -> Product | None:
        """Commands that need no key work without it; a plan is not made then."""
        try:
            last = self.store.last_seen(stack.name) if not self.store.empty else None
        except UsageError:
            return None
        return Product(last.product) if last is not None and last.product else None

    def backend_type(self, stack: Stack) -> str:
        """`holdfast` for a managed state: neither code nor configuration names a backend."""
        code = code_backend(self.code, stack.module)
        if code is not None:
            return code.type
        configured = stack.backend.type if stack.backend is not None else None
        return configured or "holdfast"

    @property
    def who(self) -> str:
        """The current user, as far as the environment says, or as the server verified."""
        return actor_of(self.store, self.environment).shown

    def ship_audit_log(self) -> str | None:
        """Copy new lines of the audit log to its S3 sink. Returns a warning if some could not be copied.

        With the plan key nothing is copied: the next command with the apply key does that.
        """
        address = self.config.audit_s3
        if address is None or self.store.empty:
            return None
        from holdfast.audit import sink  # noqa: PLC0415 - only where a sink is configured

        try:
            accepted = sink.is_accepted(self.store, address)
        except (HoldfastError, OSError) as error:
            return f"nothing was sent to {address}: {error}"
        if not accepted:
            return sink.not_accepted(address)
        if not self.store.can_apply:
            return None
        return sink.ship(self.store, address, self.environment.variables).warning

    def stack(self, name: str) -> Stack:
        """The stack of this name, or an error that suggests the nearest one."""
        return self.select([name], [], None).single(name)

    def select(
        self,
        arguments: list[str],
        changed: list[str],
        since: str | None,
        *,
        base: str | None = None,
        dependents: bool = False,
        dependencies: bool = False,
    ) -> Selection:
        """All stacks, the named ones, those that a change affects, or the named ones among those.

        `base` is a reference whose rules count too; without it, that of `since`.
        """
        selection = self._select(arguments, changed, since, base)
        if not (dependents or dependencies):
            return selection
        return expand_selection(selection, self.stacks, dependents=dependents, dependencies=dependencies)

    def _select(
        self, arguments: list[str], changed: list[str], since: str | None, base: str | None
    ) -> Selection:
        rules = self._rules_of(base) if base is not None and since is None else None
        if not changed and since is None:
            named = select_named(self.stacks, arguments)
            return Selection(
                selected=named,
                removed=(),
                total=len(self.stacks),
                changed=None,
                named=bool(arguments),
                base=rules,
            )
        paths, before, tip = self._before(changed, since)
        if tip is not None and since is not None:
            rules = base_rules(self.config, self.code, self.stacks, tip, since)
        affected, removed = select_changed(
            self.config, self.stacks, self.code, paths, before=before, environment=self.environment
        )
        # A removed stack can still be named, and must then be reported.
        if arguments:
            removed = tuple(
                stack for stack in removed if any(matches_removed(stack, argument) for argument in arguments)
            )
        names = {named.stack.name for named in select_named(self.stacks, arguments, removed=removed)}
        return Selection(
            selected=tuple(selected for selected in affected if selected.stack.name in names),
            removed=removed,
            total=len(self.stacks),
            changed=paths,
            named=bool(arguments),
            policies=changed_policies(self.config, paths),
            base=rules,
            before=before if since is not None else None,
        )

    def ignored_changes(self, selection: Selection) -> Mapping[str, tuple[str, ...]]:
        """By name of a stack: the changed files that would affect it if `ignores` did not match them."""
        variables = terraform_variables(self.environment.variables)
        return ignored_changes(self.stacks, selection.changed or frozenset(), self.code, variables)

    def _before(
        self, changed: list[str], since: str | None
    ) -> tuple[frozenset[str], OldRepository, OldRepository | None]:
        """The changed paths, the repository before them, and the one whose rules count too, with `--since`.

        That is the commit that `since` names, which may be newer than the merge base: a branch that is
        behind must not be judged by rules that were made stricter in the meantime.
        """
        paths = self._named_paths(changed)
        if since is None:
            return paths, self._before_named(paths), None
        if self.git is None:
            raise UsageError(
                "HF-GIT-1",
                f"--since {since} needs a Git working tree, but {self.config.root} is not in one",
                hint="Name the changed files instead: --changed FILE.",
            )
        tip = self.git.commit(since)
        commit = self.git.merge_base(tip, since)
        before = self._at(self.git, commit)
        base = before if tip == commit else self._at(self.git, tip)
        # Files outside the root count for stacks that read them.
        return paths.union(before.changed), before, base

    def _rules_of(self, reference: str) -> BaseRules | None:
        """Of the base of a pull request, `origin/main`. Its history is not needed."""
        try:
            # The branch, whatever tag or local branch has the same name.
            commit = self.git.commit(f"refs/remotes/{reference}") if self.git is not None else None
        except UsageError:
            commit = None
        if self.git is None or commit is None:
            branch = reference.removeprefix("origin/")
            raise UsageError(
                "HF-GIT-6",
                f"a pull request is judged by the rules of its base, and {reference} is not in this clone",
                hint=f"Fetch it: git fetch --depth=1 origin {branch}:refs/remotes/origin/{branch} "
                "(GitHub Actions: fetch-depth: 0; Azure Pipelines: fetchDepth: 0).",
            )
        return base_rules(self.config, self.code, self.stacks, self._at(self.git, commit), reference)

    def _at(self, git: Git, commit: str) -> OldRepository:
        prefix = self.prefix or "."
        versions = {posixpath.relpath(path, prefix): old for path, old in git.changed_since(commit).items()}
        inside = {path: old for path, old in versions.items() if not path.startswith("../")}
        old, unreadable = old_files(git, self.config.root, inside)
        return OldRepository(self.config, self.code, old, unreadable, changed=frozenset(versions))

    def _named_paths(self, changed: list[str]) -> frozenset[str]:
        prefix = self.prefix if changed else ""
        paths: set[str] = set()
        for name in changed:
            for path in parse_path_list(sys.stdin.buffer.read()) if name == "-" else (name,):
                paths.add(self._inside(path))
                if prefix and path.startswith(prefix):
                    # As Git names it. Both readings count: more is selected, never less.
                    paths.add(path.removeprefix(prefix))
        return frozenset(paths)

    def _before_named(self, paths: frozenset[str]) -> OldRepository:
        """With `--changed` alone, the last commit is the past.

        If it has the current content, the change is already committed, and what was before is unknown.
        """
        commit = self.git.head() if self.git is not None else None
        old: dict[str, bytes | None] = {}
        unreadable: set[str] = set()
        for path in paths:
            now = self.config.root / path
            then = self.git.content(commit, f"{self.prefix}{path}") if self.git and commit else None
            if not now.exists():
                old[path] = then or b""
            elif then is not None and now.is_file() and now.read_bytes() != then:
                old[path] = then
            elif path == self.config.file.name:
                unreadable.add(path)
        return OldRepository(self.config, self.code, old, frozenset(unreadable))

    @property
    def prefix(self) -> str:
        """The path from the top of the Git tree to the root: `infra/`, or empty."""
        root = self.config.root.resolve()
        top = self.git.top.resolve() if self.git is not None else root
        return f"{root.relative_to(top).as_posix()}/" if root != top and root.is_relative_to(top) else ""

    def _inside(self, name: str) -> str:
        """A path as the user gave it, relative to the root. It need not exist: deleted files count too."""
        root = self.config.root
        for base in (root, root.resolve()):
            path = posixpath.relpath(posixpath.join(base.as_posix(), name), base.as_posix())
            if name and path != ".." and not path.startswith("../"):
                return path
        raise UsageError(
            "HF-USE-6",
            f"--changed {name}: not inside {root}" if name else "--changed without a name",
            hint="Paths are relative to the folder of holdfast.yaml, or to the top of the Git tree.",
        )


def stack_scope(repository: Repository, stack: Stack) -> PlaceholderScope:
    """What the stack was made of."""
    scopes: dict[str, PlaceholderScope] = {}
    config = repository.config
    discover(
        config,
        files=FolderTree(config.root),
        read_values=variables_reader(repository.code.tree),
        code_backend=functools.partial(stack_backend, repository.code),
        read_content=repository.code.content_or_problem,
        lenient=True,
        scopes=scopes,
    )
    return scopes[stack.name]


def open_repository(
    config: Path | None,
    environment: Environment,
    key: Callable[[], Key] | None = None,
    *,
    with_stacks: bool = True,
    elsewhere: str = "",
    store: RunStore | None = None,
) -> Repository:
    """Read the configuration and find the stacks. Every mistake in either is raised at once.

    `key` is called only when the store is read or written. Without stacks, mistakes in them do not matter.
    `store`: instead of the one that the configuration names.
    """
    loaded = config_read.load(
        config if config is not None else config_read.find(Path.cwd(), elsewhere=elsewhere)
    )
    code = Code(Worktree(loaded.root, ForbiddenFiles(environment)))
    stacks: tuple[Stack, ...] = ()
    if with_stacks:
        stacks = discover(
            loaded,
            files=FolderTree(loaded.root),
            read_values=variables_reader(code.tree),
            code_backend=functools.partial(
                stack_backend, code, env_variables=terraform_variables(environment.variables)
            ),
            read_content=code.content_or_problem,
            derive=functools.partial(derived_dependencies, lambda _: code),
        )
    return Repository(
        config=loaded,
        environment=environment,
        code=code,
        stacks=stacks,
        store=store or _configured_store(loaded, environment, key),
    )


def _configured_store(config: Config, environment: Environment, key: Callable[[], Key] | None) -> RunStore:
    blobs = open_blobs(config.store, config.root, environment.variables)

    def load_key() -> Key:
        """For commands that only read."""
        return existing_key(environment, f"the run store {blobs.shown}").key

    return _open_store(blobs, key or load_key, spool=environment.home / SPOOL)


def _open_store(blobs: BlobStore, key: Callable[[], Key], *, spool: Path) -> RunStore:
    if not is_on_server(blobs):
        return RunStore(blobs, key, spool=spool)
    from holdfast.store.server_store import server_run_store  # noqa: PLC0415 - few stores are a server

    return server_run_store(blobs, spool=spool)
