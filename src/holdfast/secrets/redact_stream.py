"""Redaction of text that arrives in pieces, wherever it is cut.

Output lags behind only by what may be the start of a secret: for a registered value the longest end of the
text that is a prefix of it; for the other layers at most some thousand characters (`formats.toml`). The
pieces together equal `Redactor.clean` of the whole text.
"""

from __future__ import annotations

import codecs

from holdfast.secrets.finder import merge_spans
from holdfast.secrets.redact import MASK, Redactor

_CONTEXT = 64
"""How much emitted text to keep for patterns that look behind."""


class StreamRedactor:
    """One per stream. Bytes that are not UTF-8 become surrogate escapes."""

    __slots__ = ("_context", "_covered", "_decoder", "_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._context = ""
        self._held = ""
        self._covered = 0
        """How much of the held text belongs to a secret whose mask was already emitted."""

    def feed(self, piece: str | bytes) -> str:
        """What can be shown now."""
        text = piece if isinstance(piece, str) else self._decoder.decode(piece)
        if not text:
            return ""
        pending = self._held + text
        if self._held and not self._covered and self._redactor.all_open(pending):
            self._held = pending
            return ""
        return self._emit(pending, last=False)

    def close(self) -> str:
        """The rest."""
        return self._emit(self._held + self._decoder.decode(b"", final=True), last=True)

    def _emit(self, pending: str, *, last: bool) -> str:
        text, start = self._context + pending, len(self._context)
        end = len(text) if last else self._redactor.open_at(text, start)
        spans = merge_spans(((start, start + self._covered), *self._redactor.spans(text)))
        shown: list[str] = []
        at = start
        for begin, stop in spans:
            if stop <= at:
                continue
            if begin >= end:
                break
            shown.append(text[at : max(begin, at)])
            if begin > start or not self._covered:
                shown.append(MASK)
            at = stop
        if at < end:
            shown.append(text[at:end])
        self._covered = max(0, at - end)
        self._context, self._held = text[max(0, end - _CONTEXT) : end], text[end:]
        return "".join(shown)
