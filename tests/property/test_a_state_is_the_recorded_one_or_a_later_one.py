"""Whatever the configuration says: a state that is older than the recorded one, or another, is not used."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from results_made import stack

from holdfast.kernel.errors import Refused
from holdfast.plans.saved_plan import StateIdentity
from holdfast.plans.state_continuity import difference_from_record, require_not_stale
from holdfast.store.run_store import StateRecord
from holdfast.terraform.statefile.model import State

LINEAGES = st.sampled_from(("one", "two", ""))
SERIALS = st.integers(0, 4)
PLACES = st.sampled_from(("here", "there"))
RECORDS = st.builds(
    StateRecord,
    place=PLACES,
    lineage=LINEAGES,
    serial=SERIALS,
    resources=st.sampled_from((None, 0, 1, 2)),
    seen=st.just("2026-01-01T00:00:00+00:00"),
    source=st.sampled_from(("", "a.tfvars")),
    variables=st.sampled_from(("", "digest")),
)
STATES = st.builds(State, lineage=LINEAGES, serial=SERIALS, resources=st.sampled_from((None, ())))


@given(RECORDS.filter(lambda record: record.lineage and record.resources != 0), STATES, PLACES)
def test_only_the_recorded_state_or_a_later_one_is_used(
    record: StateRecord, state: State, place: str
) -> None:
    """Another backend, another source or other variables change nothing about it."""
    follows = state.lineage == record.lineage and state.serial >= record.serial
    assert (difference_from_record(record, state, place=place) is None) == follows


@given(RECORDS, STATES, PLACES)
def test_what_never_held_anything_is_not_missed(record: StateRecord, state: State, place: str) -> None:
    """A record without resources stops a state only at the same place, and only one that holds something."""
    if record.resources == 0 and (place != record.place or state.resources == ()):
        assert difference_from_record(record, state, place=place) is None


@given(RECORDS.filter(lambda record: record.lineage and record.resources != 0), LINEAGES, SERIALS)
def test_a_saved_plan_of_an_earlier_state_is_stale(record: StateRecord, lineage: str, serial: int) -> None:
    """Also if the backend was set back to the state that it was made for, or was emptied."""
    earlier = (lineage == record.lineage and serial < record.serial) or not lineage
    with pytest.raises(Refused) if earlier else contextlib.nullcontext():
        require_not_stale(stack("a"), record, StateIdentity(lineage=lineage, serial=serial))
