"""The one way to a person's screen: every text passes the redactor, colour is never needed to read it.

Human text goes to standard output, unless that is reserved for a JSON document.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from rich.console import Console as RichConsole
from rich.text import Text

from holdfast.kernel.errors import Exit, Problem
from holdfast.secrets.redact import Redactor

Piece = str | tuple[str, str]
"""A piece of a line: text, or text with its style."""


class Console:
    def __init__(
        self, *, as_json: bool = False, quiet: bool = False, color: bool = True, ci: bool = False
    ) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.as_json = as_json
        self.quiet = quiet
        self.redactor = Redactor()
        self._out = _rich(sys.stderr if as_json else sys.stdout, color=color)
        self._err = _rich(sys.stderr, color=color)
        self.live = self._out.is_terminal and not ci and not quiet

    @property
    def rich(self) -> RichConsole:
        return self._out

    @property
    def width(self) -> int:
        return self._out.width if self._out.is_terminal else 120

    def line(self, *pieces: Piece) -> None:
        """A line of a result. Shown with `--quiet` too."""
        self._out.print(self._text(pieces), soft_wrap=True)

    def say(self, *pieces: Piece) -> None:
        """A line that `--quiet` leaves out."""
        if not self.quiet:
            self.line(*pieces)

    def warn(self, text: str) -> None:
        self._err.print(self._text([(" ! ", "bold yellow"), text]), soft_wrap=True)

    def problems(self, problems: tuple[Problem, ...], exit_: Exit) -> None:
        """Code, place, message, hint: what went wrong and what to do, on one screen."""
        for problem in problems:
            where = f"{problem.place}  " if problem.place is not None else ""
            self._err.print(
                self._text([(" ✗ ", "bold red"), (problem.code, "bold"), f"  {where}{problem.message}"]),
                soft_wrap=True,
            )
            if problem.hint:
                self._err.print(self._text([f"   {problem.hint}"]), soft_wrap=True)
        many = (
            f"{len(problems)} mistakes, nothing was run. "
            if exit_ is Exit.USAGE and len(problems) > 1
            else ""
        )
        self._err.print(self._text([(f"   {many}exit {int(exit_)}", "dim")]), soft_wrap=True)

    def question(self, text: str) -> None:
        self.line("")
        self._out.print(self._text([f" {text} [y/N] "]), end="")

    def _text(self, pieces: Sequence[Piece]) -> Text:
        text = Text()
        for piece in pieces:
            words, style = (piece, "") if isinstance(piece, str) else piece
            text.append(self.redactor.clean(words), style=style or None)
        return text


def _rich(stream: io.TextIOBase | object, *, color: bool) -> RichConsole:
    return RichConsole(
        file=stream,  # type: ignore[arg-type]
        highlight=False,
        markup=False,
        emoji=False,
        no_color=not color,
        color_system="auto" if color else None,
    )
