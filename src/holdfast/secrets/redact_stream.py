"""A redactor for a text that comes in pieces: nothing secret gets through, however it is cut.

What is given out lags behind only by what may be the beginning of a secret: for a registered value that is
the longest part of the end with which it begins; for the other layers a limit of some thousand characters
applies (`formats.toml`). The pieces together are what `Redactor.clean` makes of the whole text.
"""

from __future__ import annotations

import codecs

from holdfast.secrets.finder import merged
from holdfast.secrets.redact import MASK, Redactor

_CONTEXT = 64
"""How much of what was given out is kept: a pattern may ask what stands before its match."""


class StreamRedactor:
    """One for each stream. Bytes that are not UTF-8 come out as surrogate escapes, to be written as such."""

    __slots__ = ("_context", "_covered", "_decoder", "_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._context = ""
        self._held = ""
        self._covered = 0
        """How much of what is held belongs to a secret whose mask was given out already."""

    def feed(self, piece: str | bytes) -> str:
        """What may be shown now."""
        text = piece if isinstance(piece, str) else self._decoder.decode(piece)
        if not text:
            return ""
        pending = self._held + text
        if self._held and not self._covered and self._redactor.all_open(pending):
            self._held = pending
            return ""
        return self._given_out(pending, last=False)

    def close(self) -> str:
        """The rest."""
        return self._given_out(self._held + self._decoder.decode(b"", final=True), last=True)

    def _given_out(self, pending: str, *, last: bool) -> str:
        text, start = self._context + pending, len(self._context)
        end = len(text) if last else self._redactor.open_at(text, start)
        spans = merged(((start, start + self._covered), *self._redactor.spans(text)))
        shown: list[str] = []
        at = start
        for begun, ended in spans:
            if ended <= at:
                continue
            if begun >= end:
                break
            shown.append(text[at : max(begun, at)])
            if begun > start or not self._covered:
                shown.append(MASK)
            at = ended
        if at < end:
            shown.append(text[at:end])
        self._covered = max(0, at - end)
        self._context, self._held = text[max(0, end - _CONTEXT) : end], text[end:]
        return "".join(shown)
