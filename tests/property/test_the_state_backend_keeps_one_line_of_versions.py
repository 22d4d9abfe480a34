"""Whatever is asked of the local state backend, in whatever order: serials only grow, and a line is never
left.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st
from memory_backend import MINE, OTHER, MemoryBackend, info, state

from holdfast.terraform.backend.rules import StateRules
from holdfast.terraform.backend.server import Refusal

LOCKS = st.sampled_from([MINE, OTHER])
LINEAGES = st.sampled_from(["one", "two"])
STATES = st.builds(
    lambda serial, lineage, value: state(serial, lineage=lineage, value=value),
    st.integers(0, 6),
    LINEAGES,
    st.sampled_from([None, "a", "b"]),
)
WRITES = st.tuples(st.just("POST"), st.just(MINE), STATES)
REQUESTS = st.one_of(
    WRITES,
    WRITES,
    st.tuples(st.just("LOCK"), st.none(), LOCKS.map(info)),
    st.tuples(st.just("UNLOCK"), st.none(), st.one_of(LOCKS.map(info), st.just(b""))),
    st.tuples(st.just("POST"), st.one_of(st.none(), LOCKS), st.one_of(STATES, st.binary(max_size=8))),
    st.tuples(st.sampled_from(["GET", "DELETE"]), st.none(), st.just(b"")),
)
LOCKED = ("LOCK", None, info(MINE))
"""Most scripts begin with it: without a lock nothing is written, and there is nothing to compare."""
FAULTS = st.lists(st.sampled_from(["", "", "before", "after"]), max_size=40)


def faulty(faults: list[str], at: str) -> Callable[[str], None]:
    def fail(_: str) -> None:
        if faults and faults[0] == at:
            faults.pop(0)
            raise OSError
        if faults and at == "after":
            faults.pop(0)

    return fail


@given(
    requests=st.builds(
        lambda first, rest: [*first, *rest],
        st.sampled_from([[LOCKED], [LOCKED], []]),
        st.lists(REQUESTS, max_size=40),
    ),
    faults=FAULTS,
)
@example(requests=[LOCKED, ("POST", MINE, state(1)), ("POST", MINE, state(2, value="b"))], faults=[])
@example(requests=[("GET", None, b"")], faults=[])
def test_versions_are_one_line(requests: list[tuple[str, str | None, bytes]], faults: list[str]) -> None:
    """Each version has a greater serial than the one before, and its lineage unless that held nothing.

    Also where the store fails before or after the deed; and nothing is written while no lock is held.
    """
    backend = MemoryBackend()
    backend.before, backend.after = faulty(faults, "before"), faulty(faults, "after")
    rules = StateRules(backend)
    for method, lock, body in requests:
        known, holder = len(backend.versions), backend.holder
        try:
            answer = rules.answer(method, lock, body)
        except (Refusal, OSError):
            answer = None
        if len(backend.versions) > known:
            assert method == "POST"
            assert holder is not None
            assert json.loads(holder)["ID"] == lock
        if method == "POST" and answer is not None:
            assert backend.versions[-1] == body
        if method == "GET" and answer is not None and answer.status == 404:
            assert backend.versions == []
    documents = [json.loads(version) for version in backend.versions]
    for before, after in itertools.pairwise(documents):
        assert after["serial"] > before["serial"]
        assert after["lineage"] == before["lineage"] or not before["resources"]
