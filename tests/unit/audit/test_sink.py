from __future__ import annotations

import json
import threading

import pytest
from audit_made import KEY, act, applied, audit_on, store_on
from memory_blobs import MemoryBlobs

from holdfast.audit.sink import ship_to, waiting
from holdfast.kernel.errors import Failed, UsageError
from holdfast.store.blobs import encode_name
from holdfast.store.run_store import RunStore
from holdfast.system import clock

ADDRESS = "s3://acme/audit"


class Refusing(MemoryBlobs):
    def create(self, name: str, data: bytes) -> bool:
        del name, data
        raise Failed("HF-STORE-5", f"the run store {ADDRESS} cannot be reached: no answer")


class Hanging(MemoryBlobs):
    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def create(self, name: str, data: bytes) -> bool:
        self.goes_on.wait(30)
        return super().create(name, data)


def lines(blobs: MemoryBlobs) -> list[int]:
    """The numbers of all lines there."""
    found = [item.data for name in sorted(blobs._held) if (item := blobs.read(name)) is not None]
    return sorted(json.loads(line)["seq"] for data in found for line in data.splitlines())


def test_lines_are_shipped_once_by_day_and_run() -> None:
    """In clear, as they were hashed; a second shipping finds nothing to do."""
    store, sink = store_on(), MemoryBlobs()
    audit = audit_on(store)
    audit.record_all(
        [applied("net", run="R1"), applied("dns", run="R2"), applied("net", run="R1"), act("unlock")]
    )
    assert ship_to(store, ADDRESS, sink).warning is None
    day = clock.now().date().isoformat()
    assert sorted(sink._held) == [
        f"{day}/01CHANGE/000000000004.jsonl",
        f"{day}/R1/000000000001.jsonl",
        f"{day}/R2/000000000002.jsonl",
    ]
    assert lines(sink) == [1, 2, 3, 4]
    audit.record(applied("app", run="R3"))
    ship_to(store, ADDRESS, sink)
    assert lines(sink) == [1, 2, 3, 4, 5]


def test_what_could_not_be_shipped_is_shipped_next_time() -> None:
    """A sink that does not answer is a warning, and nothing is lost."""
    store, sink = store_on(), MemoryBlobs()
    audit_on(store).record_all([applied("net"), applied("dns")])
    shipped = ship_to(store, ADDRESS, Refusing())
    assert shipped.warning == (
        "2 entries of the audit log could not be shipped (s3://acme/audit cannot be reached: no answer);"
        " the next command tries again"
    )
    assert waiting(store, ADDRESS) == 2
    ship_to(store, ADDRESS, sink)
    assert (lines(sink), waiting(store, ADDRESS)) == ([1, 2], 0)


def test_a_plan_job_cannot_say_that_lines_were_shipped() -> None:
    """Else nothing would ever arrive there, and no command would say so."""
    store, sink = store_on(), MemoryBlobs()
    audit_on(store).record(applied("net"))
    ship_to(store, ADDRESS, sink)
    (name,) = (name for name in store.blobs.names("") if name.endswith(encode_name(ADDRESS)))
    planner = RunStore(store.blobs, KEY.without_private)
    with pytest.raises(UsageError) as caught:
        planner.encrypted.write(name, b'{"seq": 1000}')
    assert caught.value.problem.code == "HF-KEY-10"


def test_a_sink_that_hangs_delays_no_command() -> None:
    """The run ends in time; the lines wait."""
    store, sink = store_on(), Hanging()
    audit_on(store).record(applied("net"))
    shipped = ship_to(store, ADDRESS, sink, seconds=0.05)
    assert (shipped.waiting, shipped.why) == (1, "s3://acme/audit did not respond within 0.05 seconds")
    sink.goes_on.set()


def test_an_unknown_place_is_a_warning_too() -> None:
    """No package for S3, a wrong address: a run is not failed by its second record."""
    store = store_on()
    audit_on(store).record(applied("net"))
    assert "no boto" in str(ship_to(store, ADDRESS, "no boto").warning)


def test_what_was_shipped_is_never_replaced() -> None:
    """A copy that differs from the log shows that one of them was changed."""
    store, sink = store_on(), MemoryBlobs()
    audit_on(store).record(applied("net", run="R1"))
    day = clock.now().date().isoformat()
    sink.write(f"{day}/R1/000000000001.jsonl", b"another line\n")
    shipped = ship_to(store, ADDRESS, sink)
    assert "differs from the audit log" in str(shipped.why)
    assert waiting(store, ADDRESS) == 1


def test_a_shipping_that_was_cut_off_is_repeated_without_harm() -> None:
    """The same piece gives the same objects: what is there already is left."""
    store, sink = store_on(), MemoryBlobs()
    audit = audit_on(store)
    audit.record(applied("net", run="R1"))
    ship_to(store, ADDRESS, sink)
    for name in store.blobs.names("audit/shipped"):
        store.blobs.remove(name)
    audit.record(applied("net", run="R1"))
    assert ship_to(store, ADDRESS, sink).waiting == 0
    assert lines(sink) == [1, 2]


def test_each_place_has_its_own_count() -> None:
    """A new address gets everything from the first line on."""
    store, first, second = store_on(), MemoryBlobs(), MemoryBlobs()
    audit_on(store).record(applied("net"))
    ship_to(store, ADDRESS, first)
    ship_to(store, "s3://other/audit", second)
    assert lines(first) == lines(second) == [1]
