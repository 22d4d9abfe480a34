"""The runs in progress on a server: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.command import Invocation
from holdfast.cli.console import Console
from holdfast.cli.views.state import moment, show_rows
from holdfast.kernel.errors import Exit
from holdfast.kernel.text import cut, plural
from holdfast.runs.server_runs import ServerRuns
from holdfast.system import clock

if TYPE_CHECKING:  # Rich is loaded where there is a terminal to draw on.
    from rich.live import Live
    from rich.text import Text

_PHASES: Final = ("applying", "planning", "waiting", "queued")
_STYLES: Final = {"applying": "bold green", "planning": "cyan", "waiting": "yellow", "queued": "dim"}
_ENDED: Final = 5
"""Runs that ended are shown for a while: the newest ones."""
_MOST_ROWS: Final = 30
_WIDEST_STACK: Final = 40
_POLL: Final = 1.0

Run = dict[str, Any]


def watch_all(invocation: Invocation, server: ServerRuns) -> Exit:
    """Until Ctrl-C; without a terminal, until nothing is in progress."""
    console = invocation.console
    if invocation.as_json:
        return invocation.answer({"version": 1, "runs": in_progress(server)})
    with contextlib.suppress(KeyboardInterrupt):
        watch = _Live(console) if console.live else _Lines(console)
        with watch.drawing():
            while True:
                runs = in_progress(server)
                watch.show(runs, server.list(limit=_ENDED, phase="done"))
                if not console.live and not runs:
                    console.say(" Nothing is in progress.")
                    return Exit.DONE
                clock.pause(_POLL)
    return Exit.DONE


def in_progress(server: ServerRuns) -> list[Run]:
    """Those that do something first, then by age."""
    return [run for phase in _PHASES for run in reversed(server.list(limit=_MOST_ROWS, phase=phase))]


def show_workers(console: Console, workers: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            *(worker["id"], worker["host"], "silent" if worker["silent"] else worker["phase"]),
            *(plural(worker["changes"], "change"), f"last heard of {moment(worker['beat'])}"),
            " ".join(f"{name}={value}" for name, values in worker["labels"].items() for value in values),
        )
        for worker in workers
    ]
    show_rows(console, rows)
    if not workers:
        console.say(" No worker is running. Start one: holdfast worker")


class _Lines:
    """A line per change of a phase."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: dict[str, str] = {}

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        yield

    def show(self, runs: Sequence[Run], ended: Sequence[Run]) -> None:
        for run in (*runs, *(run for run in ended if run["id"] in self._known)):
            state = run["status"] or run["phase"]
            if self._known.get(run["id"]) != state:
                self._known[run["id"]] = state
                self._console.line(f" {run['id']}  {run['stack']}  {run['operation']}  {state}")


class _Live:
    """A table that is drawn again."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        from rich.live import Live

        with Live(console=self._console.rich, auto_refresh=False, transient=True) as self._live:
            self._console.draw(True)
            try:
                yield
            finally:
                self._console.draw(False)

    def show(self, runs: Sequence[Run], ended: Sequence[Run]) -> None:
        if self._live is not None:
            self._live.update(self._table(runs, ended), refresh=True)

    def _table(self, runs: Sequence[Run], ended: Sequence[Run]) -> Text:
        from rich.text import Text

        counts = [
            f"{sum(run['phase'] == phase for run in runs)} {phase}"
            for phase in _PHASES
            if any(run["phase"] == phase for run in runs)
        ]
        text = Text(f" {plural(len(runs), 'run')} in progress" + "".join(f" · {part}" for part in counts))
        for run in (*runs[:_MOST_ROWS], *ended):
            state = run["status"] or run["phase"]
            stack = cut(self._console.plain(run["stack"]), _WIDEST_STACK)
            since = clock.seconds_since(run["started"] or run["created"])
            age = f"{since:6.0f} s" if run["phase"] != "done" else "       "
            text.append(f"\n   {run['id']}  {stack:<{_WIDEST_STACK}} {run['operation']:<9} ")
            text.append(f"{state:<10}", style=_STYLES.get(run["phase"], ""))
            text.append(f"{age}  {self._console.plain(run['who'])}")
        text.append("\n Ctrl-C ends this view, not the runs.", style="dim")
        return text
