"""Follows a change on the server: prints the lines of its runs as they come, until it is done or waits."""

from __future__ import annotations

import queue
import sys
import threading
from typing import Any, Final

from holdfast.cli.console import Console
from holdfast.kernel.errors import HoldfastError
from holdfast.runs.server_runs import RunEvent, ServerRuns
from holdfast.system import clock

_MOST_STREAMS: Final = 12
"""Runs that are followed before they have begun."""
_POLL: Final = 1.0
_QUIET: Final = 3.0
"""Seconds after which a change that no worker took is explained."""
_LAST_LINES: Final = 5.0
"""Seconds to wait for the last lines of a change that is over."""
_OVER: Final = frozenset({"done", "waiting"})


class Detached(Exception):  # noqa: N818 - names what the user did
    """The change continues on the server."""


class Following:
    """Ctrl-C asks whether to cancel the change or to leave it alone; the second one leaves it alone."""

    def __init__(self, server: ServerRuns, console: Console, change: str) -> None:
        self._server = server
        self._console = console
        self._change = change
        self._events: queue.SimpleQueue[tuple[str, RunEvent | HoldfastError]] = queue.SimpleQueue()
        self._phases: dict[str, str] = {}
        """Of the runs that are followed, as their streams say."""
        self._lost: set[str] = set()
        self._explained = False

    def until_over(self) -> dict[str, Any]:
        """The change when it is done, or waits for a decision."""
        try:
            return self._follow()
        except KeyboardInterrupt:
            pass
        try:
            self._cancel()
            return self._follow()
        except KeyboardInterrupt:
            raise Detached from None

    def _follow(self) -> dict[str, Any]:
        begun, over_since = clock.monotonic(), None
        while True:
            change = self._server.change(self._change)
            for run in change["runs"]:
                if run["phase"] != "queued" or len(change["runs"]) <= _MOST_STREAMS:
                    self._start(run["id"])
            if change["phase"] in _OVER:
                over_since = over_since or clock.monotonic()
                is_shown = all(phase in _OVER for phase in self._phases.values())
                if is_shown or clock.monotonic() - over_since > _LAST_LINES:
                    self._show_events(0)
                    return change
            elif change["phase"] == "queued" and clock.monotonic() - begun > _QUIET and not self._explained:
                self._explained = True
                self._console.say(" Queued: waiting for a worker, or for an earlier run of the same stack")
            self._show_events(_POLL)

    def _start(self, run: str) -> None:
        if run not in self._phases:
            self._phases[run] = ""
            threading.Thread(target=self._stream, args=(run,), name=f"holdfast-{run}", daemon=True).start()

    def _stream(self, run: str) -> None:
        try:
            for event in self._server.follow(run):
                self._events.put((run, event))
        except HoldfastError as error:
            self._events.put((run, error))

    def _show_events(self, seconds: float) -> None:
        """Those that arrived, or the first that arrives in time. Returns early when a phase changed."""
        while True:
            try:
                run, event = self._events.get(timeout=seconds) if seconds else self._events.get_nowait()
            except queue.Empty:
                return
            if isinstance(event, HoldfastError):
                raise event
            match event.kind:
                case "line":
                    self._console.say(f"   {event.text}")
                case "lost" if not self._lost:
                    self._console.warn(f"Lost the connection to the server: {event.text}. Connecting again.")
                case "status" | "end":
                    self._phases[run] = event.state["phase"]
                    seconds = 0
            if event.kind == "lost":
                self._lost.add(run)
            else:
                self._lost.discard(run)

    def _cancel(self) -> None:
        if sys.stdin.isatty() and not self._asks_to_cancel():
            raise Detached
        self._server.cancel_change(self._change, "cancelled on the command line")
        self._console.say(" Cancelling. Press Ctrl-C again to leave it to the server.")

    def _asks_to_cancel(self) -> bool:
        self._console.question("Cancel the change on the server? Otherwise it continues there.")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
