"""The chosen kills leave out no victim, operation, engine, home or kind of moment; a name gives it back."""

from __future__ import annotations

import itertools

import pytest
from faults_scenarios import (
    CHOSEN,
    AtCall,
    AtSave,
    Engine,
    Home,
    Operation,
    Point,
    Saving,
    Victim,
    drawn,
    parse,
)


def test_the_chosen_ones_cover_everything() -> None:
    """Each engine, home, victim, operation and held moment is in one of them at least."""
    assert len(CHOSEN) == len(set(CHOSEN)) == 18
    assert {one.engine for one in CHOSEN} == set(Engine)
    assert {one.home for one in CHOSEN} == set(Home)
    assert {one.victim for one in CHOSEN} == set(Victim)
    assert {one.operation for one in CHOSEN} == set(Operation)
    assert {one.moment.point for one in CHOSEN if isinstance(one.moment, AtCall)} == set(Point)
    assert {one.moment.point for one in CHOSEN if isinstance(one.moment, AtSave)} == set(Saving)


def test_a_name_gives_the_scenario_back() -> None:
    """What the table prints can be played again."""
    for one in itertools.islice(drawn(7), 500):
        assert parse(str(one)) == one


def test_a_seed_draws_the_same_kills() -> None:
    """And another seed draws others."""
    first, again, other = (list(itertools.islice(drawn(seed), 50)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    "text",
    [
        "embedded:managed:terraform:create:call-1-made",
        "tofu:managed:terraform:create:call-1-made",
        "embedded:managed:all:create:call-3-made",
        "embedded:local:all:create:save-late",
        "embedded:managed:all:create:never",
    ],
)
def test_what_cannot_be_is_refused(text: str) -> None:
    """A scenario that could not be played would be counted as played."""
    with pytest.raises(ValueError, match=r".+"):
        parse(text)
