"""The client of one worker process. The worker outlives this process if a command still runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
from typing import Self

from msgspec import structs

from holdfast.system import clock, processes
from holdfast.terraform.engine.interface import (
    CancelSequence,
    CancelTimeouts,
    Command,
    CommandResult,
    LineSplitter,
    Listen,
    Stop,
    SupervisorReport,
)

CRASHED = 11
"""Terraform's exit code after a panic that it recovers from."""
_GO_PANIC = 2
"""Go's own exit code after any other panic. Terraform uses it too, but never for an apply."""
_CAUSE = re.compile(r"^(?:(?:panic|fatal error|runtime error): |.+\ngoroutine \d)", re.MULTILINE)
_CHUNK = 1 << 18
_LOG = 4000


class WorkerClient:
    """One worker process and the messages to and from it."""

    def __init__(self, process: processes.SocketChild, *, key: str, warm: bool = False) -> None:
        self.key = key
        self.warm = warm
        """It keeps provider processes."""
        self.spent = False
        """Those must not be used again."""
        self.used = clock.monotonic()
        self.providers: str | None = None
        """The set of provider versions it may load; None until the first command that loads any."""
        self.served = 0
        self.memory = 0
        self.files = 0
        self._child = process.child
        self._channel = process.channel
        self._log = process.log
        self._pending = b""

    @property
    def pid(self) -> int:
        return self._child.pid

    async def receive(self) -> dict[str, object] | None:
        """The next message, or None when the process has ended."""
        while b"\n" not in self._pending:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._channel, _CHUNK)
            except ConnectionError:
                return None
            if not data:
                return None
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        message: dict[str, object] = json.loads(line)
        return message

    async def run(
        self, command: Command, *, stop: Stop, listen: Listen | None, timeouts: CancelTimeouts | None = None
    ) -> CommandResult:
        name = clock.random_token(8)
        commands = (command,) if command.then is None else (command, command.then)
        message = {
            "run": name,
            "commands": [list(each.argv) for each in commands],
            "folder": str(command.folder),
            "alone": bool(command.own),
            **(command.supervision or {}),
        }
        with contextlib.ExitStack() as held:
            outputs = [held.enter_context(_Outputs(listen if each is command else None)) for each in commands]
            numbers = tuple(number for each in outputs for number in each.numbers)
            try:
                await self._send(json.dumps(message).encode() + b"\n", numbers)
            except OSError:
                return await self._crashed(CancelSequence(timeouts))
            outputs[0].hand_over()
            results: list[CommandResult] = []
            for each, output in zip(commands, outputs, strict=True):
                result, follows = await self._finish(each, name, output, stop, CancelSequence(timeouts))
                results.append(result)
                if not follows:
                    break
        return structs.replace(results[0], then=results[1]) if len(results) > 1 else results[0]

    async def _finish(
        self,
        command: Command,
        name: str,
        outputs: _Outputs,
        stop: Stop,
        cancel: CancelSequence,
    ) -> tuple[CommandResult, bool]:
        """Wait for the end of one command. Returns its result, and whether another one follows."""
        cancelling = asyncio.create_task(
            cancel.run(command, stop, lambda: self._cancel(name), self._child.kill_group)
        )
        try:
            done = await self.receive()
            if done is None:
                # Its children may still hold the pipe open.
                self._child.kill_group()
            await outputs.wait_end()
        except BaseException:
            self._child.kill_group()
            raise
        finally:
            cancelling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await cancelling
        out, err = outputs.contents()
        if done is None:
            return await self._crashed(cancel, err), False
        self.served += 1
        self.used = clock.monotonic()
        self.spent = self.spent or done.get("spent") is True
        self.memory, self.files = int(str(done["memory"])), int(str(done["files"]))
        return _answer(done, cancel, out, err, apply=command.phase == "apply"), bool(done["follows"])

    async def _send(self, message: bytes, descriptors: tuple[int, ...]) -> None:
        """Descriptors go with the first bytes; what does not fit into the socket follows."""
        sent = socket.send_fds(self._channel, [message], descriptors)
        if sent < len(message):
            await asyncio.get_running_loop().sock_sendall(self._channel, message[sent:])

    async def _crashed(self, cancel: CancelSequence, errors: bytes = b"") -> CommandResult:
        code = await self._child.wait()
        self._child.kill_group()
        errors += self._log.content(last=_CHUNK)
        return CommandResult(
            code=code or 1,
            err=errors,
            interrupted=cancel.interrupted,
            force_cancelled=cancel.force_cancelled,
            timed_out=cancel.timed_out,
            killed=True,
            log=_crash_log(errors),
        )

    def _cancel(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps({"cancel": name}).encode() + b"\n")

    @property
    def alive(self) -> bool:
        """Of an idle process, which sends nothing by itself: anything that can be read is its end."""
        try:
            self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._child.ended
        except OSError:
            return False
        return False

    async def close(self) -> None:
        """Let it end by itself, then kill whatever its commands left running in its group."""
        self._channel.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), 5.0)
        self._child.kill_group()
        await self._child.wait()
        self._log.close()


def _answer(
    done: dict[str, object], cancel: CancelSequence, out: bytes, err: bytes, *, apply: bool
) -> CommandResult:
    code = int(str(done["code"]))
    crashed = code < 0 or code == CRASHED or (code == _GO_PANIC and (apply or b"\ngoroutine " in err))
    return CommandResult(
        code=code,
        out=out,
        err=err,
        interrupted=cancel.interrupted,
        force_cancelled=cancel.force_cancelled,
        timed_out=cancel.timed_out,
        killed=crashed,
        log=_crash_log(err) if crashed else None,
        report=SupervisorReport(
            not_started=_text(done.get("not_started")),
            journal_failed=_text(done.get("journal_failed")),
            left_running=done.get("left_running") is True,
            refusals=tuple(str(refusal) for refusal in done.get("refusals") or ()),  # type: ignore[attr-defined]
        ),
    )


def _crash_log(errors: bytes) -> str:
    """From the line that names the cause, if there is one; otherwise the end."""
    text = errors.decode(errors="replace")
    cause = _CAUSE.search(text)
    return text[cause.start() :][:_LOG] if cause is not None else text[-_LOG:]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class _Outputs:
    """Both outputs of one command."""

    def __init__(self, listen: Listen | None) -> None:
        self._lines = LineSplitter(listen) if listen is not None else None
        self._out = _Output(self._lines.feed if self._lines is not None else None)
        self._err = processes.OutputBuffer()
        self.numbers = (self._out.number, self._err.number)
        self.hand_over = self._out.hand_over
        self.wait_end = self._out.wait_end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._err.close()
        self._out.close()

    def contents(self) -> tuple[bytes, bytes]:
        """When the command has ended. What was listened to is not kept."""
        if self._lines is not None:
            self._lines.close()
        return self._out.content(), self._err.content()


class _Output:
    """Where a command writes to: a pipe that is read as it fills, or a buffer that is read at the end."""

    def __init__(self, take: Listen | None) -> None:
        self._take = take
        self._buffer = processes.OutputBuffer() if take is None else None
        self._reading, self.number = (-1, self._buffer.number) if self._buffer is not None else os.pipe()
        self._over: asyncio.Future[None] | None = None

    def close(self) -> None:
        if self._buffer is not None:
            self._buffer.close()
            return
        if self._over is not None:
            asyncio.get_running_loop().remove_reader(self._reading)
        else:
            os.close(self.number)
        os.close(self._reading)

    def hand_over(self) -> None:
        """Close our writing end: the pipe ends when the process is done."""
        if self._buffer is None:
            os.close(self.number)
            os.set_blocking(self._reading, False)
            loop = asyncio.get_running_loop()
            self._over = loop.create_future()
            loop.add_reader(self._reading, self._read, self._over)

    def _read(self, over: asyncio.Future[None]) -> None:
        try:
            chunk = os.read(self._reading, _CHUNK)
            if chunk and self._take is not None:
                self._take(chunk)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - an error of the listener is the command's error
            chunk = b""
            if not over.done():
                over.set_exception(error)
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._reading)
            if not over.done():
                over.set_result(None)

    async def wait_end(self) -> None:
        if self._over is not None:
            await self._over

    def content(self) -> bytes:
        return self._buffer.content() if self._buffer is not None else b""
