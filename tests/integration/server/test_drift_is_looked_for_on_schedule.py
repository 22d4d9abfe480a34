"""A server looks at every stack when its schedule says, whatever fails, restarts or is missed meanwhile."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from drift_made import START, FakeTime, observed
from drift_played import PlayedDrift

from holdfast.database.database import Database
from holdfast.store.drift import FindingState

DAY = timedelta(days=1)
NIGHT = datetime(2026, 3, 3, 3, tzinfo=UTC)


@pytest.mark.long
def test_500_stacks_with_a_broken_provider_are_all_looked_at(database: Database) -> None:
    """Spread over half an hour, at most a few at once; those of one provider fail: they are tried again until
    it works, and none is dropped or called fine.
    """
    names = [f"s{number:03}" for number in range(500)]
    now = FakeTime()
    played = PlayedDrift(database, names, now, at_once=60)
    played.schedule["spread"] = 1800.0
    played.broken = set(names[::7])
    played.settle()
    due = sorted(row.due for row in played.all_rows().values() if row.due is not None)
    assert len(due) == 500
    assert NIGHT <= due[0] < due[250] < due[-1] <= NIGHT + timedelta(minutes=30)
    assert NIGHT + timedelta(minutes=10) < due[250] < NIGHT + timedelta(minutes=20)
    played.pass_until(NIGHT + timedelta(minutes=40))
    rows = played.all_rows()
    assert {name for name, row in rows.items() if row.status == "not_checked"} == played.broken
    assert {name for name, row in rows.items() if row.status == "in_sync"} == set(names) - played.broken
    assert Counter(name for _, name in played.looked).keys() == set(names)
    retried = {row.due for name, row in rows.items() if name in played.broken}
    assert max(due for due in retried if due is not None) <= now() + timedelta(hours=1)
    played.broken = set()
    played.pass_until(NIGHT + timedelta(hours=5))
    assert {row.status for row in played.all_rows().values()} == {"in_sync"}
    seen = Counter(name for _, name in played.looked)
    assert {seen[name] for name in names if name not in names[::7]} == {1}


def test_moments_that_were_missed_are_made_up_once(database: Database) -> None:
    """After five days without a server each stack is looked at once, then at its next moment; a server that
    was killed between its steps leaves nothing behind that stops a stack.
    """
    now = FakeTime()
    played = PlayedDrift(database, ["a", "b"], now)
    played.settle()
    assert {row.due for row in played.all_rows().values()} == {NIGHT}
    now.moment = NIGHT + 5 * DAY + timedelta(hours=4)
    played.restart()
    played.settle()
    assert Counter(name for _, name in played.looked) == {"a": 1, "b": 1}
    assert {row.due for row in played.all_rows().values()} == {NIGHT + 6 * DAY}
    # It noted what it was about to submit, and was killed.
    now.moment = NIGHT + 6 * DAY
    with database.transaction() as connection:
        connection.execute("update drift_stacks set change = 'never', submitted = %s", (now(),))
        connection.execute("update drift_repositories set change = 'never', submitted = %s", (now(),))
    now.pass_(minutes=6)
    played.restart()
    played.settle()
    assert {row.status for row in played.all_rows().values()} == {"not_checked"}
    now.pass_(minutes=20)
    played.settle()
    assert {row.status for row in played.all_rows().values()} == {"in_sync"}


def test_changed_clocks_neither_skip_nor_double_a_look(database: Database) -> None:
    """03:00 in Berlin is another moment in UTC after each change of the clocks; 02:30 exists twice in one
    night and not at all in another, and the stack is looked at once in both.
    """
    for start, local in (
        (datetime(2026, 3, 27, 12, tzinfo=UTC), "30 2 * * *"),
        (datetime(2026, 10, 23, 12, tzinfo=UTC), "30 2 * * *"),
    ):
        with database.transaction() as connection:
            connection.execute("delete from repositories")
        now = FakeTime(start)
        played = PlayedDrift(database, ["a"], now, refresh=7 * 86400.0)
        played.schedule |= {"schedule": local, "zone": "Europe/Berlin"}
        played.settle()
        played.looked.clear()
        played.pass_until(start + 4 * DAY, step=timedelta(hours=1))
        assert len(played.looked) == 4
        hours = [(moment - start) for moment, _ in played.looked]
        assert all(
            timedelta(hours=22) < after - before < timedelta(hours=26) for before, after in pairwise(hours)
        )


def test_a_schedule_follows_its_repository(database: Database) -> None:
    """Changed, removed, with other stacks: from the next listing on. The alert of a gone stack closes."""
    now = FakeTime()
    played = PlayedDrift(database, ["a", "b"], now)
    played.settle()
    played.drift_in("b")
    played.pass_until(NIGHT)
    assert [(alert.stack, alert.resolved, alert.tenant) for alert in played.told] == [("b", False, "default")]
    played.schedule["schedule"] = "0 12 * * *"
    played.stacks = ["a", "c"]
    now.pass_(minutes=16)
    played.settle()
    assert {name: row.due for name, row in played.all_rows().items()} == dict.fromkeys(
        ("a", "c"), NIGHT + timedelta(hours=9)
    )
    assert [(alert.stack, alert.resolved) for alert in played.told] == [("b", False), ("b", True)]
    played.schedule["schedule"] = None
    now.pass_(minutes=16)
    played.settle()
    assert {row.due for row in played.all_rows().values()} == {None}
    with database.transaction() as connection:
        connection.execute("delete from repositories")
    played.settle()
    assert played.all_rows() == {}


def test_an_alert_is_raised_once_and_closed_when_it_is_over(database: Database) -> None:
    """Also if it cannot be handed over at first, and across a restart."""
    now = FakeTime()
    played = PlayedDrift(database, ["a"], now, refresh=7 * 86400.0)
    played.settle()
    played.drift_in("a")
    taken, refuses = played.told, True

    def sink(alerts: object) -> None:
        if refuses:
            raise OSError("no room")
        taken.extend(alerts)  # type: ignore[arg-type]

    played.keeper = type(played.keeper)(
        **{name: getattr(played.keeper, name) for name in played.keeper.__struct_fields__ if name != "sink"},
        sink=sink,
    )
    played.pass_until(NIGHT)
    assert taken == []
    refuses = False
    played.pass_until(NIGHT + DAY, step=timedelta(hours=2))
    played.restart()
    played.pass_until(NIGHT + 2 * DAY, step=timedelta(hours=2))
    assert [alert.resolved for alert in taken] == [False]
    played.found.clear()
    played.pass_until(NIGHT + 4 * DAY, step=timedelta(hours=2))
    assert [alert.resolved for alert in taken] == [False, True]


def test_what_a_rule_covers_is_healed_and_looked_at_again(database: Database) -> None:
    """By an apply of its own; not while another apply of the stack is open."""
    now = FakeTime(START)
    played = PlayedDrift(database, ["a", "b"], now)
    played.settle()
    for name in ("a", "b"):
        played.drift_in(name)
    played.heals["a"] = ("lab_object in dev",)
    played.pass_until(NIGHT)
    assert played.applied == ["a"]
    assert {name: row.status for name, row in played.all_rows().items()} == {"a": "in_sync", "b": "drifted"}
    known = played.store.drift.of("a")
    assert known is not None
    assert known.findings[0].state is FindingState.GONE  # The played apply records no attempt.
    assert [name for _, name in played.looked].count("a") == 2


def test_a_look_that_began_before_another_writes_nothing(database: Database) -> None:
    """The record has what was seen last, whoever finishes first."""
    played = PlayedDrift(database, ["a"], FakeTime())
    played.settle()
    played.pass_until(NIGHT)
    played.found["a"] = (observed(),)
    before = played.store.drift.of("a")
    played.now.moment = START
    assert before is not None
    assert played._look("a", before) == before
