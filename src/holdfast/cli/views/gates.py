"""Gates on a console: those that wait in a live block, or as plain lines; each result as it is decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from holdfast.cli.console import Console
from holdfast.config.shapes import duration_text
from holdfast.gates.interface import Met
from holdfast.gates.result import GateResult, Verdict
from holdfast.kernel.text import plural

if TYPE_CHECKING:  # Rich is loaded where there is a terminal to draw on.
    from rich.live import Live
    from rich.text import Text

    from holdfast.deploy.verify import ChosenGate, Verification
    from holdfast.gates.check import Attempted

_MARKS = {
    Verdict.PASSED: ("  ✓ ", "green"),
    Verdict.FAILED: ("  ✗ ", "bold red"),
    Verdict.UNCHECKED: ("  ? ", "bold yellow"),
}
_MOST_LINES = 12
_MOST_ROWS = 12
_KIND_WIDTH = 6


class GateProgress:
    """As a context manager, it removes the live block at the end."""

    def __init__(self, console: Console, target: str, chosen: Sequence[ChosenGate]) -> None:
        self._console = console
        self._target = target
        titles = [
            f"{one.gate.name} ({one.environment})" if one.environment else one.gate.name for one in chosen
        ]
        self._width = max(map(len, titles))
        self._waiting: dict[str, Attempted | None] = dict.fromkeys(titles)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._console.say(f" {self._target}: checking {plural(len(self._waiting), 'gate')}")
        if self._console.live:
            from rich.live import Live

            self._live = Live(
                console=self._console.rich,
                get_renderable=self._render,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            self._console.draw(True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._console.draw(False)

    def attempted(self, attempt: Attempted) -> None:
        before = self._waiting.get(attempt.title)
        self._waiting[attempt.title] = attempt
        changed = before is None or before.observation.text != attempt.observation.text
        if self._live is None and changed and attempt.left and not isinstance(attempt.observation, Met):
            left = f"checked again for {duration_text(attempt.left)}"
            self._console.say(("  … ", "dim"), f"{attempt.title}: {attempt.observation.text}; {left}")

    def decided(self, result: GateResult) -> None:
        self._waiting.pop(result.title, None)
        kind = f"{result.kind:<{_KIND_WIDTH}}"
        self._console.line(
            _MARKS[result.verdict], f"{result.title:<{self._width}}  ", (f"{kind}  ", "dim"), result.reason
        )

    def _render(self) -> Text:
        from rich.text import Text

        block = Text(no_wrap=True, overflow="ellipsis")
        shown = list(self._waiting.items())[:_MOST_ROWS]
        for title, attempt in shown:
            block.append(f"  … {title:<{self._width}}  ", style="dim")
            text = "first attempt"
            if attempt is not None:
                left = duration_text(attempt.left)
                text = f"attempt {attempt.number}, {left} left: {attempt.observation.text}"
            block.append(f"{self._console.plain(text)}\n")
        if more := len(self._waiting) - len(shown):
            block.append(f"  … and {more} more\n", style="dim")
        return block


def show_gate(console: Console, result: GateResult) -> None:
    """One line."""
    console.line(_MARKS[result.verdict], f"{result.title}  ", (f"{result.kind}  ", "dim"), result.reason)


def show_verification(console: Console, verification: Verification) -> None:
    """The evidence of what did not pass, then one line about everything."""
    for result in verification.results:
        if result.verdict is not Verdict.PASSED:
            _show_evidence(console, verification.target, result)
    counts = [f"{verification.count(Verdict.PASSED)} passed", f"{verification.count(Verdict.FAILED)} failed"]
    if unchecked := verification.count(Verdict.UNCHECKED):
        counts.append(f"{unchecked} not checked")
    console.say(f" {', '.join(counts)} · holdfast runs show {verification.run}")


def _show_evidence(console: Console, target: str, result: GateResult) -> None:
    console.line("")
    console.line((f" {result.title}", "bold"), f": {result.reason}")
    for seen in result.seen if len(result.seen) > 1 else ():
        when = f"{seen.first:.0f} s" if seen.count == 1 else f"{seen.first:.0f} to {seen.last:.0f} s"
        console.line((f"   {seen.count:>4} times  ", "dim"), f"{seen.text} ", (f"({when})", "dim"))
    if result.unlisted:
        console.line((f"   {result.unlisted:>4} times  ", "dim"), "something else")
    for part in result.evidence:
        lines = part.text.splitlines()
        console.line((f"   {part.title}:", "dim"))
        for line in lines[:_MOST_LINES]:
            console.line(f"     {line}")
        if len(lines) > _MOST_LINES:
            console.line((f"     … {len(lines) - _MOST_LINES} more lines (all of them: --json)", "dim"))
    if result.next_step:
        console.line(f"   What to do: {result.next_step}")
    console.line(f"   Then: holdfast verify {target} --gate {result.name}")
