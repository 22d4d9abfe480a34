from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable

import pytest
from audit_made import KEY, act, applied, audit_on, store_on
from memory_blobs import MemoryBlobs

from holdfast.audit.break_glass import open_break_glass
from holdfast.audit.chain import content_of, link
from holdfast.audit.entry import Entry
from holdfast.audit.layout import HEAD, head_from, piece_name, piece_seqs
from holdfast.audit.reader import all_lines, newest, verify
from holdfast.kernel.errors import Failed, HoldfastError, UnknownOutcome, UsageError
from holdfast.store.run_store import RunStore


class Stumbling(MemoryBlobs):
    """A blob store that fails once at a name: before it did what was asked, or after."""

    def __init__(self) -> None:
        super().__init__()
        self.before: set[str] = set()
        self.after: set[str] = set()
        self.meanwhile: Callable[[], None] = lambda: None
        """Called just before it fails."""

    def create(self, name: str, data: bytes) -> bool:
        self._stumble(self.before, name)
        created = super().create(name, data)
        self._stumble(self.after, name)
        return created

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        self._stumble(self.before, name)
        return super().replace(name, data, tag=tag)

    def _stumble(self, at: set[str], name: str) -> None:
        word = next((one for one in at if name.startswith(one)), None)
        if word is not None:
            at.discard(word)
            self.meanwhile()
            raise Failed("HF-STORE-5", "the store does not answer")


def test_what_is_recorded_is_read_back_newest_first() -> None:
    """With who, and when, and its number."""
    store = store_on()
    audit = audit_on(store)
    audit.record(applied("net"))
    audit.record_all([applied("dns"), applied("app")])
    lines = newest(store, limit=10)
    assert [(line["seq"], line["stack"]) for line in lines] == [(3, "app"), (2, "dns"), (1, "net")]
    assert lines[0]["change"] == "01CHANGE"
    who = lines[0]["who"]
    assert isinstance(who, dict)
    assert (who["name"], who["verified"]) == ("ada", False)
    assert verify(store).whole


def test_what_is_written_at_once_is_one_piece() -> None:
    """The plans of forty stacks cost one write, not forty."""
    store = store_on()
    audit_on(store).record_all([applied(f"s{one}") for one in range(40)])
    assert piece_seqs(store) == (1,)


def test_nothing_recorded_writes_nothing() -> None:
    """A store that nothing has to remember stays untouched."""
    store = store_on()
    audit = audit_on(store)
    audit.record_all([])
    audit.flush()
    assert store.empty
    assert verify(store).notes == ("the audit log is empty",)


def test_two_who_write_in_turn_make_one_chain() -> None:
    """Each goes on behind what the other wrote meanwhile."""
    store = store_on()
    one, other = audit_on(store), audit_on(store)
    for turn in range(3):
        one.record(applied(f"one{turn}"))
        other.record_all([applied(f"other{turn}"), applied(f"also{turn}")])
    assert verify(store).whole
    assert [line["seq"] for line in newest(store, limit=99)] == list(range(9, 0, -1))


def test_what_is_noted_is_there_after_a_flush() -> None:
    """From many threads at once, every line once."""
    store = store_on()
    audit = audit_on(store)
    threads = [threading.Thread(target=audit.note, args=(applied(f"s{one}"),)) for one in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    audit.flush()
    assert verify(store).whole
    assert sorted(str(line["stack"]) for line in newest(store, limit=99)) == sorted(
        f"s{n}" for n in range(20)
    )


def test_what_is_noted_is_written_without_being_asked_for() -> None:
    """A command that is killed before its end has lost a moment of its record, not all of it."""
    store = store_on()
    audit = audit_on(store)
    audit.note(applied("net"), applied("dns"))
    writer = audit._writer
    assert writer is not None
    writer.join(30)
    assert verify(store).lines == 2
    audit.note(applied("app"))
    audit.flush()
    assert (verify(store).lines, verify(store).notes) == (3, ())


def test_a_store_that_fails_is_an_error_and_nothing_is_lost() -> None:
    """The caller decides what follows; the line waits for the next try."""
    blobs = Stumbling()
    store = store_on(blobs)
    audit = audit_on(store)
    blobs.before.add("audit/lines")
    with pytest.raises(HoldfastError):
        audit.record(applied("net"))
    audit.record(applied("dns"))
    assert [line["stack"] for line in newest(store, limit=9)] == ["dns", "net"]


def test_what_failed_is_written_before_what_came_meanwhile() -> None:
    """The record tells things in the order in which they were noted."""
    blobs = Stumbling()
    store = store_on(blobs)
    audit = audit_on(store)

    def comes_meanwhile() -> None:
        audit._add([applied("second")])

    blobs.before.add(piece_name(1))
    blobs.meanwhile = comes_meanwhile
    with pytest.raises(HoldfastError):
        audit.record(applied("first"))
    audit.flush()
    assert [line["stack"] for line in newest(store, limit=10)] == ["second", "first"]


def test_text_that_is_no_unicode_is_recorded_all_the_same() -> None:
    """A name of a file may hold any bytes; what cannot be written is replaced, and the act is not stopped."""
    store = store_on()
    audit_on(store).record(act("unlock", reason="see \udcff there"))
    (line,) = newest(store, limit=1)
    assert line["reason"] == "see ? there"
    assert verify(store).whole


def test_a_failure_in_the_background_is_raised_where_it_is_heard() -> None:
    """`note` raises nothing, whenever its thread gets to it; the line is not lost."""
    blobs = Stumbling()
    store = store_on(blobs)
    audit = audit_on(store)
    audit.record(applied("first"))
    blobs.before.add(piece_name(2))
    audit.note(applied("net"))
    try:
        audit.flush()
    except HoldfastError:
        audit.flush()
    assert [line["stack"] for line in newest(store, limit=9)] == ["net", "first"]


def test_a_line_whose_answer_was_lost_is_written_once() -> None:
    """It was written, and the writer was told that it was not."""
    blobs = Stumbling()
    store = store_on(blobs)
    audit = audit_on(store)
    blobs.after.add("audit/lines")
    with pytest.raises(HoldfastError):
        audit.record(applied("net"))
    audit.record(applied("dns"))
    assert [line["stack"] for line in newest(store, limit=9)] == ["dns", "net"]
    assert verify(store).whole


def test_a_head_that_stays_behind_harms_nothing() -> None:
    """The next writer goes on behind the last line and moves the head."""
    blobs = Stumbling()
    store = store_on(blobs)
    audit_on(store).record(applied("net"))
    blobs.before.add(HEAD)
    audit_on(store).record(applied("dns"))
    behind = verify(store)
    assert behind.whole
    assert behind.notes
    audit_on(store).record(applied("app"))
    assert verify(store).notes == ()
    assert verify(store).lines == 3


class Outrun(MemoryBlobs):
    """Just before the head is moved for the first time, another command writes a line and moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[Callable[[], None]] = []

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        if name == HEAD and self.others:
            self.others.pop()()
        return super().replace(name, data, tag=tag)


def test_the_head_is_never_moved_back() -> None:
    """Else lines behind it could be cut off without being missed."""
    blobs = Outrun()
    store = store_on(blobs)
    blobs.others.append(lambda: audit_on(store).record(applied("second")))
    audit_on(store).record(applied("first"))
    head = store.encrypted.read(HEAD)
    assert head is not None
    assert head_from(head).seq == 2
    assert verify(store).whole


def test_a_failure_in_the_background_is_not_tried_without_end() -> None:
    """What could not be written waits for the one who asks: the thread ends."""

    class Deaf(MemoryBlobs):
        def create(self, name: str, data: bytes) -> bool:
            del data
            raise Failed("HF-STORE-5", f"{name} cannot be written")

    store = store_on()
    audit = audit_on(store)
    audit.record(applied("first"))
    store.encrypted.blobs = Deaf()
    audit.note(applied("net"))
    writer = audit._writer
    assert writer is not None
    writer.join(30.0)
    assert not writer.is_alive()
    assert audit._writer is None


def test_a_cut_end_stays_known_after_the_next_line() -> None:
    """Nothing is written until a person accepts the loss, and then after the gap, which is not filled."""
    store = three_entries()
    assert store.blobs.remove(piece_name(3))
    accept_loss(store)
    assert [(one.seq, one.kind) for one in verify(store).breaks] == [(3, "missing"), (4, "missing")]


def three_entries() -> RunStore:
    """Written by three commands, each with the record of a run."""
    store = store_on()
    for number in range(3):
        audit = audit_on(store)
        audit.require_whole()
        end = audit.end
        record: dict[str, object] = {}
        if end is not None:
            record["audit"] = {"seq": end.seq, "hash": end.hash}
        store.runs.finish(f"01RUN{number}", record)
        audit.record(applied(f"s{number}"))
    return store


def accept_loss(store: RunStore) -> None:
    """The next command is refused; after the loss is accepted, commands write again."""
    with pytest.raises(UnknownOutcome):
        audit_on(store).require_whole()
    with pytest.raises(UnknownOutcome) as caught:
        audit_on(store).record(applied())
    assert caught.value.problem.code == "HF-AUDIT-8"
    assert "audit accept-loss" in str(caught.value.problem.hint)
    assert not verify(store).whole
    audit_on(store).accept_loss("a bad disk")
    audit_on(store).record(applied("app"))
    assert [line["what"] for line in newest(store, limit=2)] == ["apply", "accept-loss"]
    assert not verify(store).whole
    with pytest.raises(UsageError):
        audit_on(store).accept_loss("again")


@pytest.mark.parametrize(
    "removed",
    [
        ("audit/head",),
        ("audit/head", "audit/lines/000000000003"),
        ("audit/lines",),
        ("audit/head", "audit/lines"),
        ("audit/head", "audit/lines", "anchors"),
        ("audit/head", "anchors"),
    ],
)
def test_a_log_without_its_end_is_noticed_by_the_next_command(removed: tuple[str, ...]) -> None:
    """Whatever is removed with it: the head, all of the log, or the anchor too."""
    store = three_entries()
    for prefix in removed:
        for name in (prefix, *store.blobs.names(prefix)):
            store.blobs.remove(name)
    accept_loss(store)


def test_a_removed_log_is_noticed_however_many_plan_jobs_ran_since() -> None:
    """Their records name no end that counts."""
    store = three_entries()
    planner = RunStore(store.blobs, KEY.without_private)
    for number in range(120):
        planner.runs.finish(f"01Z{number:03}", {"operation": "plan"})
    for prefix in ("audit", "anchors"):
        for name in store.blobs.names(prefix):
            store.blobs.remove(name)
    accept_loss(store)


def test_an_act_that_a_plan_job_cannot_have_done_is_noticed() -> None:
    """It can write to the log, but sign nothing there."""
    store = three_entries()
    planner = RunStore(store.blobs, KEY.without_private)
    audit_on(planner).record(Entry(what="plan", stack="s", outcome="planned"))
    assert verify(store).whole
    head = store.encrypted.read(HEAD)
    assert head is not None
    lines, _ = link(head_from(head), [{"what": "approve", "stack": "s", "who": {"name": "grace"}}])
    planner.encrypted.create(piece_name(5), content_of(lines))
    (forged,) = verify(store).breaks
    assert (forged.seq, forged.kind) == (5, "unsigned")


def test_a_log_that_was_cut_back_to_an_older_head_is_noticed() -> None:
    """By the anchor at once; if that was moved back too, `verify` finds it in the records of runs."""
    store, older = store_on(), []
    for number in range(3):
        audit = audit_on(store)
        audit.record(applied(f"s{number}"))
        older.append({name: store.blobs.read(name) for name in (HEAD, "anchors/audit")})
        assert audit.end is not None
        store.runs.finish(f"01RUN{number}", {"audit": {"seq": audit.end.seq, "hash": audit.end.hash}})

    def move_back(name: str) -> None:
        blob = older[0][name]
        assert blob is not None
        store.blobs.write(name, blob.data)

    move_back(HEAD)
    assert verify(store).whole, "only the head is behind, and the next writer moves it"
    audit_on(store).require_whole()
    for seq in (2, 3):
        store.blobs.remove(piece_name(seq))
    with pytest.raises(UnknownOutcome):
        audit_on(store).require_whole()
    move_back("anchors/audit")
    (lost,) = verify(store).breaks
    assert (lost.seq, lost.kind) == (2, "missing")
    assert "entries 2 to 3 are missing: the record of run 01RUN2 names entry 3" in lost.message


def test_a_log_that_was_written_again_is_noticed() -> None:
    """By somebody with the key: whole in itself, but not what the anchors name."""
    store = three_entries()
    for name in (HEAD, "anchors/audit", *store.blobs.names("audit/lines")):
        store.blobs.remove(name)
    for run in store.runs.ids():
        store.blobs.write(f"kept/{run}", store.blobs.read(f"runs/{run}/outcome").data)  # type: ignore[union-attr]
        store.blobs.remove(f"runs/{run}/outcome")
    for number in range(9):
        audit_on(store).record(applied(f"other{number}"))
    assert verify(store).whole
    for name in store.blobs.names("kept"):
        store.blobs.write(f"runs/{name[5:]}/outcome", store.blobs.read(name).data)  # type: ignore[union-attr]
    assert {(one.seq, one.kind) for one in verify(store).breaks} == {(1, "changed"), (2, "changed")}


def test_nothing_is_added_behind_what_cannot_be_read() -> None:
    """Nobody knows what it would follow."""
    store = store_on()
    audit = audit_on(store)
    audit.record(applied("net"))
    store.blobs.write(piece_name(2), b"nonsense")
    with pytest.raises(HoldfastError) as caught:
        audit.record(applied("dns"))
    assert caught.value.problem.code == "HF-AUDIT-4"


def test_a_mark_goes_with_the_next_normal_apply_and_not_before() -> None:
    """A plan reads the mark alone, never the log."""
    store = store_on()
    audit = audit_on(store)
    audit.record_all([act("unlock"), act("holder-dead", "dns")])
    assert {stack: [one.what for one in acts] for stack, acts in open_break_glass(store).items()} == {
        "net": ["unlock"],
        "dns": ["holder-dead"],
    }
    assert list(open_break_glass(store, ["net", "app"])) == ["net"]
    audit.record_all([applied("net", outcome="failed"), applied("dns", break_glass=True)])
    assert sorted(open_break_glass(store)) == ["dns", "net"]
    audit.record_all([applied("net"), applied("dns")])
    assert open_break_glass(store) == {}
    assert verify(store).whole


def test_a_mark_that_its_writer_did_not_make_is_made_by_the_next() -> None:
    """Killed between the line and the mark: the next line of anybody brings it."""
    blobs = Stumbling()
    store = store_on(blobs)
    blobs.before.add("audit/marks")
    with pytest.raises(HoldfastError):
        audit_on(store).record(act("unlock"))
    unmarked = verify(store)
    assert unmarked.whole
    assert "entry 1 (unlock of net) is not marked yet" in unmarked.notes
    audit_on(store).record(applied("dns"))
    assert list(open_break_glass(store)) == ["net"]


def test_a_mark_that_failed_is_written_later_and_the_line_only_once() -> None:
    """The line is written; only what follows from it is tried again."""
    blobs = Stumbling()
    store = store_on(blobs)
    audit = audit_on(store)
    blobs.before.add("audit/marks")
    with pytest.raises(HoldfastError):
        audit.record(act("unlock"))
    audit.flush()
    assert list(open_break_glass(store)) == ["net"]
    assert verify(store).lines == 1


def test_a_mark_that_was_taken_away_is_missed() -> None:
    """It is not the way to make a break-glass act look settled."""
    store = store_on()
    audit_on(store).record(act("unlock"))
    assert store.blobs.remove("audit/marks/net")
    assert [(one.seq, one.kind) for one in verify(store).breaks] == [(1, "mark")]


def test_lines_are_given_out_byte_for_byte() -> None:
    """Whoever has them can check them without Holdfast: each names the SHA-256 of the one before."""
    store = store_on()
    audit_on(store).record_all([applied("net"), applied("dns")])
    first, second = all_lines(store)
    assert json.loads(second)["before"] == hashlib.sha256(first).hexdigest()
    begins = f"holdfast audit {store.id()}".encode()
    assert json.loads(first)["before"] == hashlib.sha256(begins).hexdigest()
