"""A program of the user exits with 0. It is confined like a hook."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import deque

from holdfast.gates.interface import Evidence, Met, NotMet, NotObservable, Observation, Tools
from holdfast.system import processes
from holdfast.terraform.engine.interface import CancelSequence, Command, LineSplitter

_LONGEST_LINE = 2000
_MOST_LINES = 50
_DRAIN_SECONDS = 2.0


class UserCommand:
    def __init__(self, settings: tuple[str, ...], tools: Tools) -> None:
        self._argv = settings
        self._tools = tools

    async def observe(self, seconds: float) -> Observation:
        shown, program = " ".join(self._argv), self._argv[0]
        path = str(self._tools.root / program) if "/" in program else program
        if shutil.which(path, path=self._tools.variables.get("PATH")) is None:
            what = "does not exist or is not executable" if "/" in program else "is not on PATH"
            return NotObservable(
                text=f"{program} {what}",
                next_step="Install it here, or name it relative to holdfast.yaml: [./smoke-test.sh].",
            )
        lines: deque[str] = deque(maxlen=_MOST_LINES)
        sequence = CancelSequence()
        code = await self._code(seconds, sequence, lines)
        if sequence.timed_out:
            return NotMet(
                text=f"{shown}: took longer than {seconds:g} s and was stopped", evidence=_log(lines)
            )
        if code == 0:
            return Met(text=f"{shown} exited with 0")
        last = next((line.strip() for line in reversed(lines) if line.strip()), None)
        text = f"{shown} exited with {code}{f': {last}' if last else ''}"
        return NotMet(text=text, evidence=_log(lines))

    async def _code(self, seconds: float, sequence: CancelSequence, lines: deque[str]) -> int:
        command = Command(
            phase="read",  # Nothing that it does must be finished: it is killed soon.
            argv=self._argv,
            folder=self._tools.root,
            environment=self._tools.variables,
            seconds=seconds,
        )
        child, output = await asyncio.to_thread(
            processes.start_with_output,
            command.argv,
            folder=command.folder,
            environment=command.environment,
            ruleset=self._tools.confinement(),
        )
        cancelling = asyncio.create_task(
            sequence.run(command, self._tools.stop, child.interrupt, child.kill_group)
        )

        def note(line: bytes) -> None:
            lines.append(line.decode(errors="replace").rstrip("\r")[:_LONGEST_LINE])

        def read() -> None:
            splitter = LineSplitter(note, _LONGEST_LINE)
            with contextlib.suppress(OSError, ValueError), output:
                while chunk := output.read1(65536):  # type: ignore[attr-defined]
                    splitter.feed(chunk)
            splitter.close()

        reading = asyncio.create_task(asyncio.to_thread(read))
        try:
            code = await child.wait()
        finally:
            cancelling.cancel()
            child.kill_group()  # What it left running would hold its output open.
            await asyncio.wait({reading}, timeout=_DRAIN_SECONDS)
        return code


def _log(lines: deque[str]) -> tuple[Evidence, ...]:
    return (Evidence(title="last lines", text="\n".join(lines)),) if lines else ()
