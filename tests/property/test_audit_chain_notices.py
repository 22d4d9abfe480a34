"""A record that was touched, however, is never called whole."""

from __future__ import annotations

from audit_made import act, applied, audit_on, store_on
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from holdfast.audit.break_glass import open_acts, open_break_glass
from holdfast.audit.chain import End, Piece, link, start_of
from holdfast.audit.entry import Entry
from holdfast.audit.reader import check, newest, verify

BEGINS = start_of("01STORE")
Log = tuple[list[Piece], End]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Pieces of one to four lines each, and their head."""
    pieces, end = [], BEGINS
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)):
        documents = [{"what": "plan", "reason": draw(st.text(max_size=5))} for _ in range(size)]
        seq = end.seq + 1
        lines, end = link(end, documents)
        pieces.append(Piece(seq=seq, lines=lines))
    return pieces, end


def whole(pieces: list[Piece], head: End | None) -> bool:
    return check(pieces, head=head, start=BEGINS).whole


@given(logs())
def test_what_was_written_is_whole(log: Log) -> None:
    """No false alarm; and the head may be behind, anywhere."""
    pieces, end = log
    assert whole(pieces, end)
    for piece in pieces:
        assert whole([one for one in pieces if one.seq <= piece.seq], BEGINS)


@given(logs(), st.data())
def test_a_changed_byte_is_found(log: Log, data: st.DataObject) -> None:
    """In any line, at any place, by somebody who has the key."""
    pieces, end = log
    at = data.draw(st.integers(0, len(pieces) - 1))
    lines = list(pieces[at].lines or ())
    which = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[which])
    line[data.draw(st.integers(0, len(line) - 1))] ^= data.draw(st.integers(1, 255))
    lines[which] = bytes(line)
    pieces[at] = structs.replace(pieces[at], lines=tuple(lines))
    assert not whole(pieces, end)


@given(logs(), st.data())
def test_a_removed_line_or_piece_is_found(log: Log, data: st.DataObject) -> None:
    """At the start_of, in the middle, at the end."""
    pieces, end = log
    at = data.draw(st.integers(0, len(pieces) - 1))
    lines = list(pieces[at].lines or ())
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    without_line = [*pieces[:at], structs.replace(pieces[at], lines=tuple(lines)), *pieces[at + 1 :]]
    assert not whole(without_line, end)
    assert not whole([*pieces[:at], *pieces[at + 1 :]], end)
    assert not whole(pieces[:at], end)


@given(logs(), st.data())
def test_swapped_lines_are_found(log: Log, data: st.DataObject) -> None:
    """Two lines that change places, in one piece or between two."""
    pieces, end = log
    places = [(at, which) for at, piece in enumerate(pieces) for which in range(len(piece.lines or ()))]
    if len(places) < 2:
        return
    one, other = data.draw(st.lists(st.sampled_from(places), min_size=2, max_size=2, unique=True))
    lines = [list(piece.lines or ()) for piece in pieces]
    lines[one[0]][one[1]], lines[other[0]][other[1]] = lines[other[0]][other[1]], lines[one[0]][one[1]]
    swapped = [structs.replace(piece, lines=tuple(new)) for piece, new in zip(pieces, lines, strict=True)]
    assert not whole(swapped, end)


@given(logs(), logs())
def test_a_line_of_another_log_does_not_fit(log: Log, other: Log) -> None:
    """Added behind the end: only what follows the chain is taken."""
    pieces, end = log
    strange = (other[0][0].lines or ())[0]
    assert not whole([*pieces, Piece(seq=end.seq + 1, lines=(strange,))], end)


@given(logs(), st.data())
def test_a_head_that_is_gone_or_names_another_line_is_found(log: Log, data: st.DataObject) -> None:
    """The head is not the way around the chain."""
    pieces, end = log
    assert not whole(pieces, None)
    at = data.draw(st.integers(0, end.seq + 3))
    assert not whole(pieces, End(seq=at, hash="0" * 64))


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[int, list[Entry]]]:
    """Who of three writes next, and what."""
    stack = st.sampled_from(("net", "dns"))
    entry = st.one_of(
        st.builds(applied, stack, outcome=st.sampled_from(("applied", "failed", "unchanged"))),
        st.builds(lambda one: applied(one, digest="d1", break_glass=True), stack),
        st.builds(lambda one: act("override", one, digest="d1"), stack),
        st.builds(lambda one: act("unlock", one), stack),
        st.builds(lambda one: act("holder-dead", one, run="R1"), stack),
    )
    return draw(st.lists(st.tuples(st.integers(0, 2), st.lists(entry, max_size=3)), max_size=8))


@settings(max_examples=40)
@given(stories())
def test_any_writers_in_any_order_make_one_chain(story: list[tuple[int, list[Entry]]]) -> None:
    """Every line once and in the order in which it was recorded, and the marks are what the log says."""
    store = store_on()
    writers = [audit_on(store) for _ in range(3)]
    for who, entries in story:
        writers[who].record_all(entries)
    found = verify(store)
    lines = tuple(reversed(newest(store, limit=1000)))
    assert found.whole
    assert (lines == ()) == store.empty
    assert [(line["what"], line["stack"]) for line in lines] == [
        (entry.what, entry.stack) for _, entries in story for entry in entries
    ]
    assert open_break_glass(store) == open_acts(lines)
