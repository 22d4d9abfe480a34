"""Work directories: private, outside the source, with exactly the files that a stack reads, in its own
layout.

Only Terraform's `.terraform` is kept from one run to the next, and no state is ever stored here.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.hcl.eval.worktree import LinkBoundary
from holdfast.kernel.errors import Failed
from holdfast.system import files
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.terraform.argv import UNSAVED_FILE

_KEPT = ".terraform"
_SKIPPED_FOLDERS = frozenset({".git", ".terraform"})
_STATES = (".tfstate", ".tfstate.backup")
_MAX_SLOTS = 64
WORKSPACE_FILE = ".terraform/environment"
"""Where Terraform remembers the last workspace; a stack names its own."""
WORK_FILE = "work.json"
"""Written whenever a run takes the directory: its time is that of the last use."""
IN_USE_FILE = "in-use"
"""Locked while a run holds the directory; never removed, so that the lock stays valid."""

_BUNDLES = "change.sealed"
"""A folder with this file is a bundle: made from the tree, and not part of it."""


class WorkDirectory(Struct, frozen=True, kw_only=True):
    folder: Path
    module_path: str
    tree: Path
    module: Path
    """Where Terraform runs."""

    @classmethod
    def at(cls, folder: Path, module_path: str) -> WorkDirectory:
        tree = folder / "tree"
        return cls(folder=folder, module_path=module_path, tree=tree, module=tree / module_path)

    @property
    def lock_file(self) -> Path:
        return self.module / LOCK_FILE

    def path_of(self, file: str) -> str:
        """The path of a repository file, relative to the module where Terraform runs."""
        return os.path.relpath(self.tree / file, self.module)

    def private_file(self, name: str, text: str) -> None:
        files.write(self.module / name, text, durable=False)


@contextlib.contextmanager
def hold_workdir(home: Path, root: Path, stack: str, module: str) -> Iterator[WorkDirectory]:
    """A directory for this stack that no other run uses meanwhile."""
    base = _base(home, root, stack)
    for slot in range(_MAX_SLOTS):
        folder = files.private_folder(base / str(slot))
        with files.hold_lock(folder / IN_USE_FILE, wait=False) as ours:
            if not ours:
                continue
            about = {"root": str(root), "stack": stack, "module": module}
            _note_use(folder / WORK_FILE, json.dumps(about))
            work = WorkDirectory.at(folder, module)
            bring_back(work.tree)
            yield work
            return
    raise Failed(
        "HF-WORK-1",
        f"{stack}: {_MAX_SLOTS} runs already use its work directories",
        hint="Wait until one of them has finished, then try again.",
    )


def bring_back(tree: Path) -> None:
    """A tree that is in the compartment of a run that was killed: see `compartments`."""
    if not tree.is_symlink():
        return
    inside = tree.readlink()
    tree.unlink()
    with contextlib.suppress(FileNotFoundError):
        inside.rename(tree)
    with contextlib.suppress(OSError):
        inside.parent.rmdir()


def _base(home: Path, root: Path, stack: str) -> Path:
    return _repository_folder(home, root) / quote(stack, safe="")


@functools.lru_cache(maxsize=8)
def _repository_folder(home: Path, root: Path) -> Path:
    return home / "work" / hashlib.sha256(str(root).encode()).hexdigest()[:12]


@contextlib.contextmanager
def hold_unsaved_states(home: Path, root: Path, stack: str) -> Iterator[tuple[Path, ...]]:
    """The `errored.tfstate` files of killed runs, locked. Those of running runs are not included."""
    with contextlib.ExitStack() as held:
        unsaved: list[Path] = []
        base = _base(home, root, stack)
        for slot in sorted(base.iterdir()) if base.is_dir() else ():
            about = files.content_of(slot / WORK_FILE)
            if about is None:
                # Removed by a collection, which keeps directories with such a state.
                continue
            state = slot / "tree" / str(json.loads(about).get("module", ".")) / UNSAVED_FILE
            if not state.is_file():
                continue
            ours: bool = held.enter_context(files.hold_lock(slot / IN_USE_FILE, wait=False))
            if ours and state.is_file():
                unsaved.append(state)
        yield tuple(unsaved)


def _note_use(file: Path, about: str) -> None:
    if files.content_of(file) == about.encode():
        os.utime(file)
    else:
        files.write(file, about, durable=False)


class CopiedSources(Struct, frozen=True, kw_only=True):
    digest: str
    """Of every file, with its path."""
    links_out: tuple[str, ...]
    """Links that lead out of the repository: nothing behind them was copied."""


def copy_sources(
    work: WorkDirectory,
    root: Path,
    reached: Iterable[str],
    *,
    everything: bool,
    store: Path,
    state: Path | None = None,
    read_states: frozenset[str] = frozenset(),
    forbidden: ForbiddenFiles | None = None,
) -> CopiedSources:
    """Copy the files that the stack reads, and remove all others.

    `state` is the stack's own state file, if it has one: it is not copied. Neither are `forbidden` files. The
    digest leaves out `read_states`: these change with every apply, and only their outputs are read.
    """
    wanted = dict(_whole_tree(root, store, root / work.module_path)) if everything else {}
    for file in reached:
        source = root / file
        if source.is_file():
            wanted[file] = source
    # Terraform's own folder comes from init: the code cannot say which module or provider is behind a name.
    wanted = {file: source for file, source in wanted.items() if f"/{_KEPT}/" not in f"/{file}".lower()}
    # A file of this name would be taken for a state that Terraform could not save.
    wanted.pop(os.path.normpath(f"{work.module_path}/{UNSAVED_FILE}"), None)
    if state is not None:
        own = {state, state.with_name(f"{state.name}.backup")}
        wanted = {file: source for file, source in wanted.items() if source not in own}
    links_out = _links_out(root, wanted)
    for file in links_out:
        del wanted[file]
    if forbidden is not None:
        wanted = {file: source for file, source in wanted.items() if source.stat() not in forbidden}
    files.private_folder(work.tree)
    files.private_folder(work.module)
    _remove_unwanted(work, wanted)
    digest = hashlib.sha256()
    for file, source in sorted(wanted.items()):
        content = _copy(source, work.tree / file, forbidden)
        if file not in read_states:
            digest.update(f"{len(file)}:{file}".encode(errors="surrogateescape"))
            digest.update(content)
    return CopiedSources(digest=digest.hexdigest(), links_out=links_out)


def _links_out(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths with a link that leads out of the repository.

    Looked at again when they are copied: a link may have been replaced since the code was read.
    """
    top = root.resolve()
    boundary, resolve = LinkBoundary(top), functools.cache(os.path.realpath)

    def leads_out(path: str) -> bool:
        folder, _, name = f"{top}/{path}".rpartition("/")
        resolved = f"{resolve(folder)}/{name}"
        if os.path.islink(resolved):  # noqa: PTH114 - strings, because this runs for every run
            resolved = os.path.realpath(resolved)
        elif resolve(folder) == folder:
            return False
        return not boundary.holds(resolved)

    return tuple(sorted(path for path in paths if leads_out(path)))


def _whole_tree(root: Path, store: Path, module: Path) -> Iterator[tuple[str, Path]]:
    """With the states of other stacks, which it may read; those beside the module are its own.

    The content of a symlinked folder counts as if it were here. A link that leads out is listed itself.
    """
    boundary = LinkBoundary(root.resolve())
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        if _BUNDLES in names:
            folders.clear()
            continue
        folders[:] = [
            name
            for name in folders
            if name not in _SKIPPED_FOLDERS and here / name not in (store, module / "terraform.tfstate.d")
        ]
        for name in names:
            beside = here == module and name.startswith("terraform.tfstate")
            if not beside and (here / name).is_file():
                yield os.path.relpath(here / name, root), here / name
        for name in folders:
            if (here / name).is_symlink():
                yield from _linked_files(here / name, root, boundary)


def _linked_files(link: Path, root: Path, boundary: LinkBoundary) -> Iterator[tuple[str, Path]]:
    target, here = link.resolve(), link.parent.resolve()
    if not boundary.holds(target.as_posix()):
        yield os.path.relpath(link, root), link
    elif target not in (here, *here.parents):
        for path in target.rglob("*"):
            if path.is_file() and not _SKIPPED_FOLDERS.intersection(path.parts):
                yield os.path.relpath(link / path.relative_to(target), root), path


def _remove_unwanted(work: WorkDirectory, wanted: dict[str, Path]) -> None:
    """Remove files of an earlier run, except Terraform's own folder."""
    folders: set[str] = set()
    for path in (*wanted, f"{work.module_path}/{_KEPT}"):
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    _clear(str(work.tree), "", wanted, folders, kept=f"{work.module_path}/{_KEPT}".removeprefix("./"))


def _clear(folder: str, inside: str, wanted: dict[str, Path], folders: set[str], *, kept: str) -> None:
    """One folder of the tree and everything below. Paths are strings, because this runs for every run."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            path = f"{inside}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if path == kept:
                    continue
                _clear(entry.path, f"{path}/", wanted, folders, kept=kept)
                if path not in folders:
                    with contextlib.suppress(OSError):
                        os.rmdir(entry.path)  # noqa: PTH106 - strings, see above
            elif path not in wanted or (entry.is_symlink() and entry.is_dir()):
                os.unlink(entry.path)  # noqa: PTH108 - strings, see above


def _copy(source: Path, target: Path, forbidden: ForbiddenFiles | None) -> bytes:
    """Copy one file and return its digest. An unchanged copy is not written again."""
    with source.open("rb") as opened:
        if forbidden is not None and os.fstat(opened.fileno()) in forbidden:
            # A link that changed meanwhile.
            raise PermissionError(errno.EACCES, "not a file for stacks", str(source))
        content = opened.read()
    executable = os.access(source, os.X_OK)
    mode = 0o700 if executable else 0o600
    before = _stat(target)
    if before is not None and not stat.S_ISREG(before.st_mode):
        shutil.rmtree(target) if stat.S_ISDIR(before.st_mode) else target.unlink()
        before = None
    if before is None or before.st_size != len(content) or target.read_bytes() != content:
        before = None
        files.private_folder(target.parent)
        target.unlink(missing_ok=True)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        except OSError:
            # Half a file on a full disk would take space from other stacks.
            target.unlink()
            raise
    if before is None or stat.S_IMODE(before.st_mode) != mode:
        target.chmod(mode)
    return hashlib.sha256(content).digest() + (b"x" if executable else b"-")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def remove_state_copies(work: WorkDirectory) -> None:
    """Remove the copies of other stacks' states. An `errored.tfstate` stays."""
    for folder, folders, names in os.walk(work.tree):
        folders[:] = [name for name in folders if name != _KEPT]
        for name in names:
            if name.endswith(_STATES) and name != UNSAVED_FILE:
                (Path(folder) / name).unlink()


def remove_files(work: WorkDirectory, names: Iterable[str]) -> None:
    """Remove what must not outlive the run: plans, private settings, secrets that init stored."""
    for name in names:
        (work.module / name).unlink(missing_ok=True)
