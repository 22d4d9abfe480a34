"""Whatever is observed, in whatever order: a finding is never lost, doubled, or fine without a reason."""

from __future__ import annotations

import itertools
from datetime import timedelta

from drift_made import START, observed
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.drift.alerts import alert_digest, due_alert, with_alert
from holdfast.drift.lifecycle import KEPT, acknowledge, does_not_hold, in_force, with_healing
from holdfast.drift.stack_drift import checked, failed
from holdfast.store.drift import Acknowledgement, FindingState, StackDrift, StackStatus

KEYS = [("r.a", "x"), ("r.a", "y"), ("r.b", None)]
LOOKS = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("look"), LOOKS),
        st.tuples(st.just("fail"), st.none()),
        st.tuples(st.just("acknowledge"), st.integers(1, 72)),
        st.tuples(st.just("heal"), st.none()),
        st.tuples(st.just("tell"), st.none()),
    ),
    max_size=25,
)
HOURS = st.lists(st.integers(1, 24 * 6), min_size=25, max_size=25)


@given(STEPS, HOURS)
def test_a_finding_is_what_was_last_seen(  # noqa: C901, PLR0912 - one step of each kind
    steps: list[tuple[str, object]], hours: list[int]
) -> None:
    """After every step: open findings are exactly what was last observed, each once, with times in order; a
    stack that could not be looked at keeps them; an acknowledged one has not changed; and people who are told
    have been told of exactly what is active.
    """
    ids = itertools.count()
    now, known = START, StackDrift(stack="a", salt="s")
    seen: dict[tuple[str, str | None], int] = {}
    told: str | None = None
    for (step, value), pause in zip(steps, hours, strict=False):
        now += timedelta(hours=pause)
        before = known
        match step, value:
            case "look", dict() as look:
                seen = look
                observations = [observed(key[0], key[1], number) for key, number in look.items()]
                known = checked(
                    known, "a", "dev", "s", now, observed=observations, unapplied=False,
                    new_id=lambda: str(next(ids)),
                )  # fmt: skip
            case "fail", _:
                known = failed(known, "a", "dev", "s", now)
                assert known.findings == before.findings
                assert known.status is StackStatus.NOT_CHECKED
            case "acknowledge", int() as length:
                given_ = Acknowledgement(by="p", at=now, reason="r", until=now + timedelta(hours=length))
                changed = tuple(f if f.state.ended else acknowledge(f, given_) for f in known.findings)
                known = structs.replace(known, findings=changed)
            case "heal", _:
                known = structs.replace(
                    known,
                    findings=tuple(
                        f if f.state.ended or does_not_hold(f) else with_healing(f, now)
                        for f in known.findings
                    ),
                )
            case "tell", _:
                alert = due_alert(known, now)
                if alert is not None:
                    assert alert.resolved is not bool(known.active)
                    told = alert_digest(known)
                    known = with_alert(known, told, now)
                elif known.status is not StackStatus.NOT_CHECKED:
                    assert told == alert_digest(known)
        by_key = {f.key: f for f in known.findings}
        assert len(by_key) == len(known.findings)
        assert {f.key for f in known.open} == set(seen)
        assert len({f.id for f in known.findings}) == len(known.findings)
        for finding in known.findings:
            assert finding.first_seen <= finding.last_seen <= now
            if finding.state is FindingState.ACKNOWLEDGED and step == "look":
                earlier = {f.key: f for f in before.findings}[finding.key]
                assert in_force(finding.acknowledged, now)
                assert finding.fingerprint == earlier.fingerprint
            if finding.state.ended:
                assert now - finding.since <= KEPT or step != "look"
            if finding.state is FindingState.HEALED:
                assert finding.healings
        if step == "look":
            drifted = known.status is StackStatus.DRIFTED
            assert drifted is bool(seen)
