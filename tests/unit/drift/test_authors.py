"""An author belongs to what was found when it was looked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import structs

from holdfast.drift.authors import unexplained, with_authors
from holdfast.drift.lifecycle import next_findings
from holdfast.drift.observation import Observation
from holdfast.store.drift import Author, StackDrift

NOW = datetime(2026, 3, 3, tzinfo=UTC)
SEEN = Observation(
    address="aws_x.a", type="aws_x", attribute="b", before=1, after=2, fingerprint="f", resource="x-1"
)
ALICE = Author(who="alice", at=NOW, event="PutX", source="CloudTrail")


def test_only_new_and_changed_drift_is_looked_up() -> None:
    assert unexplained([SEEN], None) == {"aws_x.a": "x-1"}
    findings = next_findings((), [SEEN], NOW, new_id=lambda: "1")
    before = StackDrift(stack="s", salt="", findings=findings)
    assert unexplained([SEEN], before) == {}
    assert unexplained([structs.replace(SEEN, fingerprint="g")], before) == {"aws_x.a": "x-1"}


def test_the_author_stays_until_the_finding_changes() -> None:
    first = with_authors(next_findings((), [SEEN], NOW, new_id=lambda: "1"), {"aws_x.a": ALICE})
    assert first[0].author == ALICE
    again = next_findings(first, [SEEN], NOW + timedelta(hours=1), new_id=lambda: "2")
    assert again[0].author == ALICE
    changed = structs.replace(SEEN, fingerprint="g")
    other = with_authors(next_findings(again, [changed], NOW + timedelta(hours=2), new_id=lambda: "3"), {})
    assert other[0].author is None
    gone = with_authors(
        next_findings(other, [], NOW + timedelta(hours=3), new_id=lambda: "4"), {"aws_x.a": ALICE}
    )
    assert gone[0].author is None
