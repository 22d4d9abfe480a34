"""Standard streams that the caller left closed, broken or full."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def open_closed() -> None:
    """Redirect closed streams to /dev/null; otherwise the next opened file would take their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _to_nowhere(number)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))


def give_up_output() -> None:
    """Stop writing: Python would try again at exit, and complain."""
    _to_nowhere(1)


def flush_or_give_up() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        give_up_output()


def columns(stream: TextIO) -> int:
    """The width of a terminal; 80 where it does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def _to_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
