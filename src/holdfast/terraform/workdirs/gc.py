"""Garbage collection, of work directories, abandoned scratch folders, old validate results and incomplete
downloads; and the free disk space that a run needs.

A work directory is emptied under its own lock, and its folder with the lock file stays: a run that
waits for the lock finds an empty directory, never a missing one. Sizes of unused work directories are
cached, so that a check costs little on every run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.settings import Work
from holdfast.kernel.errors import Failed
from holdfast.kernel.patterns import pattern
from holdfast.system import clock, files, process_table
from holdfast.terraform.argv import PLAN_FILE, UNSAVED_FILE
from holdfast.terraform.workdirs import scratch
from holdfast.terraform.workdirs.gc_policy import WorkdirUsage, decide, format_size
from holdfast.terraform.workdirs.workdir import IN_USE_FILE, WORK_FILE, bring_back

_STAMP = ".cleaned"
_SIZES = ".sizes.json"
_REMOVED = ".removed-"
_INTERVAL = 600.0
_QUICK_SECONDS = 0.15
MIN_FREE = 200_000_000
"""No run starts with less free disk space than this."""
_UNUSED_AFTER = 3600.0
_VALIDATED_MAX_AGE = 30 * 86400.0
_INCOMPLETE_MAX_AGE = 86400.0
_INCOMPLETE = (
    ("providers", pattern(r"\.damaged-.+|\.[0-9a-f]{64}\.[0-9a-f]{12}")),
    ("tools", pattern(r"\.new-[0-9a-f]{12}")),
)


class GcItem(Struct, frozen=True, kw_only=True):
    path: Path
    size: int
    why: str


class GcResult(Struct, frozen=True, kw_only=True):
    removed: tuple[GcItem, ...]
    kept: tuple[GcItem, ...]
    repositories: tuple[tuple[str, int], ...]
    """The size of each repository's work directories now."""

    @property
    def freed(self) -> int:
        return sum(item.size for item in self.removed)

    @property
    def used(self) -> int:
        return sum(item.size for item in self.kept)


class GarbageCollector(Struct, kw_only=True):
    home: Path
    limits: Work
    now: float = field(default_factory=lambda: clock.now().timestamp())
    """Seconds since the epoch."""
    out_of_time: Callable[[], bool] = lambda: False
    """Checked before each step: when true, the rest is left to the next run."""
    by_repository: bool = True
    """Also report the size per repository."""
    _sizes: dict[str, list[int]] = field(default_factory=dict)

    def due(self) -> bool:
        """Whether the last one was a while ago; true at most once in ten minutes, for parallel runs too."""
        if not (self.home / "work").is_dir():
            return False
        stamp = self.home / "work" / _STAMP
        with contextlib.suppress(FileNotFoundError):
            if 0 <= self.now - stamp.stat().st_mtime < _INTERVAL:
                return False
        stamp.touch(mode=files.PRIVATE_FILE)
        return True

    def collect(self, *, everything: bool = False) -> GcResult:
        removed = [*self._scratch(), *self._validated(everything=everything), *self._incomplete()]
        self._read_sizes()
        entries = {entry.path: entry for entry in self._workdirs()}
        while True:
            decision = decide(entries.values(), self.limits, now=self.now, everything=everything)
            changed = False
            for entry, why in decision.remove:
                if self.out_of_time():
                    break
                kept = self._remove(entry)
                if kept is None:
                    removed.append(GcItem(path=entry.path, size=entry.size, why=why))
                    del entries[entry.path]
                else:
                    entries[entry.path] = kept
                    changed = True
            if not changed or self.out_of_time():
                break
        self._write_sizes(entries)
        decision = decide(entries.values(), self.limits, now=self.now, everything=everything)
        return GcResult(
            removed=tuple(removed),
            kept=tuple(
                GcItem(path=entry.path, size=entry.size, why=why)
                for entry, why in (*decision.keep, *decision.remove)
            ),
            repositories=_by_repository(entries.values()) if self.by_repository else (),
        )

    def _workdirs(self) -> Iterator[WorkdirUsage]:
        """Every work directory that is not empty, measured while there is time, oldest first."""
        slots: list[tuple[int, Path]] = []
        for slot in (self.home / "work").glob("*/*/*"):
            if slot.is_dir() and not slot.is_symlink():
                with contextlib.suppress(FileNotFoundError):
                    about = slot / WORK_FILE
                    slots.append(((about if about.exists() else slot).stat().st_mtime_ns, slot))
        for used, slot in sorted(slots):
            entry = WorkdirUsage(path=slot, used=used / 1e9)
            known = self._sizes.get(self._key(slot))
            if known is not None and known[0] == used:
                yield replace(entry, size=known[1])
            elif self.out_of_time():
                yield entry
            elif any(file.name != IN_USE_FILE for file in slot.iterdir()):
                entry = _measure(entry)
                # The plan of a running run, or of a killed one: the lock tells.
                yield replace(entry, in_use=entry.unfinished and _in_use(slot))

    def _remove(self, entry: WorkdirUsage) -> WorkdirUsage | None:
        """None when it was removed, else the entry with the reason why it is kept."""
        try:
            return self._remove_unless_needed(entry)
        except OSError as error:
            return replace(entry, error=error.strerror or str(error))

    @staticmethod
    def _remove_unless_needed(entry: WorkdirUsage) -> WorkdirUsage | None:
        slot = entry.path
        with files.hold_lock(slot / IN_USE_FILE, wait=False) as ours:
            # After a kill, the tree may still be in the compartment of its run.
            tree = (slot / "tree").resolve()
            if not ours or process_table.any_process_in(slot) or process_table.any_process_in(tree):
                return replace(entry, in_use=True)
            bring_back(slot / "tree")
            now = _measure(entry)
            if now.unsaved or (now.unfinished and not entry.unfinished):
                return now
            # The files that mark the tree as complete go before the tree, and the tree in one rename.
            for file in list(slot.iterdir()):
                if file.name != IN_USE_FILE and (file.is_symlink() or not file.is_dir()):
                    file.unlink()
            if (slot / "tree").exists():
                (slot / "tree").rename(slot / f"{_REMOVED}{clock.random_token(6)}")
            for folder in slot.iterdir():
                if folder.name != IN_USE_FILE:
                    _remove_tree(folder)
        return None

    def _scratch(self) -> Iterator[GcItem]:
        old = self.now - self.limits.max_age
        for place in scratch.temporary_roots():
            for folder, size in scratch.remove_abandoned(place, older_than=old):
                yield GcItem(path=folder, size=size, why="its command was killed")

    def _validated(self, *, everything: bool) -> Iterator[GcItem]:
        """Results of `validate`, which are repeated after a month."""
        count = size = 0
        folder = self.home / "validated"
        for mark in folder.iterdir() if folder.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):
                about = mark.stat()
                if everything or self.now - about.st_mtime > _VALIDATED_MAX_AGE:
                    mark.unlink()
                    count, size = count + 1, size + about.st_size
        if count:
            yield GcItem(path=folder, size=size, why=f"{count} old validate results")

    def _incomplete(self) -> Iterator[GcItem]:
        """Incomplete downloads of killed commands among providers and tools, and damaged entries."""
        for folder, name in _INCOMPLETE:
            for entry in sorted((self.home / folder).glob(".*")):
                with contextlib.suppress(OSError):
                    old = self.now - entry.stat().st_mtime > _INCOMPLETE_MAX_AGE
                    if old and entry.is_dir() and name.fullmatch(entry.name):
                        size = _walk(entry)[0]
                        _remove_tree(entry)
                        yield GcItem(path=entry, size=size, why="damaged or incomplete")

    def _key(self, slot: Path) -> str:
        return slot.relative_to(self.home / "work").as_posix()

    def _read_sizes(self) -> None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            known = json.loads((self.home / "work" / _SIZES).read_bytes())
            self._sizes = {
                str(key): [int(used), int(size)] for key, (used, size) in dict(known).items() if size
            }

    def _write_sizes(self, entries: dict[Path, WorkdirUsage]) -> None:
        """Only of unused directories without anything that a person may remove by hand."""
        known: dict[str, list[int]] = {}
        for path, entry in entries.items():
            with contextlib.suppress(OSError):
                used = (path / WORK_FILE).stat().st_mtime_ns
                plain = not (entry.unsaved or entry.unfinished or entry.in_use or entry.error)
                if (
                    plain
                    and entry.size
                    and used / 1e9 == entry.used
                    and self.now - entry.used > _UNUSED_AFTER
                ):
                    known[self._key(path)] = [used, entry.size]
        if known != self._sizes:
            files.write(self.home / "work" / _SIZES, json.dumps(known), durable=False)


def _in_use(slot: Path) -> bool:
    with files.hold_lock(slot / IN_USE_FILE, wait=False) as ours:
        return not ours


def _measure(entry: WorkdirUsage) -> WorkdirUsage:
    size, names = _walk(entry.path)
    tree = entry.path / "tree"
    if tree.is_symlink():
        inside, more = _walk(tree.resolve())
        size, names = size + inside, names | more
    return replace(entry, size=size, unsaved=UNSAVED_FILE in names, unfinished=PLAN_FILE in names)


def _walk(folder: Path) -> tuple[int, set[str]]:
    """The size that its removal frees (a file with other hard links frees nothing), and the names in it."""
    size, names = 0, set()
    for place, _, files_here in os.walk(folder):
        for name in files_here:
            with contextlib.suppress(FileNotFoundError):
                about = os.lstat(os.path.join(place, name))  # noqa: PTH118 - called for every file there is
                size += about.st_size if about.st_nlink == 1 else 0
        names.update(files_here)
    return size, names


def _remove_tree(folder: Path) -> None:
    """Also with read-only folders inside, as some modules have."""
    with contextlib.suppress(FileNotFoundError):
        try:
            shutil.rmtree(folder)
        except PermissionError:
            for place, _, _ in os.walk(folder):
                Path(place).chmod(files.PRIVATE_FOLDER)
            shutil.rmtree(folder)


def _by_repository(entries: Iterable[WorkdirUsage]) -> tuple[tuple[str, int], ...]:
    """Largest first."""
    sizes: dict[str, int] = {}
    for entry in entries:
        name = _root_of(entry.path)
        sizes[name] = sizes.get(name, 0) + entry.size
    return tuple(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))


def _root_of(slot: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((slot / WORK_FILE).read_bytes())["root"])
    return slot.parent.parent.name


def collect_garbage_quickly(home: Path, limits: Work) -> GcResult | None:
    """At the end of a run: at most once in ten minutes, for a moment only; it never fails the run."""
    end = clock.monotonic() + _QUICK_SECONDS
    collector = GarbageCollector(
        home=home, limits=limits, out_of_time=lambda: clock.monotonic() > end, by_repository=False
    )
    try:
        return collector.collect() if collector.due() else None
    except OSError:
        return None


def collect_garbage(home: Path, limits: Work, *, everything: bool = False) -> GcResult:
    return GarbageCollector(home=home, limits=limits).collect(everything=everything)


# Free disk space


def free_bytes(path: Path) -> int | None:
    """What this user may still write where the path is or would be; None where the system does not say."""
    place = next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize if about.f_blocks else None


def too_little_space(
    places: Iterable[Path], *, free: Callable[[Path], int | None] = free_bytes
) -> Failed | None:
    """The error for the fullest disk, if a run could not finish there and save a state."""
    disks = [(known, path) for path in places if (known := free(path)) is not None]
    least, path = min(disks, default=(MIN_FREE, Path("/")))
    if least >= MIN_FREE:
        return None
    return Failed(
        "HF-WORK-4",
        f"only {format_size(least)} free for {path}; a run needs {format_size(MIN_FREE)}",
        hint="Nothing was run. Free disk space: `holdfast clean --all` removes unused work directories.",
    )
