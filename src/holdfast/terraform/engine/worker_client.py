"""One process that runs Terraform for us, and the conversation with it. It outlives us if it has to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Self

from holdfast.system import clock, processes
from holdfast.terraform.engine.interface import (
    Answer,
    CancelSequence,
    Command,
    LineSplitter,
    Listen,
    Patience,
    Stop,
    Told,
)

CRASHED = 11
"""Terraform's exit code after a panic of its own."""
_CHUNK = 1 << 18


class WorkerClient:
    """One process and the conversation with it."""

    def __init__(self, process: processes.SocketChild, *, key: str) -> None:
        self.key = key
        self.providers: str | None = None
        """The one set of provider versions it may load; None until the first command that loads any."""
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

    async def hear(self) -> dict[str, object] | None:
        """The next message, or None when the process is gone."""
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
        self, command: Command, *, stop: Stop, listen: Listen | None, patience: Patience | None = None
    ) -> Answer:
        name = clock.random_token(8)
        lines = LineSplitter(listen) if listen is not None else None
        message = {
            "run": name,
            "argv": list(command.argv),
            "folder": str(command.folder),
            **(command.attend or {}),
        }
        with processes.OutputBuffer() as err, _Output(lines.feed if lines is not None else None) as out:
            try:
                await self._ask(json.dumps(message).encode() + b"\n", (out.number, err.number))
            except OSError:
                return await self._crashed()
            out.handed_over()
            ladder = CancelSequence(patience)
            climbing = asyncio.create_task(
                ladder.climb(command, stop, lambda: self._cancel(name), self._child.kill_group)
            )
            try:
                done = await self.hear()
                if done is None:
                    # What it started may still hold the pipe open.
                    self._child.kill_group()
                await out.ended()
            except BaseException:
                self._child.kill_group()
                raise
            finally:
                climbing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await climbing
            if lines is not None:
                lines.close()
            if done is None:
                return await self._crashed(ladder, err.content())
            self.served += 1
            self.memory, self.files = int(str(done["memory"])), int(str(done["files"]))
            return _answer(done, ladder, out.content(), err.content())

    async def _ask(self, message: bytes, descriptors: tuple[int, int]) -> None:
        """Descriptors go with the first bytes; what does not fit into the socket at once follows."""
        sent = socket.send_fds(self._channel, [message], descriptors)
        if sent < len(message):
            await asyncio.get_running_loop().sock_sendall(self._channel, message[sent:])

    async def _crashed(self, ladder: CancelSequence | None = None, errors: bytes = b"") -> Answer:
        code = await self._child.wait()
        self._child.kill_group()
        errors += self._log.content(last=_CHUNK)
        return Answer(
            code=code or 1,
            err=errors,
            interrupted=ladder is not None and ladder.interrupted,
            force_cancelled=ladder is not None and ladder.force_cancelled,
            timed_out=ladder is not None and ladder.timed_out,
            killed=True,
            log=errors.decode(errors="replace")[-4000:],
        )

    def _cancel(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps({"cancel": name}).encode() + b"\n")

    @property
    def alive(self) -> bool:
        """Asked of an idle process, which says nothing unasked: what can be read is the end."""
        try:
            self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._child.ended
        except OSError:
            return False
        return False

    async def close(self) -> None:
        """Let it end by itself; whatever its commands left running in its group ends with it."""
        self._channel.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), 5.0)
        self._child.kill_group()
        await self._child.wait()
        self._log.close()


def _answer(done: dict[str, object], ladder: CancelSequence, out: bytes, err: bytes) -> Answer:
    code = int(str(done["code"]))
    crashed = code < 0 or code == CRASHED
    return Answer(
        code=code,
        out=out,
        err=err,
        interrupted=ladder.interrupted,
        force_cancelled=ladder.force_cancelled,
        timed_out=ladder.timed_out,
        killed=crashed,
        log=err.decode(errors="replace")[-4000:] if crashed else None,
        told=Told(
            not_started=_text(done.get("not_started")),
            journal_failed=_text(done.get("journal_failed")),
            unshipped=bool(done.get("unshipped")),
            refusals=tuple(str(one) for one in done.get("refusals") or ()),  # type: ignore[attr-defined]
        ),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class _Output:
    """Where a command writes to: a pipe that is heard as it comes, or a sheet that is read at the end."""

    def __init__(self, take: Listen | None) -> None:
        self._take = take
        self._sheet = processes.OutputBuffer() if take is None else None
        self._reading, self.number = (-1, self._sheet.number) if self._sheet is not None else os.pipe()
        self._over: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sheet is not None:
            self._sheet.close()
            return
        if self._over is not None:
            asyncio.get_running_loop().remove_reader(self._reading)
        else:
            os.close(self.number)
        os.close(self._reading)

    def handed_over(self) -> None:
        """The writing end is the process's alone from now on: when it is done, the pipe ends."""
        if self._sheet is None:
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
        except Exception as error:  # noqa: BLE001 - whatever the listener could not do is the command's error
            chunk = b""
            if not over.done():
                over.set_exception(error)
        if not chunk:
            asyncio.get_running_loop().remove_reader(self._reading)
            if not over.done():
                over.set_result(None)

    async def ended(self) -> None:
        if self._over is not None:
            await self._over

    def content(self) -> bytes:
        return self._sheet.content() if self._sheet is not None else b""
