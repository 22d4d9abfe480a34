from __future__ import annotations

from holdfast.audit.chain import End, Piece, documents_of, hash_of, link, start_of
from holdfast.audit.reader import Verification, check

BEGINS = start_of("01STORE")


def made(*sizes: int, what: str = "plan") -> tuple[list[Piece], End]:
    """Pieces of so many lines, and their end."""
    pieces, end = [], BEGINS
    for size in sizes:
        seq = end.seq + 1
        lines, end = link(end, [{"what": what, "stack": f"s{seq + one}"} for one in range(size)])
        pieces.append(Piece(seq=seq, lines=lines))
    return pieces, end


def verdict(pieces: list[Piece], head: End | None, unreadable_head: str | None = None) -> Verification:
    return check(pieces, head=head, unreadable_head=unreadable_head, start=BEGINS)


def only(found: Verification) -> tuple[int, str, str]:
    assert len(found.breaks) == 1, found.breaks
    one = found.breaks[0]
    return one.seq, one.kind, one.message


def test_what_was_written_is_whole() -> None:
    """A log of several pieces, and one that has only begun, are right as they are."""
    pieces, end = made(2, 1, 3)
    found = verdict(pieces, end)
    assert (found.whole, found.notes, found.lines, found.end) == (True, (), 6, end)
    assert verdict([], BEGINS).whole


def test_a_line_nested_without_end_is_a_changed_line() -> None:
    """Whoever puts it there is found out, and stops no verification."""
    pieces, end = made(1, 1)
    pieces[1] = Piece(seq=2, lines=(b"[" * 100_000,))
    assert not verdict(pieces, end).whole
    assert [one["seq"] for one in documents_of(line for piece in pieces for line in piece.lines or ())] == [1]


def test_a_changed_line_is_named_with_what_was_expected() -> None:
    """The line that follows knows what it was written after."""
    pieces, end = made(1, 1, 1)
    old = (pieces[1].lines or ())[0]
    pieces[1] = Piece(seq=2, lines=(old.replace(b"s2", b"s9"),))
    found = verdict(pieces, end)
    assert only(found)[:2] == (2, "changed")
    assert (found.breaks[0].expected, found.breaks[0].found) == (
        hash_of(old),
        hash_of((pieces[1].lines or ())[0]),
    )


def test_a_changed_last_line_is_missed_by_the_head() -> None:
    """Nothing follows it; the head knows it."""
    pieces, end = made(2)
    first, last = pieces[0].lines or ()
    found = verdict([Piece(seq=1, lines=(first, last.replace(b"s2", b"s9")))], end)
    assert only(found)[:2] == (2, "changed")
    assert found.breaks[0].expected == end.hash


def test_removed_lines_are_counted() -> None:
    """The reader learns which numbers are missing."""
    pieces, end = made(1, 2, 1)
    assert only(verdict([pieces[0], pieces[2]], end)) == (2, "missing", "entries 2 to 3 are missing")


def test_a_cut_end_is_noticed() -> None:
    """The head is ahead of the lines."""
    pieces, end = made(1, 2)
    assert only(verdict(pieces[:1], end)) == (2, "missing", "entries 2 to 3 are missing: the end was cut off")
    assert only(verdict([], end))[:2] == (1, "missing")


def test_lines_that_a_crash_left_behind_the_head_are_fine() -> None:
    """A writer that was killed before it moved the head is no tampering; it is told."""
    pieces, _ = made(1, 1, 1)
    found = verdict(pieces, End(seq=1, hash=hash_of((pieces[0].lines or ())[0])))
    assert found.whole
    assert found.notes == (
        "entries 2 to 3 are newer than the head: a command was killed before it moved the head",
    )


def test_a_log_without_its_head_is_not_whole() -> None:
    """Else, to cut the end off, one would only have to take the head too."""
    pieces, _ = made(1, 1)
    assert only(verdict(pieces, None))[1] == "head"
    assert only(verdict(pieces, None, "it was changed"))[1] == "head"


def test_a_lost_head_stays_known() -> None:
    """A person accepted the loss, and the entry says so."""
    pieces, end = made(1, what="accept-loss")
    assert only(verdict(pieces, end))[:2] == (1, "missing")


def test_swapped_lines_are_found() -> None:
    """Each carries its number."""
    pieces, end = made(3)
    first, second, third = pieces[0].lines or ()
    found = verdict([Piece(seq=1, lines=(first, third, second))], end)
    assert {(one.seq, one.expected, one.found) for one in found.breaks if one.expected in {"2", "3"}} == {
        (2, "2", "3"),
        (3, "3", "2"),
    }


def test_a_piece_that_cannot_be_opened_hides_no_other_break() -> None:
    """What is behind it is looked at all the same."""
    pieces, end = made(2, 1, 1, 1)
    pieces[0] = Piece(seq=1, lines=None, why="it was changed")
    assert only(verdict(pieces, end)) == (1, "unreadable", "entry 1 cannot be decrypted: it was changed")
    found = verdict([pieces[0], pieces[1], pieces[3]], end)
    assert [(one.seq, one.kind) for one in found.breaks] == [(1, "unreadable"), (4, "missing")]


def test_an_added_piece_is_found() -> None:
    """A number stands in the log once."""
    pieces, end = made(3, 1)
    added = Piece(seq=2, lines=(b"{}",))
    assert only(verdict([pieces[0], added, pieces[1]], end))[:2] == (2, "extra")


def test_a_log_of_another_store_does_not_fit() -> None:
    """It is whole in itself, and not this one's."""
    pieces, end = made(2)
    found = check(pieces, head=end, start=start_of("01OTHER"))
    assert only(found)[:2] == (1, "changed")
    assert "of this run store" in found.breaks[0].message


def test_a_line_that_is_no_record_is_found() -> None:
    """Nonsense, an empty piece, a number, a list."""
    for nonsense in (b"x", b"7", b"[]", b"{"):
        assert not check([Piece(seq=1, lines=(nonsense,))], head=BEGINS, start=BEGINS).whole
    assert not check([Piece(seq=1, lines=())], head=BEGINS, start=BEGINS).whole
