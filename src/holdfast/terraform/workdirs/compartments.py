"""Compartments: where the changes of a server have their files, so that none can read those of another one.

Landlock rules name folders and belong to a process for good, and engines stay loaded from one change to the
next. So the folders stay, too, and the work directories move: a change holds a compartment, its trees are
renamed into it, and only the processes of this compartment may look there. At the end they go back to their
places, where no program of any change may look. Why it is done this way: docs/decisions/0025.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from holdfast.kernel.patterns import pattern
from holdfast.system import files, process_table
from holdfast.system.access_rules import COMPARTMENT_SCRATCH, COMPARTMENTS
from holdfast.terraform.workdirs.workdir import WorkDirectory

_OF_ENGINE = pattern(r"[ps](\d+)")
"""Folders of an engine that stays: of its providers (`warm_providers`) and of sockets (`worker_sockets`)."""
_MOST_FREE = 16


class Compartment:
    def __init__(self, folder: Path, scratch: Path, owner: str) -> None:
        self.folder = self._parked = files.private_folder(folder)
        """Where it is now: rules name the folder itself, which has another path in each change."""
        self.scratch = files.private_folder(scratch)
        """For temporary files, sockets and credentials: a short path."""
        self.owner = owner
        self.spoiled = False
        """A program of its change may still run: no other change gets it."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """For rules: always the same paths."""
        return self._parked, self.scratch

    @contextlib.contextmanager
    def hold_place(self, place: Path) -> Iterator[None]:
        """The same path whenever the same is run: code may use it in an attribute."""
        self._parked.rename(place)
        self._parked.symlink_to(place)
        self.folder = place
        try:
            yield
        finally:
            self._parked.unlink()
            place.rename(self._parked)
            self.folder = self._parked

    @contextlib.contextmanager
    def hold_tree(self, work: WorkDirectory) -> Iterator[WorkDirectory]:
        """The work directory with its tree in here. A link shows where it is, also after a crash."""
        inside = self.folder / hashlib.sha256(str(work.folder).encode()).hexdigest()[:12]
        if work.tree.is_dir():
            work.tree.rename(inside)
        else:
            files.private_folder(inside)
        work.tree.symlink_to(inside)
        try:
            yield replace(work, tree=inside, module=inside / work.module_path)
        finally:
            work.tree.unlink()
            inside.rename(work.tree)

    def clear(self) -> None:
        """Remove temporary files, but not those of engines that stay."""
        for entry in os.scandir(self.scratch):
            engine = _OF_ENGINE.fullmatch(entry.name)
            if engine is not None and process_table.is_alive(int(engine[1])):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)  # noqa: PTH108 - an entry has its path as text

    def remove(self) -> None:
        """The rules of processes that are left name these folders, not new ones with the same names."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Compartments:
    """Of one worker. There are as many as changes at the same time."""

    def __init__(self, home: Path, slot: int, scratch: Path) -> None:
        self._place = files.private_folder(home / COMPARTMENTS)
        self._slot = slot
        self._scratch = files.private_folder(scratch / COMPARTMENT_SCRATCH)
        self._free: list[Compartment] = []
        self._next = 0
        for left in self._place.glob(f"{slot}-*"):
            # One that is not empty has the tree of a run that was killed, or that goes on by itself.
            with contextlib.suppress(OSError):
                left.resolve().rmdir()
            if left.is_symlink():
                left.unlink()

    @contextlib.contextmanager
    def hold(self, what: str, owner: str = "") -> Iterator[Compartment]:
        """For one change. `what` it runs decides about paths.

        `owner`: whose providers stay in it; no other code ever runs beside them.
        """
        compartment = self._take(owner)
        name = hashlib.sha256(what.encode()).hexdigest()[:12]
        names = (name if number == 0 else f"{name}-{number}" for number in itertools.count())
        place = next(place for place in map(self._place.joinpath, names) if not os.path.lexists(place))
        try:
            with compartment.hold_place(place):
                yield compartment
        finally:
            self._release(compartment)

    def _take(self, owner: str) -> Compartment:
        """The same ones again, if possible: their engines are loaded."""
        own = [free for free in self._free if free.owner == owner]
        if own:
            compartment = min(own, key=lambda free: free.scratch.name)
            self._free.remove(compartment)
            return compartment
        while True:
            name = f"{self._slot}-{self._next}"
            self._next += 1
            if not os.path.lexists(self._place / name):
                return Compartment(self._place / name, self._scratch / name, owner)

    def _release(self, compartment: Compartment) -> None:
        if compartment.spoiled:
            compartment.remove()
            return
        compartment.clear()
        self._free.append(compartment)
        if len(self._free) > _MOST_FREE:
            self._free.pop(0).remove()
