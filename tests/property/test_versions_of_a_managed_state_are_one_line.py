"""Many writers on one kept state, some of whom slept: its versions are one line all the same."""

from __future__ import annotations

from ciphers import encrypted_on
from hypothesis import given
from hypothesis import strategies as st
from memory_blobs import MemoryBlobs

from holdfast.store.states import ManagedStates, StateSnapshot

WRITERS = 3

steps = st.one_of(
    st.tuples(st.just("look"), st.integers(0, WRITERS - 1), st.just(0)),
    st.tuples(st.just("add"), st.integers(0, WRITERS - 1), st.just(0)),
    st.tuples(st.just("drop"), st.just(0), st.integers(0, 6)),
)


@given(st.lists(steps, max_size=60))
def test_a_version_follows_the_one_its_writer_saw(script: list[tuple[str, int, int]]) -> None:
    """Who is told that a version was saved had seen the one before it, and it is the current one then.

    No number is given twice, no version ever changes, and the current one is never dropped.
    """
    states = ManagedStates(encrypted_on(MemoryBlobs()))
    seen = dict.fromkeys(range(WRITERS), 0)
    line: dict[int, bytes] = {}
    for turn, (what, writer, number) in enumerate(script):
        last = max(line, default=0)
        match what:
            case "look":
                current = states.current("s")
                assert (current.number if current is not None else 0) == last
                seen[writer] = last
            case "add":
                content = f"{turn} by {writer}".encode()
                new = StateSnapshot(
                    serial=turn, lineage="l", resources=0, run=None, who="w", why="apply", state=content
                )
                version = states.add("s", new, after=seen[writer])
                assert (version is not None) == (seen[writer] == last)
                if version is not None:
                    assert version.number == last + 1
                    line[version.number] = content
                    seen[writer] = version.number
            case _:
                states.drop("s", number)
        kept = states.numbers("s")
        assert list(kept) == sorted(set(kept))
        assert (kept[-1] if kept else 0) == max(line, default=0)
        for one in kept:
            found = states.version("s", one)
            assert found is not None
            assert found.state == line[one]
