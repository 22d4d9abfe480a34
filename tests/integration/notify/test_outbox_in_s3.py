"""An outbox in S3, whose answers are lost, late or doubled: each alert is told, and its receiver sees one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alerts_made import MadeOutbox, made_alert
from channel_servers import ROUTING_KEY, PagerDuty
from flaky_s3 import Fails, Fault, FlakyS3, HalfAnswer, LostAnswer, LostRequest, Twice

from holdfast.store.place import open_blobs

MORE = (LostRequest(), HalfAnswer(), Twice(), Fails(503, "SlowDown"), Fails(500, done=True))


@pytest.fixture(scope="module")
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as server:
        server.make_bucket("acme")
        yield server


@pytest.fixture
def pager() -> Iterator[PagerDuty]:
    with (service := PagerDuty()).http:
        yield service


def made(s3: FlakyS3, pager: PagerDuty, folder: Path, prefix: str, first_id: int = 1) -> MadeOutbox:
    channel = f'{{ pagerduty: {{ routing_key: {{ secret: "env:PAGER" }}, url: "{pager.url}" }} }}'
    return MadeOutbox(
        f"{{ channels: {{ pager: {channel} }}, routes: [ {{ channel: pager }} ] }}",
        {"PAGER": ROUTING_KEY},
        blobs=open_blobs(f"s3://acme/{prefix}", folder, s3.variables),
        first_id=first_id,
    )


@pytest.mark.parametrize(
    "fault",
    [LostAnswer(), *(pytest.param(fault, marks=pytest.mark.long) for fault in MORE)],
    ids=lambda fault: f"{type(fault).__name__}-{getattr(fault, 'status', '')}",
)
def test_a_bucket_that_misbehaves_costs_no_alert(
    s3: FlakyS3, pager: PagerDuty, tmp_path: Path, fault: Fault
) -> None:
    """One fault in each of the writes: raised, taken, delivered and ended, all is told once."""
    outbox = made(s3, pager, tmp_path, f"one-{tmp_path.name}")
    s3.disturb(fault, method="PUT", path="notify/", times=1)
    outbox.raise_(made_alert())
    s3.disturb(fault, method="PUT", path="notify/", times=1)
    outbox.deliver()
    outbox.deliver(61)
    assert [item.opened for item in pager.items.values()] == [1]
    outbox.raise_(made_alert(resolved=True))
    s3.disturb(fault, method="PUT", path="notify/", times=1)
    outbox.deliver(1)
    outbox.deliver(61)
    s3.calm()
    assert pager.open == []
    assert len(pager.items) == 1


@pytest.mark.long
def test_jobs_that_share_a_bucket_tell_everything_once(s3: FlakyS3, pager: PagerDuty, tmp_path: Path) -> None:
    """They write the same blob at the same time, by comparing and swapping."""
    jobs = [made(s3, pager, tmp_path, "shared", 100 * number) for number in range(4)]

    def work(number: int) -> None:
        jobs[number].raise_(made_alert(f"prod/{number}"))
        jobs[number].deliver()

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, range(len(jobs))))
    jobs[0].deliver(61)
    assert len(pager.open) == len(jobs)
    assert {item.opened for item in pager.items.values()} == {1}
    assert jobs[1].outbox == jobs[2].outbox
