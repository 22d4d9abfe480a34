"""Waivers that a change adds in comments: they do not count for the rules of its base. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from msgspec import Struct

from holdfast.checks.engine.catalogue import ids
from holdfast.checks.engine.waivers import MARK, LineWaiver, is_expired, read_waivers
from holdfast.hcl.reader import read

_MARK = MARK.encode()
_NO_MARK = MARK.replace(":", "_").encode()
"""As long as the mark, so that every place in the file stays the same."""


class WithoutNewWaivers(Struct, frozen=True, kw_only=True):
    content: bytes
    added: tuple[LineWaiver, ...]


def without_new_waivers(path: str, old: bytes | None, now: bytes, *, today: date) -> WithoutNewWaivers | None:
    """The file without the waivers that its old version lacks; None if it has no such waivers.

    A waiver is the same if it is for the same rule and line of code in the same block, and its old version
    has not expired. A line that a waiver covers and that changed is therefore a new one.
    """
    if _MARK not in now:
        return None
    known = [waiver for waiver in _waivers(path, old or b"") if not is_expired(waiver[1].waiver, today)]
    accepted = [identity for identity, _ in known]
    current = list(_waivers(path, now))
    identities = [identity for identity, _ in current]
    added = tuple(
        waiver for identity, waiver in current if identities.count(identity) > accepted.count(identity)
    )
    if not added:
        return None
    lines = now.split(b"\n")
    for number in {waiver.waiver.place.line for waiver in added if waiver.waiver.place.line}:
        lines[number - 1] = lines[number - 1].replace(_MARK, _NO_MARK)
    return WithoutNewWaivers(content=b"\n".join(lines), added=added)


Identity = tuple[str, str, tuple[str, ...]]


def _waivers(path: str, content: bytes) -> Iterator[tuple[Identity, LineWaiver]]:
    if _MARK not in content:
        return
    lines = content.decode(errors="replace").split("\n")
    blocks = [
        (block.line, block.end_line, (block.type, *block.labels)) for block in read(content, path).body.blocks
    ]
    for waiver in read_waivers(path, [line.removesuffix("\r") for line in lines], frozenset(ids())):
        if isinstance(waiver, LineWaiver):
            yield (waiver.waiver.rule.upper(), _code(lines, waiver), _block(blocks, waiver.line)), waiver


def _code(lines: Sequence[str], waiver: LineWaiver) -> str:
    """The covered line without the waiver, and in JSON the line of the block; however they are indented."""
    covered = lines[waiver.line - 1] if waiver.line <= len(lines) else ""
    block = lines[waiver.block - 1] if waiver.block else ""
    return "\0".join(" ".join(text.split()) for text in (covered.partition(MARK)[0], block))


def _block(blocks: Sequence[tuple[int, int, tuple[str, ...]]], line: int) -> tuple[str, ...]:
    return next((name for first, last, name in blocks if first <= line <= last), ())
