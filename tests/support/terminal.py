"""The program on a terminal of a given width, and what a person sees on it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence

from program import Program

_PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|([\r\n])|([^\x1b\r\n]+)")


class Screen:
    """Text with the commands that move the cursor or erase, as a terminal that never scrolls shows it."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for part in _PART.finditer(text):
            count, command, move, shown = part.groups()
            if command == "A":
                self._row = max(0, self._row - int(count or 1))
            elif command == "K":
                self.lines[self._row] = "" if count == "2" else self.lines[self._row][: self._column]
            elif move == "\r":
                self._column = 0
            elif move == "\n":
                self._down()
            elif shown:
                self._write(shown)

    def _down(self) -> None:
        self._row += 1
        self.lines += [""] * (self._row - len(self.lines) + 1)

    def _write(self, text: str) -> None:
        for char in text:
            if self._column >= self.columns:
                self._down()
                self._column = 0
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + char + line[self._column + 1 :]
            self._column += 1

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


class Terminal:
    """Holdfast on a terminal: type, wait for a text, and look at the screen."""

    def __init__(
        self,
        program: Program,
        arguments: Sequence[str],
        *,
        columns: int = 100,
        env: Mapping[str, str] | None = None,
    ) -> None:
        environment = {**program.environment, "TERM": "xterm", **(env or {})}
        environment.pop("COLUMNS")
        self.screen = Screen(columns)
        self.shown = ""
        self._child, self._terminal = pty.fork()
        if self._child == 0:  # pragma: no cover - the program takes this process over
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
                os.chdir(program.folder)
                os.execve(sys.executable, [sys.executable, "-m", "holdfast", *arguments], environment)  # noqa: S606 - a terminal needs a fork of our own
            finally:
                os._exit(127)

    def until(self, text: str) -> None:
        """Wait until the program has written it; the limit is only there to end a broken test."""
        end = time.monotonic() + 60
        while text not in self.shown:
            if time.monotonic() > end:
                os.kill(self._child, signal.SIGKILL)
                raise AssertionError(f"{text!r} never came:\n{self.screen.text}")
            if not self._read():
                raise AssertionError(f"it ended without {text!r}:\n{self.screen.text}")

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self) -> int:
        """The exit code."""
        while self._read():
            pass
        _, status = os.waitpid(self._child, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)

    def _read(self) -> bool:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if not select.select([self._terminal], [], [], 1)[0]:
                continue
            try:
                data = os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:
                return False
            self.shown += data
            self.screen.feed(data)
            return bool(data)
        os.kill(self._child, signal.SIGKILL)
        raise AssertionError(f"nothing more came:\n{self.screen.text}")
