"""Text inside quotes and heredocs: escapes, interpolation, indentation. Pure functions over text.

A template is first a list of pieces, text or expression. Text is kept as written until all pieces are known,
because indentation is computed across them.
"""

from __future__ import annotations

import re

from holdfast.hcl.nodes import Expression, Literal, Template
from holdfast.kernel.patterns import pattern

Pieces = list[str | Expression]

_ESCAPE = pattern(r"\\(?:([nrt\"\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))|([$%])\4\{")
_MARKER = pattern(r"([$%])\1\{")
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
_LAST_CODE_POINT = 0x10FFFF


def unquote(text: str) -> str:
    """The text between quotes, with escapes resolved."""
    if "\\" not in text and "{" not in text:
        return text
    return _ESCAPE.sub(_unescape, text)


def unmark(text: str) -> str:
    """The text of a heredoc: no backslash escapes, only `$${` and `%%{`."""
    return _MARKER.sub(r"\1{", text) if "{" in text else text


def _unescape(match: re.Match[str]) -> str:
    simple, short, long, marker = match.groups()
    if simple:
        return _SIMPLE[simple]
    if marker:
        return f"{marker}{{"
    code = int(short or long, 16)
    return chr(code) if code <= _LAST_CODE_POINT else match.group()


def dedent(pieces: Pieces) -> Pieces:
    """`<<-`: remove the indentation that all lines share. Blank lines neither count nor change."""
    depth = min((indent for indent, _ in _line_starts(pieces)), default=0)
    if not depth:
        return pieces
    starts = {key for _, key in _line_starts(pieces)}
    dedented: Pieces = []
    for number, piece in enumerate(pieces):
        if isinstance(piece, Expression):
            dedented.append(piece)
            continue
        lines = piece.splitlines(keepends=True)
        dedented.append(
            "".join(line[depth:] if (number, at) in starts else line for at, line in enumerate(lines))
        )
    return dedented


def _line_starts(pieces: Pieces) -> list[tuple[int, tuple[int, int]]]:
    """The indentation of every line that is not blank, with its piece and the line inside that piece."""
    starts: list[tuple[int, tuple[int, int]]] = []
    at_start = True
    for number, piece in enumerate(pieces):
        if isinstance(piece, Expression):
            if at_start:
                starts.append((0, (number, 0)))
            at_start = False
            continue
        for at, line in enumerate(piece.splitlines(keepends=True)):
            ended = line.endswith("\n")
            if at_start and not (ended and not line.strip()):
                starts.append((len(line) - len(line.lstrip(" \t")), (number, at)))
            at_start = ended
    return starts


def template(pieces: Pieces, at: tuple[int, int]) -> Expression:
    """A literal if there is only text, else a template. The text must already be unescaped."""
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) == len(pieces):
        return Literal(*at, "".join(texts))
    parts = (Literal(*at, piece) if isinstance(piece, str) else piece for piece in pieces if piece != "")
    return Template(*at, tuple(parts))
