"""A change while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.cli.console import Console
from holdfast.plans.events import Begun, Ended, Entered, Event, Note, Resource, Stopping
from holdfast.plans.status import Status
from holdfast.system import clock

if TYPE_CHECKING:  # Rich is loaded where there is a terminal to draw on.
    from rich.live import Live
    from rich.table import Table

_MOST_ROWS = 12


class _Row:
    def __init__(self) -> None:
        self.phase = "waiting"
        self.since = clock.monotonic()
        self.finished = 0
        self.total = 0
        self.at_work: dict[str, float] = {}


class Progress:
    """Listens to a change. Use as a context: the live part goes away at its end."""

    def __init__(self, console: Console, *, grouped: bool = False) -> None:
        self._console = console
        self._grouped = grouped
        self._rows: dict[str, _Row] = {}
        self._done: set[str] = set()
        self._operation = ""
        self._began = clock.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self.resumed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.paused()

    def paused(self) -> None:
        """Take the live part off the screen, for a question or for good."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def resumed(self) -> None:
        """A new one each time: an old one would wipe what was written in between."""
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

    def hear(self, event: Event) -> None:
        match event:
            case Begun(stacks=stacks, operation=operation):
                self._operation = {
                    "plan": "planning",
                    "apply": "applying",
                    "destroy": "destroying",
                }.get(operation, operation)
                self._rows = {name: _Row() for name in stacks}
            case Entered(stack=stack, phase=phase):
                self._enter(stack, phase)
            case Resource():
                self._resource(event)
            case Ended(result=result):
                if result.status is not Status.PLANNED or self._operation == "planning":
                    self._done.add(result.stack.name)
                    self._rows.pop(result.stack.name, None)
                    self._plain(f"{result.stack.name}: {result.status}")
            case Stopping(level=level):
                self._console.warn(
                    "stopping: Terraform finishes what it began and saves the state (Ctrl-C again: at once)"
                    if level == 1
                    else "stopping at once: what was being made may be missing in the state"
                )
            case Note(stack=stack, text=text):
                self._console.warn(f"{stack}: {text}" if stack else text)

    def _enter(self, stack: str, phase: str) -> None:
        row = self._rows.setdefault(stack, _Row())
        row.phase, row.since = phase, clock.monotonic()
        if phase == "apply":
            self._plain(f"{stack}: applying")

    def _resource(self, event: Resource) -> None:
        row = self._rows.setdefault(event.stack, _Row())
        row.finished, row.total = event.finished, event.total
        if event.done:
            row.at_work.pop(event.address, None)
            failed = "failed" if event.failed else "done"
            self._plain(f"{event.stack}: {event.address} {event.action} {failed} ({event.seconds:g} s)")
        else:
            row.at_work.setdefault(event.address, clock.monotonic())

    def _plain(self, text: str) -> None:
        if self._live is None and not self._console.live:
            self._console.say(("  ", ""), text)

    def _render(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        now = clock.monotonic()
        busy = {name: row for name, row in self._rows.items() if row.phase != "waiting"}
        waiting = len(self._rows) - len(busy)
        spent = int(now - self._began)
        table = Table.grid(padding=(0, 2))
        title = (
            f" {self._operation} {len(self._rows) + len(self._done)} stacks · {len(self._done)} done"
            f" · {len(busy)} at work · {waiting} waiting"
        )
        table.add_row(Text(title), Text(f"{spent // 60:02}:{spent % 60:02}", style="dim"))
        rows = sorted(busy.items(), key=lambda item: item[1].since)
        for number, (name, row) in enumerate(rows[:_MOST_ROWS]):
            table.add_row(
                Text(f"   {name}"),
                Text(_what(row, now)),
                Text("← slowest" if number == 0 else "", style="dim"),
            )
        return table


def _what(row: _Row, now: float) -> str:
    if row.at_work:
        address, since = min(row.at_work.items(), key=lambda item: item[1])
        return f"{row.finished}/{row.total}  {address}  {now - since:.0f} s"
    return f"{row.phase}  {now - row.since:.0f} s"
