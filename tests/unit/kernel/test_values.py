"""Values: masked where they hold secrets, compared without their place."""

from __future__ import annotations

from holdfast.kernel.values import MaskedStruct, PlacedStruct


class Holder(MaskedStruct, frozen=True, kw_only=True):
    content: str


class Entry(PlacedStruct, frozen=True, kw_only=True):
    name: str
    place: int


def test_no_field_of_a_masked_value_is_shown() -> None:
    """A plan, a state or a secret never reaches a log through `repr`."""
    assert repr(Holder(content="hunter2")) == "Holder(…)"


def test_the_place_of_a_value_does_not_make_it_different() -> None:
    """The same entry moved to another line is the same entry: for `==`, `!=` and as a key."""
    here, there = Entry(name="a", place=1), Entry(name="a", place=2)
    assert here == there
    assert not here != there  # noqa: SIM202 - both operators are tested
    assert {here: 1}[there] == 1
    assert here != Entry(name="b", place=1)
