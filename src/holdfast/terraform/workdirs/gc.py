"""Taking away what old runs left: work directories, dead scratch folders, old marks, leftovers of the mirror.

A work directory goes under its own lock, and its folder with the lock file stays: a run that waits at the
door finds an empty room, never a missing one. Sizes of work directories that rest are remembered, so that
looking costs little on every run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.settings import Work
from holdfast.system import clock, files, process_table
from holdfast.terraform.argv import PLAN_FILE, UNSAVED_FILE
from holdfast.terraform.workdirs import scratch
from holdfast.terraform.workdirs.gc_policy import WorkdirUsage, decide
from holdfast.terraform.workdirs.workdir import IN_USE_FILE, WORK_FILE

_STAMP = ".cleaned"
_SIZES = ".sizes.json"
_GONE = ".gone-"
_BETWEEN = 60.0
_MOMENT = 0.15
_RESTS = 3600.0
_MARKS_LAST = 30 * 86400.0
_LEFTOVERS_LAST = 86400.0
_LEFTOVERS = (
    ("providers", re.compile(r"\.damaged-.+|\.[0-9a-f]{64}\.[0-9a-f]{12}")),
    ("tools", re.compile(r"\.new-[0-9a-f]{12}")),
)


class GcItem(Struct, frozen=True, kw_only=True):
    path: Path
    size: int
    why: str


class GcResult(Struct, frozen=True, kw_only=True):
    removed: tuple[GcItem, ...]
    kept: tuple[GcItem, ...]
    repositories: tuple[tuple[str, int], ...]
    """What the work directories of each repository hold now."""

    @property
    def freed(self) -> int:
        return sum(item.size for item in self.removed)

    @property
    def used(self) -> int:
        return sum(item.size for item in self.kept)


class GarbageCollector(Struct, kw_only=True):
    home: Path
    temporary: tuple[Path, ...]
    limits: Work
    now: float
    """Seconds since the epoch."""
    hurry: Callable[[], bool] = lambda: False
    """Asked before each step: a run stops here and leaves the rest to the next one."""
    thorough: bool = True
    """Also say what belongs to which repository."""
    _sizes: dict[str, list[int]] = field(default_factory=dict)

    def due(self) -> bool:
        """Whether the last look was a while ago. Says so at most once a minute, also to runs side by side."""
        if not (self.home / "work").is_dir():
            return False
        stamp = self.home / "work" / _STAMP
        with contextlib.suppress(FileNotFoundError):
            if 0 <= self.now - stamp.stat().st_mtime < _BETWEEN:
                return False
        stamp.touch(mode=files.PRIVATE_FILE)
        return True

    def clean(self, *, everything: bool = False) -> GcResult:
        removed = [*self._scratch(), *self._marks(everything=everything), *self._leftovers()]
        self._read_sizes()
        entries = {entry.path: entry for entry in self._look()}
        while True:
            decision = decide(entries.values(), self.limits, now=self.now, everything=everything)
            learnt = False
            for verdict in decision.remove:
                if self.hurry():
                    break
                path = verdict.entry.path
                met = self._remove(verdict.entry)
                if met is None:
                    removed.append(GcItem(path=path, size=verdict.entry.size, why=verdict.why))
                    del entries[path]
                else:
                    entries[path] = met
                    learnt = True
            if not learnt or self.hurry():
                break
        self._write_sizes(entries)
        decision = decide(entries.values(), self.limits, now=self.now, everything=everything)
        return GcResult(
            removed=tuple(removed),
            kept=tuple(
                GcItem(path=one.entry.path, size=one.entry.size, why=one.why)
                for one in (*decision.keep, *decision.remove)
            ),
            repositories=_by_repository(entries.values()) if self.thorough else (),
        )

    def _look(self) -> Iterator[WorkdirUsage]:
        """Every work directory that holds something, measured as far as there is time, the oldest first."""
        found: list[tuple[int, Path]] = []
        for slot in (self.home / "work").glob("*/*/*"):
            if slot.is_dir() and not slot.is_symlink():
                with contextlib.suppress(FileNotFoundError):
                    about = slot / WORK_FILE
                    found.append(((about if about.exists() else slot).stat().st_mtime_ns, slot))
        for used, slot in sorted(found):
            entry = WorkdirUsage(path=slot, used=used / 1e9)
            known = self._sizes.get(self._key(slot))
            if known is not None and known[0] == used:
                yield replace(entry, size=known[1])
            elif self.hurry():
                yield entry
            elif any(one.name != IN_USE_FILE for one in slot.iterdir()):
                entry = _measured(entry)
                # The plan of a run that is at work, or of one that was killed: the lock knows.
                yield replace(entry, in_use=entry.unfinished and _in_use(slot))

    def _remove(self, entry: WorkdirUsage) -> WorkdirUsage | None:
        """None when it is gone, else the entry with the reason why it must stay."""
        try:
            return self._remove_unless_needed(entry)
        except OSError as error:
            return replace(entry, resists=error.strerror or str(error))

    @staticmethod
    def _remove_unless_needed(entry: WorkdirUsage) -> WorkdirUsage | None:
        slot = entry.path
        with files.locked(slot / IN_USE_FILE, wait=False) as ours:
            if not ours or process_table.any_process_in(slot):
                return replace(entry, in_use=True)
            now = _measured(entry)
            if now.unsaved or (now.unfinished and not entry.unfinished):
                return now
            # What says that the tree is complete goes before the tree, and the tree at once.
            for one in list(slot.iterdir()):
                if one.name != IN_USE_FILE and (one.is_symlink() or not one.is_dir()):
                    one.unlink()
            if (slot / "tree").exists():
                (slot / "tree").rename(slot / f"{_GONE}{clock.random_token(6)}")
            for one in slot.iterdir():
                if one.name != IN_USE_FILE:
                    _remove_tree(one)
        return None

    def _scratch(self) -> Iterator[GcItem]:
        old = self.now - self.limits.max_age
        for place in self.temporary:
            for folder, size in scratch.remove_abandoned(place, older_than=old):
                yield GcItem(path=folder, size=size, why="its command was killed")

    def _marks(self, *, everything: bool) -> Iterator[GcItem]:
        """Modules that were found valid: asked again after a month."""
        count = size = 0
        room = self.home / "validated"
        for mark in room.iterdir() if room.is_dir() else ():
            with contextlib.suppress(FileNotFoundError):
                about = mark.stat()
                if everything or self.now - about.st_mtime > _MARKS_LAST:
                    mark.unlink()
                    count, size = count + 1, size + about.st_size
        if count:
            yield GcItem(path=room, size=size, why=f"{count} old answers of validate")

    def _leftovers(self) -> Iterator[GcItem]:
        """What killed commands left half-made among providers and tools, and what was found damaged."""
        for room, shape in _LEFTOVERS:
            for entry in sorted((self.home / room).glob(".*")):
                with contextlib.suppress(OSError):
                    old = self.now - entry.stat().st_mtime > _LEFTOVERS_LAST
                    if old and entry.is_dir() and shape.fullmatch(entry.name):
                        size = _walk(entry)[0]
                        _remove_tree(entry)
                        yield GcItem(path=entry, size=size, why="damaged or half-made")

    def _key(self, slot: Path) -> str:
        return slot.relative_to(self.home / "work").as_posix()

    def _read_sizes(self) -> None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            known = json.loads((self.home / "work" / _SIZES).read_bytes())
            self._sizes = {
                str(key): [int(used), int(size)] for key, (used, size) in dict(known).items() if size
            }

    def _write_sizes(self, entries: dict[Path, WorkdirUsage]) -> None:
        """Only of those that rest, and hold nothing that may be taken away by hand."""
        known: dict[str, list[int]] = {}
        for path, entry in entries.items():
            with contextlib.suppress(OSError):
                used = (path / WORK_FILE).stat().st_mtime_ns
                plain = not (entry.unsaved or entry.unfinished or entry.in_use or entry.resists)
                if plain and entry.size and used / 1e9 == entry.used and self.now - entry.used > _RESTS:
                    known[self._key(path)] = [used, entry.size]
        if known != self._sizes:
            files.write(self.home / "work" / _SIZES, json.dumps(known), durable=False)


def _in_use(slot: Path) -> bool:
    with files.locked(slot / IN_USE_FILE, wait=False) as ours:
        return not ours


def _measured(entry: WorkdirUsage) -> WorkdirUsage:
    size, names = _walk(entry.path)
    return replace(entry, size=size, unsaved=UNSAVED_FILE in names, unfinished=PLAN_FILE in names)


def _walk(folder: Path) -> tuple[int, set[str]]:
    """What removing it frees (a file with another name elsewhere frees nothing), and the names in it."""
    size, names = 0, set()
    for place, _, found in os.walk(folder):
        for name in found:
            with contextlib.suppress(FileNotFoundError):
                about = os.lstat(os.path.join(place, name))  # noqa: PTH118 - called for every file there is
                size += about.st_size if about.st_nlink == 1 else 0
        names.update(found)
    return size, names


def _remove_tree(folder: Path) -> None:
    """Also where a folder inside is read-only, as some modules are."""
    with contextlib.suppress(FileNotFoundError):
        try:
            shutil.rmtree(folder)
        except PermissionError:
            for place, _, _ in os.walk(folder):
                Path(place).chmod(files.PRIVATE_FOLDER)
            shutil.rmtree(folder)


def _by_repository(entries: Iterable[WorkdirUsage]) -> tuple[tuple[str, int], ...]:
    """The largest first."""
    together: dict[str, int] = {}
    for entry in entries:
        name = _root_of(entry.path)
        together[name] = together.get(name, 0) + entry.size
    return tuple(sorted(together.items(), key=lambda one: (-one[1], one[0])))


def _root_of(slot: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads((slot / WORK_FILE).read_bytes())["root"])
    return slot.parent.parent.name


def collect_garbage_quickly(home: Path, limits: Work) -> GcResult | None:
    """At the end of every run: at most once a minute, for a moment only, and never a reason to fail."""
    end = clock.monotonic() + _MOMENT
    cleaner = _cleaner(home, limits, hurry=lambda: clock.monotonic() > end, thorough=False)
    try:
        return cleaner.clean() if cleaner.due() else None
    except OSError:
        return None


def collect_garbage(home: Path, limits: Work, *, everything: bool = False) -> GcResult:
    return _cleaner(home, limits, hurry=lambda: False).clean(everything=everything)


def _cleaner(
    home: Path, limits: Work, *, hurry: Callable[[], bool], thorough: bool = True
) -> GarbageCollector:
    return GarbageCollector(
        home=home,
        temporary=scratch.temporary_roots(),
        limits=limits,
        now=clock.now().timestamp(),
        hurry=hurry,
        thorough=thorough,
    )
