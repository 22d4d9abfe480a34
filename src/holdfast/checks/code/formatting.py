"""The changes that formatting makes to a file. Pure."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator

from msgspec import Struct


class Hunk(Struct, frozen=True, kw_only=True):
    """Consecutive lines that are replaced."""

    line: int
    """The first line, counting from one; for added lines, the line they are inserted before."""
    end_line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(before: bytes, after: bytes) -> Iterator[Hunk]:
    old, new = _lines(before), _lines(after)
    for kind, first, last, new_first, new_last in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            yield Hunk(
                line=min(first + 1, max(len(old), 1)),
                end_line=max(last, min(first + 1, max(len(old), 1))),
                before=tuple(old[first:last]),
                after=tuple(new[new_first:new_last]),
            )


def diff(path: str, before: bytes, after: bytes) -> str:
    """A unified diff."""
    old, new = _lines(before), _lines(after)
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="")
    return "".join(
        line
        if line.endswith("\n")
        else f"{line}\n"
        if _is_mark(line)
        else f"{line}\n\\ No newline at end of file\n"
        for line in lines
    )


def _is_mark(line: str) -> bool:
    return line.startswith(("--- ", "+++ ", "@@ "))


def _lines(content: bytes) -> list[str]:
    """With line endings, which are part of the format. As in HCL, only a line feed ends a line."""
    return io.StringIO(content.decode(errors="surrogateescape"), newline="\n").readlines()
