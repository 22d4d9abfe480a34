"""The binary engine: a process of `terraform` or `tofu` for each command."""

from __future__ import annotations

import asyncio
import contextlib

from holdfast.doors import processes
from holdfast.kernel.errors import EngineError
from holdfast.terraform.engine import Answer, Command, EngineId, Ladder, Lines, Listen, Patience, Stop


class BinaryEngine:
    def __init__(self, identity: EngineId, *, patience: Patience | None = None) -> None:
        self.identity = identity
        self._patience = patience

    async def run(self, command: Command, *, stop: Stop, listen: Listen | None = None) -> Answer:
        try:
            child = await processes.start(
                (self.identity.path, *command.argv), folder=command.folder, environment=command.environment
            )
        except OSError as error:
            raise EngineError(
                "HF-ENG-4",
                f"{self.identity.path} cannot be started: {error.strerror}",
                hint="Is the file there, executable, and made for this machine?",
            ) from None
        ladder = Ladder(self._patience)
        climbing = asyncio.create_task(ladder.climb(command, stop, child.interrupt, child.kill_group))
        whole: list[bytes] = []
        lines = Lines(listen) if listen is not None else None
        try:
            _, err = await asyncio.gather(
                child.read_output(lines.feed if lines is not None else whole.append), child.read_errors()
            )
            code = await child.wait()
        except BaseException:
            child.kill_group()
            raise
        finally:
            climbing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await climbing
        if lines is not None:
            lines.close()
        if ladder.interrupted or code < 0:
            # A provisioner's own children outlive Terraform's interrupt: nothing of ours stays behind.
            child.kill_group()
        return Answer(
            code=code,
            out=b"".join(whole),
            err=err,
            interrupted=ladder.interrupted,
            insisted=ladder.insisted,
            timed_out=ladder.timed_out,
            killed=ladder.killed or code < 0 or code == CRASHED,
            log=err.decode(errors="replace")[-4000:] if code < 0 or code == CRASHED else None,
        )

    async def close(self) -> None:
        """Nothing outlives a command."""


CRASHED = 11
"""Terraform's exit code after a panic of its own."""
