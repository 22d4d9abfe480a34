from __future__ import annotations

import itertools

import pytest
from results_made import result, stack

from holdfast.kernel.errors import Exit, most_severe
from holdfast.plans.result import exit_code
from holdfast.plans.status import RESULTS, STATUS_OF_EXIT, Status

EXPECTED = {
    "unchanged": 0,
    "planned": 0,
    "applied": 0,
    "failed": 1,
    "cancelled": 1,
    "refused": 3,
    "locked": 4,
    "waiting": 5,
    "unknown": 6,
    "blocked": 0,
    "removed": 0,
}
SEVERE_FIRST = [6, 1, 3, 4, 5, 2, 0]


def test_the_statuses_are_the_closed_set() -> None:
    """Every status that a document may hold has its exit code, and there is no other."""
    assert {status.value: int(status.exit) for status in RESULTS} == EXPECTED


@pytest.mark.parametrize(("one", "other"), tuple(itertools.product(SEVERE_FIRST, SEVERE_FIRST)))
def test_of_two_the_gravest_wins(one: int, other: int) -> None:
    """6, 1, 3, 4, 5, 2, 0: in this order, whichever stack comes first."""
    wins = SEVERE_FIRST[min(SEVERE_FIRST.index(one), SEVERE_FIRST.index(other))]
    assert most_severe([Exit(one), Exit(other)]) == wins


def test_nothing_selected_is_nothing_to_do() -> None:
    """No stack, no change: done."""
    assert exit_code(()) is Exit.DONE
    assert exit_code((), detailed=True) is Exit.DONE


@pytest.mark.parametrize("status", RESULTS)
def test_planned_changes_are_exit_2_only_when_asked(status: Status) -> None:
    """`--detailed-exitcode` makes 2 of `planned`, and touches nothing else."""
    results = (result(stack("a"), status), result(stack("b"), Status.PLANNED))
    plain = EXPECTED[status.value]
    assert exit_code(results) == plain
    assert exit_code(results, detailed=True) == (plain or 2)
    assert exit_code(results[:1], detailed=True) == (2 if status is Status.PLANNED else plain)


def test_an_error_that_ends_one_stack_keeps_its_gravity() -> None:
    """A refusal becomes `refused`, a lock `locked`, the unknown `unknown`: with the same exit code."""
    for exit_, status in STATUS_OF_EXIT.items():
        assert status.exit == (Exit.FAILED if exit_ is Exit.USAGE else exit_)
