"""Progress of a running change: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from holdfast.cli.console import Console
from holdfast.kernel.text import plural
from holdfast.plans.events import (
    ChangeStarted,
    Event,
    HookOutput,
    Note,
    PhaseStarted,
    Resource,
    StackFinished,
    Stopping,
)
from holdfast.plans.status import Status
from holdfast.system import clock

if TYPE_CHECKING:  # Rich is loaded where there is a terminal to draw on.
    from rich.live import Live
    from rich.table import Table

_MOST_ROWS = 12
_OPERATIONS = {"import": "importing", "plan": "planning", "apply": "applying", "destroy": "destroying"}


class _Row:
    def __init__(self) -> None:
        self.phase = "waiting"
        self.since = clock.monotonic()
        self.finished = 0
        self.total = 0
        self.running: dict[str, float] = {}
        """Start time of each resource in progress."""


class Progress:
    """Shows the events of a change. As a context manager, it removes the live table at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, _Row] = {}
        self._done: set[str] = set()
        self._operation = ""
        self._started = clock.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._show_live()
        return self

    def __exit__(self, *_: object) -> None:
        self._hide_live()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Without the live table, to ask a question."""
        self._hide_live()
        try:
            yield
        finally:
            self._show_live()

    def _hide_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_live(self) -> None:
        """A new table each time: the old one would erase what was written in between."""
        if self._console.live:
            from rich.live import Live

            self._live = Live(
                console=self._console.rich,
                get_renderable=self._render,
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def handle(self, event: Event) -> None:
        match event:
            case ChangeStarted(stacks=stacks, operation=operation):
                self._operation = operation
                self._rows = {name: _Row() for name in stacks}
            case PhaseStarted(stack=stack, phase=phase):
                self._enter(stack, phase)
            case Resource():
                self._resource(event)
            case HookOutput():
                self._console.say(("  ", ""), f"{event.stack}: {event.hook}: {event.text}")
            case StackFinished(result=result):
                if result.status is not Status.PLANNED or self._operation == "plan":
                    self._done.add(result.stack.name)
                    self._rows.pop(result.stack.name, None)
                    destroyed = result.status is Status.APPLIED and self._operation == "destroy"
                    self._plain(f"{result.stack.name}: {'destroyed' if destroyed else result.status}")
            case Stopping(level=level):
                self._console.warn(self._stopping(level))
            case Note(stack=stack, text=text):
                self._console.warn(f"{stack}: {text}" if stack else text)

    def _stopping(self, level: int) -> str:
        if level > 1:
            return "Stopping now: resources in progress may be missing from the state."
        running = sum(len(row.running) for row in self._rows.values())
        after = f" after the resources in progress ({running})" if running else ""
        return (
            f"Stopping{after}. Press Ctrl-C again to stop now: "
            "resources in progress may be missing from the state."
        )

    def _enter(self, stack: str, phase: str) -> None:
        row = self._rows.setdefault(stack, _Row())
        row.phase, row.since = phase, clock.monotonic()
        if phase == "apply":
            self._plain(f"{stack}: {_OPERATIONS.get(self._operation, 'applying')}")

    def _resource(self, event: Resource) -> None:
        row = self._rows.setdefault(event.stack, _Row())
        row.finished, row.total = event.finished, event.total
        if event.done:
            row.running.pop(event.address, None)
            end = "failed" if event.failed else "complete"
            self._plain(f"{event.stack}: {event.address}: {event.action} {end} ({event.seconds:g} s)")
        else:
            row.running.setdefault(event.address, clock.monotonic())

    def _plain(self, text: str) -> None:
        if self._live is None and not self._console.live:
            self._console.say(("  ", ""), text)

    def _render(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        now = clock.monotonic()
        running = {name: row for name, row in self._rows.items() if row.phase != "waiting"}
        waiting = len(self._rows) - len(running)
        spent = int(now - self._started)
        table = Table.grid(padding=(0, 2))
        title = (
            f" {_OPERATIONS.get(self._operation, self._operation)}"
            f" {plural(len(self._rows) + len(self._done), 'stack')} · {len(self._done)} done"
            f" · {len(running)} running · {waiting} waiting"
        )
        table.add_row(Text(title), Text(f"{spent // 60:02}:{spent % 60:02}", style="dim"))
        rows = sorted(running.items(), key=lambda item: item[1].since)
        for number, (name, row) in enumerate(rows[:_MOST_ROWS]):
            table.add_row(
                Text(f"   {name}"),
                Text(_activity(row, now)),
                Text("← slowest" if number == 0 else "", style="dim"),
            )
        return table


def _activity(row: _Row, now: float) -> str:
    if row.running:
        address, since = min(row.running.items(), key=lambda item: item[1])
        return f"{row.finished}/{row.total}  {address}  {now - since:.0f} s"
    return f"{row.phase}  {now - row.since:.0f} s"
