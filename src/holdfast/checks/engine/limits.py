"""When a rule is stopped before its end: after a time for each, or because the user stops the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.kernel.work_limit import WorkLimitError, limit_work
from holdfast.system import clock

RULE_SECONDS: Final = 10.0
"""Of processor time, for one rule and one module, variables file, stack or plan."""
_AFTER_ANOTHER: Final = 0.1
"""The part of it where another rule was not finished: most rules of a kind share their work."""
_STEPS: Final = 100


class RuleLimit:
    def __init__(
        self,
        seconds: float = RULE_SECONDS,
        *,
        stopped: Callable[[], bool] = lambda: False,
        fail_closed: bool = False,
    ) -> None:
        """`fail_closed`: a rule that was not finished is an error, because a decision depends on it."""
        self._seconds = seconds
        self._stopped = stopped
        self._slow: set[int] = set()
        self.fail_closed = fail_closed
        self.interrupted = False
        """Something was not evaluated because the user stopped the command."""

    @contextmanager
    def on(self, subject: object, *, timed: bool = True) -> Iterator[None]:
        """Raises `WorkLimitError`, at once if the command is stopped."""
        allowed = self._seconds * (_AFTER_ANOTHER if id(subject) in self._slow else 1)
        end: float | None = None
        steps = 0

        def check() -> None:
            nonlocal end, steps
            steps += 1
            if steps % _STEPS:
                return
            self._require_running()
            if not timed:
                return
            now = clock.thread_seconds()
            if end is None:
                # Few rules get this far. To ask for the time before each would cost more than most of them.
                end = now + allowed
            elif now > end:
                self._slow.add(id(subject))
                raise WorkLimitError(f"it was not finished within {allowed:g} s")

        self._require_running()
        with limit_work(check):
            yield

    def _require_running(self) -> None:
        if self._stopped():
            self.interrupted = True
            raise WorkLimitError("stopped")
