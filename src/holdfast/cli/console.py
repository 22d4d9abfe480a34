"""Everything a user reads on a terminal goes through here, and through the redactor. Colour is never needed.

Text goes to standard output, unless that is reserved for a JSON document.
"""

from __future__ import annotations

import functools
import io
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from holdfast.kernel.errors import Exit, Problem
from holdfast.kernel.text import first_names, without_controls
from holdfast.secrets.redact import Redactor
from holdfast.system import standard_streams

if TYPE_CHECKING:  # Rich is loaded where there is a terminal to draw on.
    from rich.console import Console as RichConsole

Piece = str | tuple[str, str]
"""A piece of a line: text, or text with its style."""

_MOST_PROBLEMS = 20
_MOST_NAMES = 3


class _Screen:
    """One stream: plain text, or Rich text on a terminal with colour."""

    def __init__(self, stream: TextIO, *, color: bool, actions: bool) -> None:
        self._stream = stream
        self._color = color
        self._actions = actions
        self.terminal = stream.isatty()
        self.drawing = False
        """A live block is below the text: Rich must print, so that it can move the block down."""

    @functools.cached_property
    def rich(self) -> RichConsole:
        from rich.console import Console as RichConsole

        return RichConsole(
            file=self._stream,
            highlight=False,
            markup=False,
            emoji=False,
            no_color=not self._color,
            color_system="auto" if self._color else None,
        )

    @property
    def columns(self) -> int:
        return standard_streams.columns(self._stream)

    def write(self, pieces: Sequence[tuple[str, str]], end: str = "\n") -> None:
        """On a terminal, long lines are wrapped; in a pipe or a log never."""
        if not self.terminal:
            self.write_plain("".join(text for text, _ in pieces) + end)
            return
        from holdfast.cli.wrapping import wrap

        lines = wrap(pieces, self.columns)
        if not (self._color or self.drawing):
            self.write_plain("\n".join("".join(text for text, _ in line) for line in lines) + end)
            return
        from rich.text import Text

        shown = Text("\n").join(Text.assemble(*line) for line in lines)
        self.rich.print(shown, soft_wrap=True, end=end)

    def write_plain(self, text: str, *, command: bool = False) -> None:
        """In a CI job a line can be a command to the runner: other programs' text is escaped."""
        if self._actions and not command:
            from holdfast.system.markup import escape_commands

            text = escape_commands(text)
        self._stream.write(text)
        self._stream.flush()


class Console:
    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        color: bool = True,
        ci: bool = False,
        actions: bool = False,
    ) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.as_json = as_json
        self.quiet = quiet
        self.redactor = Redactor()
        self._out = _Screen(sys.stderr if as_json else sys.stdout, color=color, actions=actions)
        self._own_err = _Screen(sys.stderr, color=color, actions=actions)
        self.live = self._out.terminal and not ci and not quiet

    @property
    def rich(self) -> RichConsole:
        return self._out.rich

    @property
    def columns(self) -> int | None:
        """The width of the terminal; None: lines are not wrapped."""
        return self._out.columns if self._out.terminal else None

    @property
    def _err(self) -> _Screen:
        """Above a live block on the same terminal, so that the block does not overwrite it."""
        return self._out if self._out.drawing and self._own_err.terminal else self._own_err

    def draw(self, drawing: bool) -> None:
        """Whether a live block is on the screen."""
        self._out.drawing = drawing

    def reserve_output(self) -> None:
        """Reserve standard output for a document: other text goes to standard error from now on."""
        self._out = self._own_err
        self.live = self.live and self._out.terminal

    def line(self, *pieces: Piece) -> None:
        """Print a line of a result, also with `--quiet`."""
        self._out.write(self._clean(pieces))

    def say(self, *pieces: Piece) -> None:
        """Print a line, unless `--quiet`."""
        if not self.quiet:
            self.line(*pieces)

    def command(self, line: str, *, before: str = "") -> None:
        """Print a line for the runner of a CI job. Control characters are allowed only in `before`."""
        self._out.write_plain(f"{before}{self.plain(line)}\n", command=True)

    def note(self, text: str) -> None:
        """Print a line to standard error, also with `--quiet`."""
        self._err.write(self._clean((text,)))

    def warn(self, text: str) -> None:
        self._err.write(self._clean([(" ! ", "bold yellow"), text]))

    def problems(self, problems: tuple[Problem, ...], exit_: Exit) -> None:
        """Print each problem with code, place, message and hint, then the exit code."""
        merged = _merged(problems)
        for problem in merged[:_MOST_PROBLEMS]:
            where = f"{problem.place}  " if problem.place is not None else ""
            message = problem.message.replace("\n", "\n   ")
            self._err.write(self._clean([(" ✗ ", "bold red"), (problem.code, "bold"), f"  {where}{message}"]))
            if problem.hint:
                self._err.write(self._clean([f"   {problem.hint}"]))
        if (more := len(merged) - _MOST_PROBLEMS) > 0:
            self._err.write(self._clean([f"   … and {more} more (all of them: --json)"]))
        usage_errors = len(merged) if exit_ is Exit.USAGE else 0
        many = f"{usage_errors} mistakes; nothing was run. " if usage_errors > 1 else ""
        self._err.write(self._clean([(f"   {many}exit {int(exit_)}", "dim")]))

    def stack_problems(self, problems: tuple[Problem, ...]) -> None:
        """In a list of stacks, below the one that they concern."""
        for problem in problems:
            where = f"{problem.place}  " if problem.place is not None else ""
            self.line(("    ✗ ", "red"), (problem.code, "bold"), f"  {where}{problem.message}")
            if problem.hint:
                self.line(("      ", ""), (problem.hint, "dim"))

    def trace(self, error: BaseException) -> None:
        """Print a traceback for a bug report, without secrets."""
        self._err.write(self._clean(["".join(traceback.format_exception(error))]), end="")

    def question(self, text: str, *, answers: str = " [y/N]") -> None:
        self.line("")
        self._out.write(self._clean([f" {text}{answers} "]), end="")

    def _clean(self, pieces: Sequence[Piece]) -> list[tuple[str, str]]:
        """Without secrets, colour codes of other programs, and control characters."""
        pairs = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
        return [(self.plain(text), style) for text, style in pairs]

    def plain(self, text: str) -> str:
        """Redact before and after: a control character may be part of a secret, or may split one."""
        cleaned = self.redactor.clean(text)
        plain = without_controls(cleaned)
        return plain if plain == cleaned else self.redactor.clean(plain)


def _merged(problems: Sequence[Problem]) -> list[Problem]:
    """Problems that differ only in the stack at their beginning (`dev/app: …`) as one, with its names."""
    alike: dict[Problem, list[str]] = {}
    for problem in problems:
        name, colon, text = problem.message.partition(": ")
        if " " in name or not colon:
            name, text = "", problem.message
        alike.setdefault(problem._replace(message=text), []).append(name)
    return [
        problem._replace(message=f"{first_names(names, _MOST_NAMES)}: {problem.message}")
        if names[0]
        else problem
        for problem, names in alike.items()
    ]
