"""Confinement of threads and their children: code in a plan must not read Holdfast's secrets.

On Linux, `no_new_privs`, capabilities and Landlock rules belong to a thread, and every thread and process
that it starts inherits them for good. A thread that is confined before it loads or starts a program therefore
confines that program and everything it starts, while the other threads of this process stay as they are.
Where neither Landlock nor capabilities help, a process can enter a user namespace, as a whole and before it
has threads. Elsewhere nothing works, and the report says so.

Which paths are allowed: `access_rules`. Why it is done this way: docs/decisions/0019.
The supervisor loads this module, so imports are few.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn, TypeVar

Answer = TypeVar("Answer")

_LINUX = sys.platform == "linux"
_SET_DUMPABLE, _DROP_BOUNDING, _NO_NEW_PRIVS = 4, 24, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
"""The same numbers on every architecture."""
_NEW_USER = 0x10000000
_CAPABILITIES_VERSION = 0x20080522
_DROPPED = (
    2,  # DAC_READ_SEARCH: opens files by handle; DAC_OVERRIDE remains
    8,  # SETPCAP
    16,  # SYS_MODULE
    17,  # SYS_RAWIO
    19,  # SYS_PTRACE
    21,  # SYS_ADMIN
    22,  # SYS_BOOT
    27,  # MKNOD: a device of the disk
    31,  # SETFCAP
    32,  # MAC_OVERRIDE
    33,  # MAC_ADMIN
    38,  # PERFMON: reads /proc/PID/environ since Linux 6.14
    39,  # BPF
    40,  # CHECKPOINT_RESTORE
)
"""Capabilities that reach into other processes, the disk or the kernel.

A process may look into another one of its user only if it has all capabilities of that process. So dropping
one that the others have is enough against them.
"""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | (1 << 14)
"""Rights that a rule for a file may have; 1 << 14 is truncation."""
ALL_RIGHTS = (1 << 15) - 1
READ_ONLY = EXECUTE | READ_FILE | READ_DIR
_RIGHTS_OF_ABI = ((3, (1 << 15) - 1), (2, (1 << 14) - 1), (1, (1 << 13) - 1))
_SCOPES_ABI = 6
_SCOPES = 0b11
"""No abstract sockets of processes outside, and no signals: one could make them dump their memory."""
UNSUPPORTED = -1


class Confinement(NamedTuple):
    """What was done in a process, and what code in it can read nevertheless."""

    measures: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()

    @property
    def effective(self) -> bool:
        return bool(self.measures) and not self.leaks


# Landlock


@functools.cache
def landlock_abi() -> int:
    """0 where there is no Landlock, or where a container forbids it."""
    if not _LINUX:
        return 0
    return max(0, int(_libc().syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def create_ruleset(rules: Iterable[tuple[str, int]]) -> int:
    """A descriptor for `confine_thread`; UNSUPPORTED without Landlock. Each rule is a path and its rights."""
    abi = landlock_abi()
    handled = next((rights for known, rights in _RIGHTS_OF_ABI if abi >= known), 0)
    if not handled:
        return UNSUPPORTED
    scopes = _SCOPES if abi >= _SCOPES_ABI else 0
    attributes = b"".join(part.to_bytes(8, sys.byteorder) for part in (handled, 0, scopes))
    size = 24 if scopes else 8
    libc = _libc()
    ruleset = int(libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0)))
    if ruleset < 0:
        return UNSUPPORTED
    for path, rights in rules:
        _add_rule(libc, ruleset, path, rights & handled)
    return ruleset


def _add_rule(libc: Any, ruleset: int, path: str, rights: int) -> None:
    """A path that is gone, or of a kind that needs no rule, is left out."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    parent = handle.to_bytes(4, sys.byteorder, signed=True)
    try:
        for allowed in (rights, rights & _OF_FILES):
            rule = allowed.to_bytes(8, sys.byteorder) + parent
            # Folders accept all rights, files only theirs: the first attempt then fails.
            if libc.syscall(_LANDLOCK_ADD, ruleset, ctypes.c_int(1), rule, ctypes.c_uint32(0)) == 0:
                return
    finally:
        os.close(handle)


# Threads


def confine_thread(ruleset: int) -> tuple[str, ...]:
    """Confine this thread and all that it starts, for good. Returns the measures that took effect."""
    if not _LINUX:
        return ()
    libc = _libc()
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    measures = ["capabilities"] if _drop_capabilities(libc) else []
    if ruleset >= 0 and libc.syscall(_LANDLOCK_RESTRICT, ruleset, ctypes.c_uint32(0)) == 0:
        measures.append("landlock")
    return tuple(measures)


def can_confine_threads() -> bool:
    return landlock_abi() > 0 or bool(_held_capabilities())


def call_confined(ruleset: int, work: Callable[[], Answer]) -> Answer:
    """Call `work` in a confined thread of its own: the processes that it starts are confined."""
    thread = CallThread()
    try:
        thread.call(lambda: confine_thread(ruleset))
        return thread.call(work)
    finally:
        thread.end()


class CallThread:
    """A thread that makes one call after another, as confined as the thread that creates it."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def call(self, work: Callable[[], Answer]) -> Answer:
        return self.begin(work)()

    def begin(self, work: Callable[[], Answer]) -> Callable[[], Answer]:
        """Start a call. What is returned waits for its answer."""
        answers: SimpleQueue[Callable[[], Answer]] = SimpleQueue()

        def attempt() -> None:
            try:
                answer = work()
                answers.put(lambda: answer)
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                answers.put(functools.partial(_raise, error))

        self._calls.put(attempt)

        def wait() -> Answer:
            return answers.get()()

        return wait

    def send(self, work: Callable[[], None]) -> None:
        """Without waiting for it."""
        self._calls.put(work)

    def end(self) -> None:
        self._calls.put(None)

    def _serve(self) -> None:
        while (work := self._calls.get()) is not None:
            work()


def _raise(error: BaseException) -> NoReturn:
    raise error


def _held_capabilities() -> int:
    """Those that would be dropped."""
    if not _LINUX:
        return 0
    data = (ctypes.c_uint32 * 6)()
    if _libc().capget((ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), data):
        return 0
    return sum(1 << bit for bit in _DROPPED if data[1 + 3 * (bit // 32)] >> bit % 32 & 1)


def _drop_capabilities(libc: Any) -> bool:
    """True if there were any."""
    held = _held_capabilities()
    for bit in _DROPPED:
        libc.prctl(_DROP_BOUNDING, bit, 0, 0, 0)
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    for bit in _DROPPED:
        for kind in range(3):
            data[kind + 3 * (bit // 32)] &= ~(1 << bit % 32)
    libc.capset(header, data)
    return bool(held) and not _held_capabilities()


# Processes


def protect_process(secret_variables: Iterable[str] = ()) -> None:
    """No other process of this user can read this one's memory, and it dumps none when it crashes.

    The values of `secret_variables` are also wiped where /proc shows them. `os.environ` keeps them.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not _LINUX:
        return
    libc = _libc()
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    names = tuple(name.encode() + b"=" for name in secret_variables)
    variables = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
    index = 0
    while names and (address := variables[index]):
        text = ctypes.string_at(address)
        for name in names:
            if text.startswith(name):
                ctypes.memset(address + len(name), ord("*"), len(text) - len(name))
        index += 1


def process_measures() -> tuple[str, ...]:
    """Where threads cannot be confined: put this process, which has one thread, into a user namespace.

    It stays the same user there. Returns the measure, if it took effect.
    """
    if not _LINUX:
        return ()
    # Tried in a child first: a namespace without a mapping of its user would be a trap.
    child = os.fork()
    if child == 0:
        os._exit(0 if _unshare() else 1)
    possible = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return ("namespace",) if possible and _unshare() else ()


def _unshare() -> bool:
    user, group = os.geteuid(), os.getegid()
    if _libc().unshare(_NEW_USER) != 0:
        return False
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - no pathlib here
                file.write(text)
    except OSError:
        return False
    return True


def readable_secrets(files: Iterable[str]) -> tuple[str, ...]:
    """What this thread can read and must not: the environment of a process above it, or one of the files."""
    leaks = [f"the environment of process {pid}" for pid in _ancestors() if _readable(f"/proc/{pid}/environ")]
    return (*leaks, *filter(_readable, files))


def _ancestors() -> Iterable[int]:
    pid = os.getppid()
    while pid > 0:
        yield pid
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - no pathlib here
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def _readable(path: str) -> bool:
    """Whether a file can be read. The names in a folder are no secret: its files are looked at themselves."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not stat.S_ISDIR(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """`python confine.py PROGRAM ARGUMENT…`: run a program in a user namespace of its own."""
    process_measures()
    confine_thread(UNSUPPORTED)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - `processes` starts this program only


if __name__ == "__main__":
    main()
