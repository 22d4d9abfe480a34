"""A loop that takes work from rows, which are the queue, and does it in threads.

A slow receiver delays only its own work. Several servers on one database share it, by leases.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from holdfast.system import clock

AT_ONCE: Final = 8
_STOP_SECONDS: Final = 5.0
"""What is not finished then is done again by the next start."""
T = TypeVar("T")


class Work(Protocol[T]):
    def take(self) -> T | None:
        """The next piece, leased."""
        ...

    def send(self, taken: T, /) -> None: ...

    def report(self, error: Exception) -> None:
        """Unexpected, such as a database that cannot be used at the moment: the work goes on."""
        ...


class DeliveryLoop(Generic[T]):
    """A thread that takes work, and one for each piece that is being done."""

    def __init__(self, work: Work[T], interval: float, *, name: str) -> None:
        self._work = work
        self._interval = interval
        self._name = name
        self._ended = threading.Event()
        self._free = threading.Semaphore(AT_ONCE)
        self._thread = threading.Thread(target=self._run, name=f"holdfast-{name}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Waits a while for what is being sent."""
        self._ended.set()
        until = clock.monotonic() + _STOP_SECONDS
        self._thread.join(_STOP_SECONDS)
        for _ in range(AT_ONCE):
            self._free.acquire(timeout=max(0.0, until - clock.monotonic()))

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._begin_next():
                self._ended.wait(self._interval)

    def _begin_next(self) -> bool:
        """False: there is nothing to send, or all threads are busy."""
        if not self._free.acquire(timeout=self._interval):
            return False
        taken = self._guarded(self._work.take)
        if taken is None:
            self._free.release()
            return False
        threading.Thread(
            target=self._send, args=(taken,), name=f"holdfast-{self._name}-one", daemon=True
        ).start()
        return True

    def _send(self, taken: T) -> None:
        """After an error its lease ends, and it is sent again."""
        try:
            self._guarded(lambda: self._work.send(taken))
        finally:
            self._free.release()

    def _guarded(self, work: Callable[[], T | None]) -> T | None:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - the others go on
            self._work.report(error)
            return None


@contextmanager
def hold_delivery(work: Work[T], *, interval: float, name: str) -> Iterator[None]:
    loop = DeliveryLoop(work, interval, name=name)
    try:
        yield
    finally:
        loop.end()
