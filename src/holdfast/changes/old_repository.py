"""The repository before a change: its configuration, code and stacks, from old versions of files."""

from __future__ import annotations

import functools
import os
import posixpath
from collections.abc import Mapping
from pathlib import Path

from holdfast.config import read as config_read
from holdfast.config.placeholders import parse
from holdfast.config.settings import Config
from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import LARGEST, Code
from holdfast.hcl.eval.old_tree import OldFiles, OldTree
from holdfast.hcl.eval.worktree import PathKind
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.stacks.backend import CodeBackend, code_backend
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import OldListing
from holdfast.stacks.pattern import compile_pattern
from holdfast.stacks.reads.remote_states import called_folders, derived_dependencies, stack_backend
from holdfast.stacks.scope import parse_values, variables_reader
from holdfast.stacks.stack import Stack, name_from_path
from holdfast.system.git import Git, OldVersion


class OldRepository:
    def __init__(
        self,
        config: Config,
        code: Code,
        old: OldFiles,
        unreadable: frozenset[str] = frozenset(),
        *,
        changed: frozenset[str] = frozenset(),
    ) -> None:
        """`config` and `code` are the current ones: unchanged folders are not read again.

        `changed` are all paths that differ, also those outside the root.
        """
        self.changed = changed
        self._now = config
        self._code_now = code
        self.old = old
        self.tree = OldTree(config.root, old, unreadable, code.tree.forbidden)
        self.code = Code(self.tree)
        self.changed_folders = frozenset(
            posixpath.dirname(path) or "." for path in (*old, *self.tree.unreadable)
        )

    @functools.cached_property
    def config(self) -> Config:
        """Raises HoldfastError if it cannot be read or is invalid."""
        name = self._now.file.name
        content = self.code.content(name)
        if content is not None and content == self._code_now.content(name) and not self._led_outside(name):
            return self._now
        if self._led_outside(name):
            content = None
        if content is None:
            missing = self.tree.kind(name) is PathKind.MISSING and name not in self.tree.unreadable
            what = (
                "did not exist before the change" if missing else "cannot be read as it was before the change"
            )
            raise UsageError("HF-CONF-1", f"{name} {what}")
        decoded = config_read.decode(content, file=name)
        return config_read.parse(decoded, file=name, root=self._now.root, path=self._now.file)

    def _led_outside(self, path: str) -> bool:
        """Whether a link leads to a changed file outside the root, whose old version is not read."""
        real = os.path.relpath(os.path.realpath(self._now.root / path), self.tree.root)
        return self.tree.leads_outside(path) and real in self.changed

    @functools.cached_property
    def stacks(self) -> Mapping[str, Stack] | None:
        """By name; None if the old configuration cannot be read or is invalid."""
        try:
            stacks = discover(
                self.config,
                files=OldListing(self.tree),
                read_values=self._values,
                code_backend=self.code_backend,
                read_content=self.code.content_or_problem,
                derive=functools.partial(derived_dependencies, self._code_of),
            )
        except HoldfastError:
            return None
        if any(stack.is_unknown for stack in stacks):
            return None
        return {stack.name: stack for stack in stacks}

    def code_backend(self, stack: Stack) -> CodeBackend | None:
        changed = (self.tree.real(stack.module) or stack.module) in self.changed_folders
        backend = code_backend(self.code if changed else self._code_now, stack.module)
        computed = backend is not None and backend.computed
        return stack_backend(self._code_of(stack), stack) if computed else backend

    def _code_of(self, stack: Stack) -> Code:
        """The current code where nothing that the stack's values come from changed."""
        folders, computed = called_folders(self._code_now, stack.module)
        changed = not self.changed_folders.isdisjoint(self.tree.real(folder) or folder for folder in folders)
        files = any(path in self.old or self.tree.real(path) in self.old for path in stack.variables_files)
        return self.code if computed or changed or files else self._code_now

    def _values(self, path: str) -> Mapping[str, object]:
        if path not in self.old and self.tree.real(path) not in self.old:
            return variables_reader(self._code_now.tree)(path)
        return parse_values(self.code.content(path) or b"", path)

    def stack_of(self, path: str) -> Stack | None:
        """The stack that a removed file declared."""
        folder = posixpath.dirname(path) or "."
        for stack in (self.stacks or {}).values():
            if stack.own_file == path or (stack.kind is RuleKind.FOLDER and stack.module == folder):
                return stack
        return None if self.stacks is not None else self._by_pattern(path)

    def _by_pattern(self, path: str) -> Stack | None:
        """The removed stack is unknown, but its removal must still be reported."""
        for rule in self._now.stacks:
            if rule.kind is not RuleKind.VARIABLES or not rule.pattern:
                continue
            values = compile_pattern(rule.pattern).match(path)
            if values is not None:
                name = parse(rule.name or "{unknown}")
                known = values.keys() >= set(name.names)
                return Stack(
                    name=name.fill(values.__getitem__) if known else name_from_path(path),
                    kind=rule.kind,
                    place=rule.place,
                    module=".",
                    variables_files=(path,),
                )
        return None


def old_files(
    git: Git, root: Path, versions: Mapping[str, OldVersion | None]
) -> tuple[dict[str, bytes | None], frozenset[str]]:
    """The old content of changed paths, and the paths whose old version is not available.

    `versions` are relative to the root. A link has the content of the file that it led to.
    """
    ids = dict.fromkeys(version.id for version in versions.values() if version and not version.is_submodule)
    contents = {blob.id: blob.content for blob in git.blobs(tuple(ids), largest=LARGEST)}
    old: dict[str, bytes | None] = {}
    links: dict[str, bytes] = {}
    unreadable: set[str] = set()
    for path, version in versions.items():
        content = contents.get(version.id) if version is not None else None
        if version is not None and content is None and not version.is_submodule:
            # A partial clone fetches it now.
            content = git.blob(version.id)
        if version is not None and content is None:
            unreadable.add(path)
        elif version is not None and version.is_link and content is not None:
            links[path] = content
        else:
            old[path] = content
    for path, target in links.items():
        content = _linked(root, path, target, old)
        if content is None:
            unreadable.add(path)
        else:
            old[path] = content
    return old, frozenset(unreadable)


def _linked(root: Path, path: str, target: bytes, old: OldFiles) -> bytes | None:
    """The content of the file that a link led to; None if it led to a folder, elsewhere or to a link."""
    place = posixpath.normpath(
        posixpath.join(posixpath.dirname(path), target.decode(errors="surrogateescape"))
    )
    if place.startswith(("/", "../")):
        return None
    if place in old:
        return old[place]
    file = root / place
    return file.read_bytes() if file.is_file() and file.stat().st_size <= LARGEST else None
