"""Runs the hooks of a stack: confined like Terraform, with its environment, in its work directory."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Mapping
from typing import IO

from holdfast.config.hooks import Hook
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import Cancelled
from holdfast.plans.events import Note, PhaseStarted, ProgramOutput
from holdfast.plans.workdir import HookRun, StackWorkdir
from holdfast.system import clock, processes
from holdfast.terraform.engine.interface import CancelSequence, Command, LineSplitter, Listen

_LONGEST_LINE = 2000
_MOST_LINES = 500
_DRAIN_SECONDS = 2.0
_SO_FAR = {
    "before_init": "Terraform was not started",
    "before_plan": "nothing was planned",
    "before_apply": "nothing was applied",
    "after_apply": "the apply itself is done and its state is saved",
}


class Hooks:
    """Of one stack. What each of them did goes to the run's record."""

    def __init__(self, context: ChangeContext, workdir: StackWorkdir) -> None:
        self._context = context
        self._workdir = workdir

    def has(self, when: str) -> bool:
        return any(hook.when == when for hook in self._workdir.stack.hooks) and not self._workdir.bare

    async def run(self, when: str) -> None:
        """In their order; the first that fails ends it, except where a state must be reached in any case."""
        for hook in self._workdir.stack.hooks if self.has(when) else ():
            if hook.when != when:
                continue
            try:
                await self._run(hook)
            except Failed as error:
                if not self._workdir.for_state:
                    raise
                note = Note(stack=self._workdir.stack.name, text=error.problem.message)
                self._context.control.tell(note)

    async def _run(self, hook: Hook) -> None:
        name, control = self._workdir.stack.name, self._context.control
        control.tell(PhaseStarted(stack=name, phase="hook"))
        lines: deque[str] = deque(maxlen=_MOST_LINES)

        def listen(line: bytes) -> None:
            text = line.decode(errors="replace").rstrip("\r")[:_LONGEST_LINE]
            lines.append(text)
            control.tell(ProgramOutput(stack=name, program=hook.run[0].rpartition("/")[2], text=text))

        began = clock.monotonic()
        sequence = CancelSequence()
        code = await self._code(hook, sequence, listen)
        # A secret may span several lines.
        output = self._context.redactor.clean("\n".join(lines))
        self._workdir.hook_runs.append(
            HookRun(
                when=hook.when,
                run=hook.run,
                code=code,
                seconds=round(clock.monotonic() - began, 3),
                output=output,
            )
        )
        if code != 0 or sequence.interrupted:
            raise self._error(hook, code, sequence, lines)

    async def _code(self, hook: Hook, sequence: CancelSequence, listen: Listen) -> int:
        command = Command(
            phase="read",  # Not an apply: it is killed soon if it does not end by itself.
            argv=hook.run,
            folder=self._workdir.work.module,
            environment={**self._workdir.environment, "STACK_NAME": self._workdir.stack.name},
            seconds=hook.time_limit,
        )
        self._require_program(hook, command.environment)
        home, engines = self._workdir.home, self._context.engines
        engines.spoil()  # What a hook leaves running is not found.
        child, output = await asyncio.to_thread(
            processes.start_with_output,
            command.argv,
            folder=command.folder,
            environment=command.environment,
            ruleset=engines.confinement.rules_for_program(
                home.file.parent if home.file is not None else None, engines.own
            ),
        )
        stop = self._context.control.stop
        cancelling = asyncio.create_task(sequence.run(command, stop, child.interrupt, child.kill_group))
        reading = asyncio.create_task(_read(output, listen))
        try:
            code = await child.wait()
        finally:
            cancelling.cancel()
            # What it left running would hold its output open.
            child.kill_group()
            await asyncio.wait({reading}, timeout=_DRAIN_SECONDS)
            reading.cancel()
        return code

    def _require_program(self, hook: Hook, environment: Mapping[str, str]) -> None:
        program = hook.run[0]
        path = str(self._workdir.work.module / program) if "/" in program else program
        if shutil.which(path, path=environment.get("PATH")) is None:
            raise Failed(
                "HF-HOOK-3",
                f"{self._workdir.stack.name}: the program of the hook `{hook.command}` ({hook.when}) "
                f"{'does not exist or is not executable' if '/' in program else 'is not on PATH'}",
                hint="Install it where Holdfast runs, or name it relative to the module: run: [./build.sh]. "
                "`files` of the hook lists what is copied.",
            )

    def _error(self, hook: Hook, code: int, sequence: CancelSequence, lines: deque[str]) -> HoldfastError:
        name = self._workdir.stack.name
        so_far = f"; {_SO_FAR[hook.when]}" if hook.when in _SO_FAR else ""
        what = f"{name}: the hook `{hook.command}` ({hook.when})"
        if sequence.timed_out:
            return Failed(
                "HF-HOOK-2",
                f"{what} took longer than its time limit and was stopped{so_far}",
                hint="Raise its `time_limit` in holdfast.yaml, or check what it is waiting for.",
            )
        if sequence.interrupted:
            return Cancelled("HF-RUN-2", f"{what} was cancelled{so_far}")
        last = next((line.strip() for line in reversed(lines) if line.strip()), None)
        fix = f"Fix it, then plan again: holdfast plan {name}"
        if hook.when == "after_apply":
            fix = f"Fix it, then apply again, which runs it also without changes: holdfast apply {name}"
        return Failed(
            "HF-HOOK-1",
            f"{what} exited with {code}{so_far}" + (f". Its last line: {last}" if last else ""),
            hint=f"Its whole output is above and in `holdfast runs log`. {fix}",
        )


async def _read(output: IO[bytes], listen: Listen) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), output)
    splitter = LineSplitter(listen, _LONGEST_LINE)
    try:
        while chunk := await reader.read(65536):
            splitter.feed(chunk)
    finally:
        splitter.close()
        transport.close()
