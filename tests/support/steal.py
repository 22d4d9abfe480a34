"""What a malicious author's program does: it tries everything to read a key, and writes down what worked.

`python steal.py MARKER PATH…`: MARKER is part of the secret; each PATH is a file or folder with secrets. It
runs inside a plan or an apply, with the standard library only; REPORT names the file for its report.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
ATTACH, DETACH, ALL_THREADS = 16, 17, 0x40000000
BAD_ADDRESS = 14
PROC = Path("/proc")

Attempts = Iterator[tuple[str, Callable[[], object]]]


def parent(pid: int) -> int:
    return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def ancestors() -> Iterator[int]:
    """From the worker up, which leads the session. What is below belongs to Terraform itself.

    A program that Holdfast starts leads its own session, and is confined with it.
    """
    pid = parent(os.getsid(0)) if "PROGRAM" in os.environ else os.getsid(0)
    while pid > 0:
        yield pid
        pid = parent(pid)


def threads(pid: int) -> list[Path]:
    return sorted((PROC / str(pid) / "task").iterdir())


def read(path: Path) -> bool:
    """Opening it is enough: it must not even be possible to look."""
    with path.open("rb") as file:
        file.read(1)
    return True


def read_memory(place: Path) -> bool:
    start = re.match("[0-9a-f]+", (place / "maps").read_text())
    with (place / "mem").open("rb", buffering=0) as file:
        file.seek(int(start[0], 16) if start is not None else 0)
        return bool(file.read(1))


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_by_vector(pid: int) -> bool:
    """An address that is not mapped is an error too, but one that only a reader gets."""
    buffer = ctypes.create_string_buffer(1)
    here, there = Vector(ctypes.cast(buffer, ctypes.c_void_p), 1), Vector(0x1000, 1)
    count = LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return count >= 0 or ctypes.get_errno() == BAD_ADDRESS


def trace(tid: int) -> bool:
    if LIBC.ptrace(ATTACH, tid, None, None) != 0:
        return False
    os.waitpid(tid, ALL_THREADS)
    LIBC.ptrace(DETACH, tid, None, None)
    return True


def open_for_writing(path: Path) -> bool:
    with path.open("r+b"):
        return True


def move_and_read(move: Callable[[Path, str], None], path: Path) -> bool:
    target = f"stolen-{path.name}"
    move(path, target)
    return read(Path(target))


def signal_it(pid: int) -> bool:
    """What can be signalled can be made to dump its memory into a file."""
    os.kill(pid, signal.SIGCONT)
    return True


def on_process(pid: int) -> Attempts:
    for place in (PROC / str(pid), *threads(pid)):
        yield f"environ of {place}", partial(read, place / "environ")
        yield f"memory of {place}", partial(read_memory, place)
        yield f"ptrace of {place}", partial(trace, int(place.name))
        yield f"process_vm_readv of {place}", partial(read_by_vector, int(place.name))
        yield f"descriptors of {place}", (place / "fd/0").readlink
        yield f"folder of {place}", (place / "cwd").readlink
    yield f"signal to {pid}", partial(signal_it, pid)


def on_secret(path: Path) -> Attempts:
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()][:5]:
        yield f"read {file}", partial(read, file)
        yield f"read {file} through /proc", partial(read, Path(f"/proc/self/root{file}"))
        yield f"write {file}", partial(open_for_writing, file)
        yield f"link {file}", partial(move_and_read, os.link, file)
        yield f"rename {file}", partial(move_and_read, os.rename, file)
    if path.is_dir():
        yield f"create in {path}", partial((path / "new").write_text, "x")


def as_root() -> Attempts:
    yield "core_pattern", partial(open_for_writing, PROC / "sys/kernel/core_pattern")
    for device in Path("/dev").iterdir():
        if device.is_block_device():
            yield f"read {device}", partial(read, device)


def attempts(paths: list[str]) -> Attempts:
    for pid in ancestors():
        if pid != 1 or os.getuid() == 0:
            yield from on_process(pid)
    for path in paths:
        yield from on_secret(Path(path))
    if os.getuid() == 0:
        yield from as_root()


def succeeds(act: Callable[[], object]) -> bool:
    try:
        return bool(act())
    except OSError:
        return False


def main() -> None:
    marker, *paths = sys.argv[1:]
    results = {name: succeeds(act) for name, act in attempts(paths)}
    report = {
        "tried": len(results),
        "succeeded": [name for name in results if results[name]],
        "uid": os.getuid(),
        "environment": any(marker in value for value in os.environ.values()),
        "worker": {
            place.name: "NoNewPrivs:\t1" in (place / "status").read_text() for place in threads(os.getsid(0))
        },
    }
    Path(os.environ["REPORT"]).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
