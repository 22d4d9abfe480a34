"""Failed logins: counted for a minute, by key, in bounded memory."""

from __future__ import annotations

from holdfast.server.guards import FailedLogins


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_limit_is_per_key_and_per_minute() -> None:
    clock = Clock()
    failures = FailedLogins(2, now=clock)
    failures.add("one")
    assert failures.wait("one") is None
    clock.seconds += 20
    failures.add("one", "two")
    assert (failures.wait("one"), failures.wait("two")) == (40, None)
    clock.seconds += 40
    assert failures.wait("one") is None
    failures.add("one")
    assert failures.wait("one") is None


def test_the_oldest_keys_are_forgotten() -> None:
    failures = FailedLogins(1)
    failures.add("first")
    failures.add(*(f"key {number}" for number in range(10_000)))
    assert failures.wait("first") is None
    assert failures.wait("key 9999") is not None
