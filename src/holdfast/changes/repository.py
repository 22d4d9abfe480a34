"""A repository as a command finds it: its configuration, its stacks, the engines that would run them."""

from __future__ import annotations

import functools
import posixpath
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.audit.actor import current_actor
from holdfast.changes.selection import (
    Selection,
    changed_policies,
    listed_paths,
    meant,
    select_changed,
    select_named,
)
from holdfast.config import read as config_read
from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import UsageError
from holdfast.secrets.keys import Key, load_or_create_key
from holdfast.secrets.redact import Redactor, redaction_settings
from holdfast.stacks.backend import CodeBackend, code_backend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import FolderTree
from holdfast.stacks.stack import Stack
from holdfast.stacks.variables import variables_reader
from holdfast.store.place import open_blobs
from holdfast.store.run_records import SPOOL
from holdfast.store.run_store import RunStore
from holdfast.system import git as git_door
from holdfast.system.environment import Environment
from holdfast.system.git import Git
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.selection import EngineRequirement, EngineSelection, select_engine


class Repository(Struct, kw_only=True, dict=True):
    config: Config
    environment: Environment
    code: Code
    stacks: tuple[Stack, ...]
    store: RunStore

    @functools.cached_property
    def by_name(self) -> Mapping[str, Stack]:
        return {stack.name: stack for stack in self.stacks}

    def tune(self, redactor: Redactor) -> None:
        """What `redaction:` says counts from here on."""
        wanted = self.config.redaction
        redactor.tune(redaction_settings(wanted.off, wanted.words, wanted.entropy))

    @functools.cached_property
    def engines(self) -> InstalledEngines:
        return InstalledEngines(self.environment)

    @functools.cached_property
    def git(self) -> Git | None:
        return git_door.find(self.config.root, self.environment.variables)

    @functools.cached_property
    def _choices(self) -> dict[EngineRequirement, EngineSelection]:
        return {}

    def choose(self, stack: Stack) -> EngineSelection:
        """The engine that runs a stack, and why."""
        wish = self.wish(stack)
        if wish not in self._choices:
            self._choices[wish] = select_engine(wish, self.engines.all())
        return self._choices[wish]

    def wish(self, stack: Stack) -> EngineRequirement:
        module = self.code.module(stack.module)
        pin = module.opentofu_version if module.tofu else module.terraform_version
        return EngineRequirement(
            stack=stack.name,
            tofu_reason=module.tofu[0] if module.tofu else None,
            required=module.required_versions,
            version_file=(pin.path, pin.version) if pin is not None else None,
            stack_pin=stack.engine,
            config_pin=self.config.engine.pin,
        )

    def backend_type(self, stack: Stack) -> str:
        """`holdfast` where the code names no backend and Holdfast keeps the state."""
        code = code_backend(self.code, stack.module)
        if code is not None:
            return code.type
        configured = stack.backend.type if stack.backend is not None else None
        return configured or "holdfast"

    @property
    def who(self) -> str:
        """Who asks. Nothing proves it here; it is recorded as what it is."""
        return current_actor(self.environment).shown

    def ship_audit_log(self) -> str | None:
        """Copy new lines of the audit log to its S3 sink. Returns a warning if some could not be copied."""
        address = self.config.audit_s3
        if address is None or self.store.empty:
            return None
        from holdfast.audit.sink import ship  # noqa: PLC0415 - only where a sink is configured

        return ship(self.store, address, self.environment.variables).warning

    def one(self, name: str) -> Stack:
        """The stack of this name, or an error that names the nearest one."""
        return self.select([name], [], None).single(name)

    def select(self, arguments: list[str], changed: list[str], since: str | None) -> Selection:
        """What a command is about: everything, or what was named, or what a change touches, or both."""
        if not changed and since is None:
            named = select_named(self.stacks, arguments)
            return Selection(
                selected=named, gone=(), total=len(self.stacks), changed=None, named=bool(arguments)
            )
        paths, commit = self._changed_paths(changed, since)
        found, gone = select_changed(
            self.config,
            self.stacks,
            self.code,
            paths,
            old_content=functools.partial(self._old_content, commit, known=since is not None),
            environment=self.environment,
        )
        # What the change took away can still be named: it must not be passed over.
        gone = tuple(one for one in gone if not arguments or any(meant(one, each) for each in arguments))
        names = {one.stack.name for one in select_named(self.stacks, arguments, gone=gone)}
        return Selection(
            selected=tuple(one for one in found if one.stack.name in names),
            gone=gone,
            total=len(self.stacks),
            changed=paths,
            named=bool(arguments),
            policies=changed_policies(self.config, paths),
        )

    def _changed_paths(self, changed: list[str], since: str | None) -> tuple[frozenset[str], str | None]:
        prefix = self.prefix
        paths: set[str] = set()
        for name in changed:
            for one in listed_paths(sys.stdin.buffer.read()) if name == "-" else (name,):
                paths.add(self._inside(one))
                if prefix and one.startswith(prefix):
                    # As Git names it. Both readings are meant: more is selected, never less.
                    paths.add(one.removeprefix(prefix))
        if since is None:
            return frozenset(paths), self.git.head() if self.git is not None else None
        if self.git is None:
            raise UsageError(
                "HF-GIT-1",
                f"--since {since} needs a Git working tree, and {self.config.root} is in none",
                hint="Name the changed files instead: --changed FILE.",
            )
        commit = self.git.merge_base(since)
        # What lies outside our root counts for stacks that reach out of it.
        paths.update(posixpath.relpath(path, prefix or ".") for path in self.git.changed_since(commit))
        return frozenset(paths), commit

    @property
    def prefix(self) -> str:
        """Leads from the top of the Git tree to our root: `infra/`, or nothing."""
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

    def _old_content(self, commit: str | None, path: str, *, known: bool) -> bytes | None:
        """A file before the change; None when that cannot be told.

        With `--changed` alone nobody says since when: the last commit counts, unless it holds the very
        content of now, as it does where a change is committed already.
        """
        if self.git is None or commit is None:
            return None
        content = self.git.content(commit, f"{self.prefix}{path}")
        now = self.config.root / path
        if not known and content is not None and now.is_file() and now.read_bytes() == content:
            return None
        return content


def open_repository(
    config: Path | None,
    environment: Environment,
    key: Callable[[], Key] | None = None,
    *,
    with_stacks: bool = True,
) -> Repository:
    """Read the configuration and find the stacks. Every mistake in either is raised at once.

    `key` is asked for only when the store is read or written. Without stacks, mistakes in them do not matter.
    """
    loaded = config_read.load(config if config is not None else config_read.find(Path.cwd()))
    code = Code(loaded.root)

    def backend(module: str) -> CodeBackend | None:
        return code_backend(code, module)

    files, read_values = FolderTree(loaded.root), variables_reader(loaded.root)
    stacks = (
        discover(loaded, files=files, read_values=read_values, code_backend=backend) if with_stacks else ()
    )
    return Repository(
        config=loaded,
        environment=environment,
        code=code,
        stacks=stacks,
        store=RunStore(
            open_blobs(loaded.store, loaded.root, environment.variables),
            key or (lambda: load_or_create_key(environment).key),
            spool=environment.home / SPOOL,
        ),
    )
