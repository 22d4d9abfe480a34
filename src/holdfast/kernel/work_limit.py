"""A limit for work that nothing can interrupt from outside: at its steps, it asks whether it may continue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class WorkLimitError(Exception):
    """The work was not finished; the text says why."""


class _Limit(threading.local):
    check: Callable[[], None] | None = None


_limit = _Limit()


@contextmanager
def limit_work(check: Callable[[], None]) -> Iterator[None]:
    """Until the end of the block, each `check_work_limit` of this thread calls `check`, which may raise."""
    before, _limit.check = _limit.check, check
    try:
        yield
    finally:
        _limit.check = before


def check_work_limit() -> None:
    """Called again and again by work that may take long. Does nothing without a limit."""
    if (check := _limit.check) is not None:
        check()
