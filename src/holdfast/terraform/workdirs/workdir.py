"""Work directories: private, outside the source, holding exactly what a stack reads, in its own layout.

Nothing but Terraform's own `.terraform` is kept from one run to the next, and no state ever lies here.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.kernel.errors import Failed
from holdfast.system import files
from holdfast.terraform.argv import UNSAVED_FILE

_KEPT = ".terraform"
_SKIPPED_FOLDERS = frozenset({".git", ".terraform"})
_STATES = (".tfstate", ".tfstate.backup")
_MOST_SLOTS = 64
_MOST_MADE = 500_000_000
WORKSPACE_FILE = ".terraform/environment"
"""Where Terraform remembers the workspace it last worked in: a stack says itself which one it has."""
WORK_FILE = "work.json"
"""Written anew whenever a run takes the directory: its time is that of the last use."""
IN_USE_FILE = "in-use"
"""Locked as long as a run holds the directory; never removed, so that its lock always means the same."""

FileStamps = frozenset[tuple[str, int, int]]
"""Files with their size and the time of their last change."""
_BUNDLES = "change.sealed"
"""A folder with this file holds saved plans: made from the tree, and no part of it."""


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
        """A file of the repository as Terraform, running in the module, must name it."""
        return os.path.relpath(self.tree / file, self.module)

    def private_file(self, name: str, text: str) -> None:
        files.write(self.module / name, text, durable=False)


@contextlib.contextmanager
def hold_workdir(home: Path, root: Path, stack: str, module: str) -> Iterator[WorkDirectory]:
    """A directory for this stack that nobody else uses as long as we hold it."""
    base = _base(home, root, stack)
    for slot in range(_MOST_SLOTS):
        folder = files.private_folder(base / str(slot))
        with files.locked(folder / IN_USE_FILE, wait=False) as ours:
            if not ours:
                continue
            about = {"root": str(root), "stack": stack, "module": module}
            _note_use(folder / WORK_FILE, json.dumps(about))
            yield WorkDirectory.at(folder, module)
            return
    raise Failed(
        "HF-WORK-1",
        f"{stack}: {_MOST_SLOTS} runs are at work on it already",
        hint="Wait for some of them to end.",
    )


def _base(home: Path, root: Path, stack: str) -> Path:
    repository = hashlib.sha256(str(root).encode()).hexdigest()[:12]
    return home / "work" / repository / quote(stack, safe="")


@contextlib.contextmanager
def hold_unsaved_states(home: Path, root: Path, stack: str) -> Iterator[tuple[Path, ...]]:
    """States that Terraform could not save and that a killed run left here. A run at work keeps its own."""
    with contextlib.ExitStack() as held:
        found: list[Path] = []
        for file in sorted(_base(home, root, stack).glob(f"*/{WORK_FILE}")):
            about = files.content_of(file)
            if about is None:
                # Cleaned this moment: only what holds no such state is.
                continue
            module = str(json.loads(about).get("module", "."))
            left = file.parent / "tree" / module / UNSAVED_FILE
            if not left.is_file():
                continue
            ours: bool = held.enter_context(files.locked(file.with_name(IN_USE_FILE), wait=False))
            if ours and left.is_file():
                found.append(left)
        yield tuple(found)


def _note_use(file: Path, about: str) -> None:
    if files.content_of(file) == about.encode():
        os.utime(file)
    else:
        files.write(file, about, durable=False)


def copy_sources(
    work: WorkDirectory,
    root: Path,
    reached: Iterable[str],
    *,
    everything: bool,
    store: Path,
    state: Path | None = None,
) -> str:
    """Copy what the stack reads, take away what it does not, and give a digest of all of it.

    `state` is the stack's own, where that is a file: it stays where it is.
    """
    wanted = dict(_whole_tree(root, store, root / work.module_path)) if everything else {}
    for file in reached:
        source = root / file
        if source.is_file():
            wanted[file] = source
    if state is not None:
        own = {state, state.with_name(f"{state.name}.backup")}
        wanted = {file: source for file, source in wanted.items() if source not in own}
    files.private_folder(work.tree)
    files.private_folder(work.module)
    _take_away(work, wanted)
    digest = hashlib.sha256()
    for file, source in sorted(wanted.items()):
        digest.update(f"{len(file)}:{file}".encode(errors="surrogateescape"))
        digest.update(_copy(source, work.tree / file))
    return digest.hexdigest()


def _whole_tree(root: Path, store: Path, module: Path) -> Iterator[tuple[str, Path]]:
    """Other stacks' states come too, for one that reads them; what lies beside the module is its own."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        if _BUNDLES in names:
            folders.clear()
            continue
        folders[:] = [
            name
            for name in folders
            if name not in _SKIPPED_FOLDERS
            and here / name not in (store, module / "terraform.tfstate.d")
            and not (here / name).is_symlink()
        ]
        for name in names:
            beside = here == module and name.startswith("terraform.tfstate")
            if beside or not (here / name).is_file():
                continue
            yield os.path.relpath(here / name, root), here / name
    # Folders that are links: what they point to counts as if it stood here.
    for folder, folders, _ in os.walk(root):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and here / name != store]
        for name in links:
            target = (here / name).resolve()
            if target.is_dir() and target not in (here.resolve(), *here.resolve().parents):
                for path in target.rglob("*"):
                    if path.is_file() and not _SKIPPED_FOLDERS.intersection(path.parts):
                        yield os.path.relpath(here / name / path.relative_to(target), root), path


def _take_away(work: WorkDirectory, wanted: dict[str, Path]) -> None:
    """Everything of an earlier run that this one does not want, but Terraform's own folder."""
    folders = {str(parent) for file in wanted for parent in Path(file).parents}
    folders |= {work.module_path, *(str(parent) for parent in Path(work.module_path).parents)}
    _clear(str(work.tree), "", wanted, folders, kept=f"{work.module_path}/{_KEPT}".removeprefix("./"))


def _clear(folder: str, inside: str, wanted: dict[str, Path], folders: set[str], *, kept: str) -> None:
    """One folder of the tree and what is below it; paths are text, because this is done for every run."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            path = f"{inside}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if path == kept:
                    continue
                _clear(entry.path, f"{path}/", wanted, folders, kept=kept)
                if path not in folders:
                    with contextlib.suppress(OSError):
                        os.rmdir(entry.path)  # noqa: PTH106 - text, see above
            elif path not in wanted or (entry.is_symlink() and entry.is_dir()):
                os.unlink(entry.path)  # noqa: PTH108 - text, see above


def _copy(source: Path, target: Path) -> bytes:
    """Copy one file and give the digest of what was copied. An unchanged copy is left as it is."""
    content = source.read_bytes()
    executable = os.access(source, os.X_OK)
    mode = 0o700 if executable else 0o600
    if target.is_symlink() or target.is_dir():
        target.unlink() if target.is_symlink() else shutil.rmtree(target)
    if not target.is_file() or target.stat().st_size != len(content) or target.read_bytes() != content:
        files.private_folder(target.parent)
        target.unlink(missing_ok=True)
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        except OSError:
            # Half of a file on a full disk would take the room from the other stacks.
            target.unlink()
            raise
    target.chmod(mode)
    return hashlib.sha256(content).digest() + (b"x" if executable else b"-")


def archive_new_files(work: WorkDirectory, before: FileStamps) -> bytes | None:
    """What a plan made or changed beside the code (an archive, say), as a tar file, for the apply."""
    made = sorted(name for name, _, _ in list_files(work) - before)
    if not made:
        return None
    size = sum((work.tree / name).stat().st_size for name in made)
    if size > _MOST_MADE:
        raise Failed(
            "HF-WORK-2",
            f"the plan made {size} bytes of files beside the code; a bundle takes {_MOST_MADE} at most",
            hint="Build large artefacts before the plan, and name them by path.",
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in made:
            archive.add(work.tree / name, arcname=name, recursive=False)
    return buffer.getvalue()


def restore_files(work: WorkDirectory, archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as made:
        made.extractall(work.tree, filter="data")


def list_files(work: WorkDirectory) -> FileStamps:
    """Every file that is there now, but Terraform's own and ours."""
    found: set[tuple[str, int, int]] = set()
    for folder, folders, names in os.walk(work.tree):
        here = Path(folder)
        folders[:] = [name for name in folders if name != _KEPT]
        for name in names:
            ours = name.startswith(("holdfast.", "zz_holdfast", ".terraform")) or name == UNSAVED_FILE
            if not ours and (here / name).is_file():
                about = (here / name).stat()
                found.add((os.path.relpath(here / name, work.tree), about.st_size, about.st_mtime_ns))
    return frozenset(found)


def remove_state_copies(work: WorkDirectory) -> None:
    """Copies of other stacks' states were there to be read. A state that could not be saved stays."""
    for folder, folders, names in os.walk(work.tree):
        folders[:] = [name for name in folders if name != _KEPT]
        for name in names:
            if name.endswith(_STATES) and name != UNSAVED_FILE:
                (Path(folder) / name).unlink()


def remove_files(work: WorkDirectory, names: Iterable[str]) -> None:
    """Take away what must not outlive the run: plans, private settings, what init remembers of a secret."""
    for name in names:
        (work.module / name).unlink(missing_ok=True)
