"""`python end_with_parent.py PID PROGRAM ARGUMENT…`: becomes a program that the kernel kills with its parent.

PID is the parent. The kernel compares threads: it is the thread that started this process that must live on.
A program of its own, because code between fork and exec is not safe in a process with threads. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_DEATH_SIGNAL = 1


def main() -> None:
    parent, *argv = sys.argv[1:]
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the parent has ended")
    os.execv(argv[0], argv)  # noqa: S606 - the worker starts this program only


if __name__ == "__main__":
    main()
