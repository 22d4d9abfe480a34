"""Terraform's output on its way from a worker to its caller: recorded first, then forwarded.

The caller may be slow, stopped or gone; Terraform never waits for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

_BUFFER = 1 << 20
_PIECE = 1 << 16
"""At most this much is recorded at once: on a full disk no more than that is lost."""
_POLL_SECONDS = 0.02
"""Between two reads of a file that Terraform writes to."""
_FORWARD_SECONDS = 5.0


class OutputRelay:
    def __init__(
        self, out: int, record: Callable[[bytes], None], buffer: str | None, ended: threading.Event
    ) -> None:
        if buffer is None:
            reading, self.entry = os.pipe()
        else:
            # The content of a pipe is lost with its reader; a file in memory is not.
            self.entry = os.open(buffer, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            reading = os.open(buffer, os.O_RDONLY)
        self._is_file = buffer is not None
        self._ended = ended
        self._out = out
        self._record = record
        self._waiting: list[bytes] = []
        self._more = threading.Condition()
        self._done = False
        self._reading = reading
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def wait_forwarded(self) -> None:
        """Wait a while until the caller has read all output."""
        self._writer.join(timeout=_FORWARD_SECONDS)

    def record_all(self) -> None:
        """Record and forward all output, until Terraform has ended."""
        reading = self._reading
        partial: list[bytes] = []
        while chunk := self._next(reading):
            whole, cut, rest = chunk.rpartition(b"\n")
            if cut:
                self._forward(b"".join((*partial, whole, cut)))
                partial.clear()
            if rest:
                partial.append(rest)
        if partial:
            self._forward(b"".join(partial))
        os.close(reading)
        with self._more:
            self._done = True
            self._more.notify()

    def _next(self, reading: int) -> bytes:
        """New output; empty at the end. A file does not announce new content, so it is polled."""
        while self._is_file:
            over = self._ended.is_set()
            chunk = os.read(reading, _PIECE)
            if chunk or over:
                return chunk
            self._ended.wait(_POLL_SECONDS)
        return os.read(reading, _BUFFER)

    def _forward(self, lines: bytes) -> None:
        self._record(lines)
        with self._more:
            self._waiting.append(lines)
            self._more.notify()

    def _write(self) -> None:
        while True:
            with self._more:
                while not self._waiting and not self._done:
                    self._more.wait()
                chunks, self._waiting = self._waiting, []
                over = self._done
            try:
                for chunk in chunks:
                    view = memoryview(chunk)
                    while view:
                        view = view[os.write(self._out, view) :]
            except OSError:
                break  # The caller has ended.
            if over and not self._waiting:
                break
        os.close(self._out)
