"""A journal that was cut, changed or mixed up: what is whole counts, up to the damage and not beyond it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ciphers import CIPHER, STORE
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.secrets.encryption import WrongKey
from holdfast.secrets.keys import Key
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.journal import ENDED, LINES, STARTED, Journal, JournalWriter, read_journal

OTHER = BlobCipher.of(STORE, Key.of(b"o" * 32))
RUN = "01JD7Q"
HEAD = 34
ID_AT = range(8, 16)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A disk is slow, and it is not the disk that is tried here."""

Frame = tuple[bytes, bytes]


@dataclass(frozen=True, kw_only=True)
class Written:
    frames: tuple[Frame, ...]
    content: bytes
    ends: tuple[int, ...]
    """How long the file was after each frame."""

    def pieces(self) -> list[bytes]:
        """Each frame as it stands in the file."""
        return [self.content[start:end] for start, end in pairwise((HEAD, *self.ends))]

    def told(self, count: int, *, whole: bool) -> Journal:
        """What a journal of the first `count` frames says."""
        frames = self.frames[:count]
        started = [json.loads(data) for kind, data in frames if kind == STARTED]
        ended = [json.loads(data) for kind, data in frames if kind == ENDED]
        lines = [line for kind, data in frames if kind == LINES for line in data.split(b"\n") if line]
        return Journal(
            started=started[-1] if started else None,
            lines=tuple(lines),
            ended=ended[-1] if ended else None,
            whole=whole,
        )

    def before(self, place: int) -> int:
        """How many frames end before the byte at this place."""
        return sum(end <= place for end in self.ends)


def written(frames: tuple[Frame, ...], *, cipher: BlobCipher = CIPHER, run: str = RUN) -> Written:
    ends = []
    with TemporaryDirectory(prefix="hfj-", dir=MEMORY) as folder:
        path = Path(folder) / "journal"
        writer = JournalWriter(str(path), cipher, run)
        for kind, data in frames:
            writer.append(kind, data)
            ends.append(path.stat().st_size)
        writer.close()
        return Written(frames=frames, content=path.read_bytes(), ends=tuple(ends))


words = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8).map(str.encode)
chunks = st.lists(words, min_size=1, max_size=4).map(b"\n".join)


@st.composite
def journals(draw: st.DrawFn) -> Written:
    started = (STARTED, json.dumps({"pid": draw(st.integers(1, 9))}).encode())
    said = [(LINES, chunk) for chunk in draw(st.lists(chunks, max_size=4))]
    ended = [(ENDED, json.dumps({"code": draw(st.integers(-9, 2))}).encode())]
    return written((started, *said, *(ended if draw(st.booleans()) else ())))


@given(journals())
@settings(max_examples=40, deadline=None)
def test_what_was_written_is_read(journal: Written) -> None:
    """A journal that nothing happened to says everything that was written, and that it is whole."""
    assert read_journal(CIPHER, RUN, journal.content) == journal.told(len(journal.frames), whole=True)


@given(journals(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_cut_journal_holds_the_frames_before_the_cut(journal: Written, data: st.DataObject) -> None:
    """Wherever a crash cut it: the whole frames count, half a frame does not, and that is said."""
    length = data.draw(st.integers(0, len(journal.content)))
    clean = length in {0, HEAD, *journal.ends}
    assert read_journal(CIPHER, RUN, journal.content[:length]) == journal.told(
        journal.before(length), whole=clean
    )


@given(journals(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_ends_what_counts(journal: Written, data: st.DataObject) -> None:
    """One byte that is another: what stood before it counts, it and what follows does not."""
    place = data.draw(st.integers(0, len(journal.content) - 1))
    changed = bytearray(journal.content)
    changed[place] ^= data.draw(st.integers(1, 255))
    if place in ID_AT:
        with pytest.raises(WrongKey):
            read_journal(CIPHER, RUN, bytes(changed))
        return
    count = journal.before(place) if place >= HEAD else 0
    assert read_journal(CIPHER, RUN, bytes(changed)) == journal.told(count, whole=False)


@given(journals(), st.data())
@settings(max_examples=60, deadline=None)
def test_frames_have_their_place(journal: Written, data: st.DataObject) -> None:
    """A frame that was left out, doubled or moved ends what counts: nothing is retold in another order."""
    pieces = journal.pieces()
    at = data.draw(st.integers(0, len(pieces) - 1))
    to = data.draw(st.integers(0, len(pieces) - 1))
    moved = list(pieces)
    match data.draw(st.sampled_from(["left out", "doubled", "moved"])):
        case "left out":
            moved.pop(at)
        case "doubled":
            moved.insert(to, pieces[at])
        case _:
            moved.insert(to, moved.pop(at))
    same = next(
        (place for place, (was, now) in enumerate(zip(pieces, moved, strict=False)) if was != now),
        min(len(pieces), len(moved)),
    )
    assert read_journal(CIPHER, RUN, journal.content[:HEAD] + b"".join(moved)) == journal.told(
        same, whole=same == len(moved)
    )


@given(journals(), journals())
@settings(max_examples=40, deadline=None)
def test_nothing_of_another_run_or_key_is_taken(journal: Written, stranger: Written) -> None:
    """Frames of another run, of another journal or of another key are never part of this one."""
    nothing = Journal(started=None, lines=(), ended=None, whole=False)
    assert read_journal(CIPHER, "01JD7R", journal.content) == nothing
    with pytest.raises(WrongKey):
        read_journal(OTHER, RUN, journal.content)
    posing = journal.content[: ID_AT.start] + bytes.fromhex(OTHER.key_id) + journal.content[ID_AT.stop :]
    assert read_journal(OTHER, RUN, posing) == nothing
    mixed = journal.content + stranger.content[HEAD:]
    assert read_journal(CIPHER, RUN, mixed) == journal.told(len(journal.frames), whole=False)
    headless = journal.content[:HEAD] + stranger.content[HEAD:]
    assert read_journal(CIPHER, RUN, headless) == nothing
