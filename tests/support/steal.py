"""What a malicious author's program does: it tries everything to read a key, and prints what it got.

`python steal.py MARKER PATH…`: MARKER is part of the secret; each PATH is a file or folder with secrets. It runs
inside a plan or an apply, with the standard library only. Each attempt is a name and True if it succeeded.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
ATTACH, DETACH = 16, 17


def ancestors() -> Iterator[int]:
    """From the worker up, which leads the session. What is below belongs to Terraform itself.

    A program that Holdfast starts leads its own session, and is confined with it.
    """
    pid = parent(os.getsid(0)) if "PROGRAM" in os.environ else os.getsid(0)
    while pid > 0:
        yield pid
        pid = parent(pid)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def threads(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]


def attempt(act: Callable[[], object]) -> bool:
    try:
        return bool(act())
    except (OSError, ValueError):
        return False


def reads(path: str) -> Callable[[], bool]:
    """Opening it is enough: it must not even be possible to look."""

    def act() -> bool:
        with open(path, "rb") as file:
            file.read(1)
        return True

    return act


def memory(path: str) -> Callable[[], bool]:
    """Any memory of a process or a thread."""

    def act() -> bool:
        maps = Path(path).parent / "maps"
        start = int(re.match("[0-9a-f]+", maps.read_text())[0], 16)  # type: ignore[index]
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            return bool(file.read(1))

    return act


def vm_read(pid: int) -> Callable[[], bool]:
    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    def act() -> bool:
        buffer = ctypes.create_string_buffer(1)
        here = Vector(ctypes.cast(buffer, ctypes.c_void_p), 1)
        # An address that is not mapped is EFAULT: then the process could be read.
        count = LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(Vector(0x1000, 1)), 1, 0)
        return count >= 0 or ctypes.get_errno() == 14

    return act


def trace(tid: int) -> Callable[[], bool]:
    def act() -> bool:
        if LIBC.ptrace(ATTACH, tid, None, None) != 0:
            return False
        os.waitpid(tid, 0x40000000)
        LIBC.ptrace(DETACH, tid, None, None)
        return True

    return act


def secret_file(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "read", reads(str(path))
    yield "read through /proc/self/root", reads(f"/proc/self/root{path}")
    yield "overwrite", lambda: os.open(path, os.O_WRONLY)
    for name, move in (("link", os.link), ("rename", os.rename)):
        target = Path(f"stolen-{name}")
        yield name, lambda move=move, target=target: (move(path, target), target.read_bytes())[1]  # type: ignore[misc]


def attempts(paths: list[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    for pid in ancestors():
        if pid == 1 and os.getuid() != 0:
            continue
        for tid in dict.fromkeys((pid, *threads(pid))):
            place = f"/proc/{pid}/task/{tid}"
            yield f"environ of {place}", reads(f"{place}/environ")
            yield f"mem of {place}", memory(f"{place}/mem")
            yield f"ptrace of {place}", trace(tid)
            yield f"process_vm_readv of {place}", vm_read(tid)
        yield f"environ of {pid}", reads(f"/proc/{pid}/environ")
        yield f"mem of {pid}", memory(f"/proc/{pid}/mem")
        yield f"files of {pid}", lambda pid=pid: os.readlink(f"/proc/{pid}/fd/0")  # type: ignore[misc]
        yield f"current folder of {pid}", lambda pid=pid: os.listdir(f"/proc/{pid}/cwd/")  # type: ignore[misc]
        # What dumps its memory into a file can be read there.
        yield f"signal to {pid}", lambda pid=pid: os.kill(pid, signal.SIGCONT) is None  # type: ignore[misc]
    for path in map(Path, paths):
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        for file in files[:5]:
            for name, act in secret_file(file):
                yield f"{name} {file}", act
        if path.is_dir():
            yield f"create in {path}", lambda path=path: (path / "new").write_text("x")  # type: ignore[misc]
    if os.getuid() == 0:
        yield "core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)
        for device in Path("/dev").iterdir():
            if device.is_block_device():
                yield f"read {device}", reads(str(device))


def main() -> None:
    marker, *paths = sys.argv[1:]
    results = {name: attempt(act) for name, act in attempts(paths)}
    nnp = {
        f"{tid} {(place / 'comm').read_text().strip()}": "NoNewPrivs:\t1" in (place / "status").read_text()
        for tid in threads(os.getsid(0))
        for place in (Path(f"/proc/{os.getsid(0)}/task/{tid}"),)
    }
    environment = any(marker in value for value in os.environ.values())
    document = {"succeeded": [name for name in results if results[name]], "tried": len(results)}
    text = json.dumps({**document, "uid": os.getuid(), "environment": environment, "worker": nnp})
    Path(os.environ["REPORT"]).write_text(text)


if __name__ == "__main__":
    main()
