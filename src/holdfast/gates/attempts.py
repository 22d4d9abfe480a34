"""When a gate has passed, has failed, or is checked again. Pure: times are given."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.shapes import duration_text
from holdfast.gates.interface import Met, NotMet, NotObservable, Observation
from holdfast.kernel.text import plural

_MOST_SEEN = 12


class Pace(Struct, frozen=True, kw_only=True):
    deadline: float
    interval: float
    successes: int


class Seen(Struct, frozen=True, kw_only=True):
    """One thing that was observed, how often, and in which second it was first and last."""

    met: bool
    text: str
    count: int
    first: float
    last: float


class Attempts(Struct, frozen=True, kw_only=True):
    """Everything observed so far."""

    number: int = 0
    met: int = 0
    in_a_row: int = 0
    """How many of the last attempts passed."""
    seen: tuple[Seen, ...] = ()
    """In the order in which each was first observed."""
    unlisted: int = 0
    """How many attempts observed something else, which is not kept."""
    last: Observation | None = None

    def after(self, observation: Observation, at: float) -> Attempts:
        met = isinstance(observation, Met)
        seen, listed = _with(self.seen, observation.text, met=met, at=at)
        return replace(
            self,
            number=self.number + 1,
            met=self.met + met,
            in_a_row=self.in_a_row + 1 if met else 0,
            seen=seen,
            unlisted=self.unlisted + (not listed),
            last=observation,
        )


def _with(seen: tuple[Seen, ...], text: str, *, met: bool, at: float) -> tuple[tuple[Seen, ...], bool]:
    for place, known in enumerate(seen):
        if (known.met, known.text) == (met, text):
            counted = replace(known, count=known.count + 1, last=at)
            return (*seen[:place], counted, *seen[place + 1 :]), True
    if len(seen) >= _MOST_SEEN:
        return seen, False
    return (*seen, Seen(met=met, text=text, count=1, first=at, last=at)), True


class Again(Struct, frozen=True, kw_only=True):
    seconds: float


class Passed(Struct, frozen=True, kw_only=True):
    reason: str


class Failed(Struct, frozen=True, kw_only=True):
    reason: str
    next_step: str | None = None


class Unchecked(Struct, frozen=True, kw_only=True):
    """Not known: it is reported like a failure, never as passed."""

    reason: str
    next_step: str | None = None


Conclusion = Passed | Failed | Unchecked


def decide(attempts: Attempts, pace: Pace, elapsed: float) -> Again | Conclusion:
    """At least one attempt was made. The last one is at the deadline, not before it."""
    match attempts.last:
        case None:
            return Again(seconds=0.0)
        case NotObservable(text=text, next_step=step):
            return Unchecked(reason=text, next_step=step)
        case Met(text=text):
            if attempts.in_a_row >= pace.successes:
                return Passed(reason=text)
            step = None
        case NotMet(next_step=step):
            pass
        case other:
            assert_never(other)
    if elapsed >= pace.deadline:
        return Failed(reason=failure(attempts, pace), next_step=step)
    return Again(seconds=min(pace.interval, pace.deadline - elapsed))


def failure(attempts: Attempts, pace: Pace) -> str:
    """What was seen last, and how often; of one that comes and goes, that it does."""
    if attempts.met:
        of = plural(attempts.number, "attempt")
        row = f", but never {pace.successes} in a row" if pace.successes > 1 else ""
        failing = next((seen.text for seen in reversed(attempts.seen) if not seen.met), "")
        return f"unstable: {attempts.met} of {of} passed{row}{f'; otherwise {failing}' if failing else ''}"
    text = attempts.last.text if attempts.last is not None else ""
    last = next((seen for seen in attempts.seen if seen.text == text), None)
    if last is None:
        return f"{text}, after {plural(attempts.number - 1, 'other result')}"
    times = f"seen {plural(last.count, 'time')} in {duration_text(max(1.0, round(last.last)))}"
    others = attempts.number - last.count
    more = f", and {plural(others, 'other result')}" if others else ""
    return f"{text}, {times}{more}"
