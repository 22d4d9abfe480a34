"""Follows a change on the server: prints the lines of its runs as they come, until it is done or waits."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.cli.console import Console
from holdfast.identity.client import Unreachable
from holdfast.kernel.errors import Failed, HoldfastError, Refused
from holdfast.kernel.server_hints import on_server
from holdfast.plans.events import STOPPING_NOW
from holdfast.runs.server_runs import RunEvent, ServerRuns, goes_on
from holdfast.system import clock

_POLL: Final = 1.0
_LOOK: Final = 0.5
"""Seconds between two looks for the plans of applies that have begun."""
_QUIET: Final = 3.0
"""Seconds after which a change that no worker took is explained."""
_PATIENCE: Final = 300.0
"""Seconds: a server that is started again is back before."""
_WHY: Final = "cancelled on the command line"
_OVER: Final = frozenset({"done", "waiting"})


class Detached(Exception):  # noqa: N818 - names what the user did
    """The change continues on the server."""


class Following:
    """Ctrl-C asks whether to cancel the change, the second one whether to stop it at once.

    Without a terminal, the first one cancels it and the second one leaves it to the server: CI sends two in a
    row, and what is in progress must not be lost for that.
    """

    def __init__(
        self,
        server: ServerRuns,
        console: Console,
        change: str,
        show_plans: Callable[[set[str]], None] = lambda _: None,
    ) -> None:
        """`show_plans` gets the runs whose apply has begun, and removes those whose plan it showed."""
        self._server = server
        self._console = console
        self._change = change
        self._events: queue.SimpleQueue[RunEvent | HoldfastError] = queue.SimpleQueue()
        self._stream: threading.Thread | None = None
        self._show_plans = show_plans
        self._started: set[str] = set()
        self._looked = -_LOOK
        self._phase = ""
        """Of the change, as its stream says."""
        self._lost = False
        self._explained: str | None = None
        """What the change waits for, as it was shown."""

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """A server that is away is waited for. If it stays away, the change goes on there all the same."""
        self._server.client.be_patient(_PATIENCE, self._tell_lost)
        try:
            yield
        except Unreachable as error:
            hint = goes_on(self._change, self._server.client.url)
            raise Failed(error.problem.code, error.problem.message, hint=hint) from None

    def until_over(self) -> dict[str, Any]:
        """The change when it is done, or waits for a decision."""
        told = ""
        try:
            for interrupted in (self._cancel, self._force):
                try:
                    return self._follow(told)
                except KeyboardInterrupt:
                    told = interrupted()
            return self._follow(told)
        except KeyboardInterrupt:
            raise Detached from None

    def _follow(self, told: str) -> dict[str, Any]:
        """`told`: what the interrupt did, which the next one may interrupt already."""
        if told:
            self._console.say(f" {told}")
        begun = clock.monotonic()
        if self._stream is None:
            self._stream = threading.Thread(target=self._read, name="holdfast-stream", daemon=True)
            self._stream.start()
        while True:
            self._show_events(_POLL)
            if self._started and clock.monotonic() - self._looked >= _LOOK:
                self._show_plans(self._started)
                self._looked = clock.monotonic()
            if self._phase in _OVER:
                change = self._server.change(self._change)
                if change["phase"] in _OVER:
                    return change
                self._phase = change["phase"]  # A worker goes on with it.
            elif self._phase == "queued" and clock.monotonic() - begun > _QUIET:
                self._explain()

    def _explain(self) -> None:
        change = self._server.change(self._change)
        reason = change.get("waiting_for") or "a worker"
        if change["phase"] == "queued" and reason != self._explained:
            self._explained = reason
            self._console.say(f" Queued: waiting for {reason}")

    def _read(self) -> None:
        try:
            for event in self._server.follow_change(self._change):
                self._events.put(event)
        except HoldfastError as error:
            self._events.put(error)

    def _show_events(self, seconds: float) -> None:
        """Those that arrived, or the first that arrives in time."""
        while True:
            try:
                event = self._events.get(timeout=seconds) if seconds else self._events.get_nowait()
            except queue.Empty:
                return
            if isinstance(event, HoldfastError):
                raise event
            match event.kind:
                case "line":
                    self._console.say(f"   {on_server(event.text, self._server.client.login.option)}")
                case "lost":
                    self._tell_lost(event.text)
                case "status" if event.state["phase"] == "applying":
                    self._started.add(event.state["run"])
                case "change" | "end":
                    self._phase = event.state["phase"]
            if event.kind != "lost" and self._lost:
                self._lost = False
                self._console.warn("The server is back.")
            seconds = 0

    def _tell_lost(self, reason: str) -> None:
        if not self._lost:
            self._lost = True
            self._console.warn(f"The server is away: {reason}. The change goes on; trying again.")

    def _cancel(self) -> str:
        terminal = sys.stdin.isatty()
        if terminal and not self._asks("Cancel the change on the server? Otherwise it continues there."):
            raise Detached
        self._server.cancel_change(self._change, _WHY)
        again = "to stop it at once" if terminal else "to leave it to the server"
        return f"Cancelling: resources in progress are finished. Press Ctrl-C again {again}."

    def _force(self) -> str:
        question = (
            "Stop it at once? What is in progress may be lost from the state. "
            "Otherwise the server finishes it, and cancels the rest."
        )
        if not sys.stdin.isatty() or not self._asks(question):
            raise Detached
        try:
            self._server.cancel_change(self._change, _WHY, force=True)
        except Refused:
            return ""  # It is done.
        return STOPPING_NOW

    def _asks(self, question: str) -> bool:
        self._console.question(question)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
