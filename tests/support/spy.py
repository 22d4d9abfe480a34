"""What the code of one device does to learn about another one: it reads all that it can, and reports it.

`python spy.py`, in an apply, with the standard library only. HOLD: instead, wait until this file exists.
STAY: leave a process running that names its pid in this file. MARKER is split in two, so that this program
does not find itself. REPORT names the file for its report.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import socket
import struct
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

MOST = 20_000_000
ATTACH = 16


def hold(file: Path) -> None:
    end = time.monotonic() + 120
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)


def stay(file: Path) -> None:
    """A daemon: no child of Terraform, not in its session."""
    if os.fork():
        hold(file)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in range(3):
        os.close(number)
    aside = file.with_suffix(".new")
    aside.write_text(str(os.getpid()))
    aside.rename(file)
    time.sleep(300)
    os._exit(0)


def other_processes() -> Iterator[Path]:
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if place.name != str(os.getpid()) and os.getsid(int(place.name)) != os.getsid(0):
                yield place


def files(roots: list[Path]) -> Iterator[Path]:
    others = list(other_processes())
    roots += [place / name for place in others for name in ("cwd", "fd")]
    for root in roots:
        for folder, _, names in os.walk(root):
            yield from (Path(folder, name) for name in names if name not in {"kcore", "kmsg", "pagemap"})
    for place in others:
        yield from (place / "environ", place / "cmdline")
        yield from (Path(f"{place}/root{root}") for root in roots[:1])


def contents(roots: list[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files(roots):
        with contextlib.suppress(OSError, ValueError):
            if file.is_file() or file.parts[1] == "proc":
                opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
                try:
                    yield str(file), os.read(opened, MOST)
                finally:
                    os.close(opened)
    yield "environment", "\0".join(f"{name}={value}" for name, value in os.environ.items()).encode()


def memory() -> Iterator[str]:
    """The processes into which this one can look."""
    libc = ctypes.CDLL(None, use_errno=True)
    for place in other_processes():
        with contextlib.suppress(OSError):
            if not (place / "maps").read_bytes():
                continue  # A thread of the kernel.
            yield f"{place}/maps"
        with contextlib.suppress(OSError), (place / "mem").open("rb"):
            yield f"{place}/mem"
        if libc.ptrace(ATTACH, int(place.name), None, None) == 0:
            yield f"ptrace of {place.name}"


def providers() -> Iterator[str]:
    """The sockets of other providers to which this program can connect."""
    names = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
    for name in sorted(name for name in names if name.startswith("/")):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(5)
            channel.connect(name)
            pid, _, _ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            program = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"provider" in program and os.getsid(pid) != os.getsid(0):
                yield name


def states(names: list[str]) -> Iterator[tuple[str, int, bytes]]:
    """Through the state backend of this run, as far as its credentials lead."""
    own = os.environ.get("TF_HTTP_ADDRESS", "")
    user, password = (os.environ.get(f"TF_HTTP_{name}", "") for name in ("USERNAME", "PASSWORD"))
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    for name in names:
        for address in (f"{own}/{name}", f"{own.rpartition('/')[0]}/{name}", f"{own}?name={name}"):
            for credentials in (f"Basic {basic}", f"Bearer {password}"):
                request = urllib.request.Request(address, headers={"authorization": credentials})  # noqa: S310 - loopback
                try:
                    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
                        yield address, answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    yield address, error.code, error.read()
                except (OSError, ValueError):
                    yield address, 0, b""


def main() -> None:
    marker = "".join(json.loads(os.environ["MARKER"])).encode()
    forms = (marker, base64.b64encode(marker)[:-4])
    roots = [Path(root) for root in json.loads(os.environ["ROOTS"])]
    roots += Path("/tmp").glob("hf-*")
    answers = list(states(json.loads(os.environ["STATES"])))
    read = [*contents(roots), *((address, content) for address, _, content in answers)]
    found = [name for name, content in read if any(form in content for form in forms)]
    ours = sorted(name for name in os.environ if name.startswith("HOLDFAST"))
    report = {
        "looked": len(read),
        "found": found,
        "ours": ours,
        "answers": sorted({status for _, status, _ in answers}),
        "providers": list(providers()),
        "memory": list(memory()),
    }
    Path(os.environ["REPORT"]).write_text(json.dumps(report))


if __name__ == "__main__":
    if held := os.environ.get("HOLD"):
        Path(f"{held}.begun").touch()
        hold(Path(held))
    elif staying := os.environ.get("STAY"):
        stay(Path(staying))
    else:
        main()
    sys.exit(0)
