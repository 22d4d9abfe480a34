"""Ends what programs leave running. The supervisor loads this module, so imports are few. Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection

_SET_CHILD_SUBREAPER = 36
_SECONDS = 5.0
_PAUSE = 0.002


def adopt() -> None:
    """From now on, a process below this one whose parent ended becomes a child of this one."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children(keep: Collection[int] = ()) -> bool:
    """Kill every child but these, and what they started. False if some are still there."""
    end = time.monotonic() + _SECONDS
    while pids := _children() - set(keep):
        if time.monotonic() > end:
            return False
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):  # Its own waiter was first.
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_PAUSE)
    return True


def _children() -> set[int]:
    pids: set[int] = set()
    try:
        for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - names are enough
            with open(f"/proc/self/task/{task}/children", "rb") as file:  # noqa: PTH123 - pathlib is not imported here
                pids.update(map(int, file.read().split()))
    except FileNotFoundError:
        # A thread that ended, or a kernel without these files.
        return _children_of_all()
    except OSError:
        return set()
    return pids


def _children_of_all() -> set[int]:
    own, pids = b"%d" % os.getpid(), set[int]()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are enough
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                if file.read().rpartition(b")")[2].split()[1] == own:
                    pids.add(int(name))
    return pids
