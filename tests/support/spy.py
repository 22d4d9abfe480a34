"""What the code of one device does to learn about another one: it reads all that it can, and reports it.

`python spy.py`, in an apply, with the standard library only. HOLD: instead, wait until this file exists.
MARKER is split in two, so that this program does not find itself. REPORT names the file for its report.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

MOST = 20_000_000


def hold(file: Path) -> None:
    end = time.monotonic() + 120
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.05)


def files(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        for folder, _, names in os.walk(root):
            yield from (Path(folder, name) for name in names)
    for place in Path("/proc").glob("[0-9]*"):
        if place.name != str(os.getpid()):
            yield from (place / "environ", place / "cmdline")


def contents(roots: list[Path]) -> Iterator[tuple[str, bytes]]:
    for file in files(roots):
        with contextlib.suppress(OSError):
            if file.is_file() or file.parts[1] == "proc":
                with file.open("rb") as opened:
                    yield str(file), opened.read(MOST)
    yield "environment", "\0".join(f"{name}={value}" for name, value in os.environ.items()).encode()


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
    answers = list(states(json.loads(os.environ["STATES"])))
    read = [*contents(roots), *((address, content) for address, _, content in answers)]
    found = [name for name, content in read if any(form in content for form in forms)]
    ours = sorted(name for name in os.environ if name.startswith("HOLDFAST"))
    report = {
        "looked": len(read),
        "found": found,
        "ours": ours,
        "answers": sorted({status for _, status, _ in answers}),
    }
    Path(os.environ["REPORT"]).write_text(json.dumps(report))


if __name__ == "__main__":
    if held := os.environ.get("HOLD"):
        Path(f"{held}.begun").touch()
        hold(Path(held))
    else:
        main()
