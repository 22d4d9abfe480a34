"""Code that is not UTF-8 throughout. Terraform minds that everywhere but in comments, and so does this."""

from __future__ import annotations

import bisect
import re

from holdfast.hcl.native import read_native, tree
from holdfast.hcl.nodes import Body, File
from holdfast.kernel.errors import Place, Problem

_MOST = 200
"""Of so many odd bytes the lines are told: one finding is enough for each."""
_ESCAPED = re.compile("[\udc80-\udcff]")


def read_odd(data: bytes, path: str) -> File:
    """What can be read is read, with `?` for each odd byte. UTF-16 and the like are not taken apart."""
    mended = _ESCAPED.sub("?", data.decode(errors="surrogateescape")).encode()
    odd = [at for at, (before, after) in enumerate(zip(data, mended, strict=True)) if before != after]
    if path.endswith(".json") or b"\0" in data:
        return File(path=path, body=Body(), problems=(_not_utf8(data, odd[0], path),))
    comments = _comments(mended)
    outside = next((at for at in odd if not _inside(comments, at)), None)
    file = read_native(mended, path)
    if outside is None:
        return file
    lines = {data.count(b"\n", 0, at) + 1 for at in odd[:_MOST]}
    others = (one for one in file.problems if one.place is None or one.place.line not in lines)
    return File(path=path, body=file.body, problems=(_not_utf8(data, outside, path), *others))


def _comments(data: bytes) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    waiting = [tree(data)]
    while waiting:
        node = waiting.pop()
        if node.type == "comment":
            found.append((node.start_byte, node.end_byte))
        waiting.extend(node.children)
    return sorted(found)


def _inside(spans: list[tuple[int, int]], at: int) -> bool:
    before = bisect.bisect_right(spans, at, key=lambda span: span[0]) - 1
    return before >= 0 and at < spans[before][1]


def _not_utf8(data: bytes, at: int, path: str) -> Problem:
    before = data[:at]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode(errors="replace")) + 1
    return Problem(
        code="HF-HCL-2",
        message=f"not UTF-8 (byte {at})",
        hint="Save the file as UTF-8.",
        place=Place(file=path, line=before.count(b"\n") + 1, column=column),
    )
