"""Progress of a running change: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from holdfast.cli.console import Console
from holdfast.kernel.text import plural
from holdfast.plans.events import (
    ACTIVITIES,
    STOPPING_NOW,
    ChangeStarted,
    Event,
    Note,
    PhaseStarted,
    ProgramOutput,
    Resource,
    StackChecked,
    StackFinished,
    Stopping,
)
from holdfast.system import clock

if TYPE_CHECKING:  # Rich is loaded where there is a terminal to draw on.
    from rich.live import Live
    from rich.text import Text

_MOST_ROWS = 12
_WIDEST_NAME = 30


class _Row:
    def __init__(self) -> None:
        self.phase = "waiting"
        self.since = clock.monotonic()
        self.finished = 0
        self.total = 0
        self.running: dict[str, float] = {}
        """Start time of each resource in progress."""


class Progress:
    """Shows the events of a change: what is finished as lines, what is running in a live block below them.

    As a context manager, it removes the live block at the end.
    """

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
        """Without the live block, to ask a question."""
        self._hide_live()
        try:
            yield
        finally:
            self._show_live()

    def _hide_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._console.draw(False)

    def _show_live(self) -> None:
        """A new one each time: the old one would erase what was written in between."""
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
            self._console.draw(True)

    def handle(self, event: Event) -> None:
        match event:
            case ChangeStarted(stacks=stacks, operation=operation):
                self._operation = operation
                self._rows = {name: _Row() for name in stacks}
            case PhaseStarted(stack=stack, phase=phase):
                self._enter(stack, phase)
            case Resource():
                self._resource(event)
            case ProgramOutput():
                indent = "    " if self._live is not None else "  "
                self._console.say((indent, ""), f"{event.stack}: {event.program}: {event.text}")
            case StackFinished():
                self._finish(event)
            case StackChecked(stack=stack, outcome=outcome):
                self._end(stack, f"{stack}: {outcome}")
            case Stopping(level=level):
                self._console.warn(self._stopping(level))
            case Note(stack=stack, text=text):
                self._console.warn(f"{stack}: {text}" if stack else text)

    def _finish(self, event: StackFinished) -> None:
        text, name = event.shown(self._operation), event.result.stack.name
        if text is not None:
            self._end(name, text)

    def _end(self, name: str, text: str) -> None:
        self._done.add(name)
        self._rows.pop(name, None)
        self._plain(text)

    def _stopping(self, level: int) -> str:
        if level > 1:
            return STOPPING_NOW
        running = sum(len(row.running) for row in self._rows.values())
        if not running:
            return "Stopping. Press Ctrl-C again to stop now."
        return (
            f"Stopping after the resources in progress ({running}). Press Ctrl-C again to stop now: "
            "what is in progress may be lost from the state."
        )

    def _enter(self, stack: str, phase: str) -> None:
        row = self._rows.setdefault(stack, _Row())
        row.phase, row.since = phase, clock.monotonic()
        if phase == "apply":
            self._plain(f"{stack}: {ACTIVITIES.get(self._operation, 'applying')}")

    def _resource(self, event: Resource) -> None:
        row = self._rows.setdefault(event.stack, _Row())
        row.finished, row.total = event.finished, event.total
        if not event.done:
            row.running.setdefault(event.address, clock.monotonic())
            return
        row.running.pop(event.address, None)
        row.since = clock.monotonic()
        if self._live is not None:
            mark = ("  ✗ ", "bold red") if event.failed else ("  ✓ ", "green")
            self._console.say(mark, event.shown)
        else:
            self._plain(event.shown)

    def _plain(self, text: str) -> None:
        """Where there is no live block."""
        if not self._console.live:
            self._console.say(("  ", ""), text)

    def _render(self) -> Text:
        """One line per running stack, cut to the width of the terminal."""
        from rich.text import Text

        now = clock.monotonic()
        running = {name: row for name, row in self._rows.items() if row.phase != "waiting"}
        waiting = len(self._rows) - len(running)
        spent = int(now - self._started)
        shown = sorted(running.items(), key=lambda item: item[1].since)[:_MOST_ROWS]
        name_width = min(max((len(name) for name, _ in shown), default=0), _WIDEST_NAME)
        block = Text(no_wrap=True, overflow="ellipsis")
        block.append(
            f" {ACTIVITIES.get(self._operation, self._operation)}"
            f" {plural(len(self._rows) + len(self._done), 'stack')} · {len(self._done)} done"
            f" · {len(running)} running · {waiting} waiting"
        )
        block.append(f"  {spent // 60:02}:{spent % 60:02}", style="dim")
        for number, (name, row) in enumerate(shown):
            short = name if len(name) <= name_width else f"…{name[-name_width + 1 :]}"
            block.append(f"\n   {short:<{name_width}}  {self._console.plain(_activity(row, now))}")
            block.append("  ← slowest" if number == 0 and len(shown) > 1 else "", style="dim")
        if more := len(running) - len(shown):
            block.append(f"\n   … and {plural(more, 'more stack', 'more stacks')}", style="dim")
        return block


def _activity(row: _Row, now: float) -> str:
    """What takes longest: `12/31  48 s  aws_nat_gateway.b`."""
    done = f"{row.finished}/{row.total}" if row.total else ""
    if row.running:
        address, since = min(row.running.items(), key=lambda item: item[1])
        return f"{done:<7} {now - since:>3.0f} s  {address}"
    phase = "saving state" if row.total and row.finished >= row.total else row.phase
    return f"{done:<7} {now - row.since:>3.0f} s  {phase}"
