"""`holdfast serve` as a process, for tests of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from program import Program


@contextmanager
def serving(
    program: Program, data: Path, *, workers: int = 0, blueprints: Path | None = None
) -> Iterator[dict[str, str | None]]:
    """The variables of a client, which is an admin."""
    offered = () if blueprints is None else ("--blueprints", str(blueprints))
    process = program.start(
        "serve", "--listen", "127.0.0.1:0", "--data", str(data), "--workers", str(workers), *offered
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "ready" in line, process.communicate()
        yield {"HOLDFAST_URL": line.split()[-1], "HOLDFAST_TOKEN_FILE": str(data / "admin-token")}
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()
