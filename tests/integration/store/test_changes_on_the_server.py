"""Changes and runs in PostgreSQL: order, labels, limits, fencing, decisions and cancelling."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace
from runs_made import ADA, made_worker, submitted

from holdfast.database.database import Database
from holdfast.plans.events import Note
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.claiming import Claiming, ClaimLimits
from holdfast.store.server_runs.contents import (
    RunEnd,
    RunLog,
    checks_name,
    options_name,
    plan_name,
    report_name,
    result_name,
    upload_name,
)
from holdfast.store.server_runs.phases import ChangePhase, InvalidPhase, Operation, RunPhase
from holdfast.store.server_runs.retention import remove_expired_uploads, remove_old_changes
from holdfast.store.server_runs.rows import (
    APPLY_PRIORITY,
    WORK,
    Change,
    ChangeRows,
    NewChange,
    NewRun,
    RunRows,
)
from holdfast.store.server_runs.sources import RepositoryRows, SourceRows
from holdfast.store.server_runs.waiting import waiting_for
from holdfast.store.server_runs.wakeups import listen
from holdfast.store.server_runs.workers import WorkerRows
from holdfast.worker.run_output import RunOutput

DIGEST = "d" * 64
KEY = Key.of(b"k" * 32)


def selected(claiming: Claiming, change: Change, **environments: str | None) -> Change | None:
    """The stacks that the worker selects, with their environments."""
    runs = [NewRun(stack=stack, environment=name) for stack, name in environments.items()]
    return claiming.add_runs(change.id, change.fence, runs)


def test_the_life_of_a_change(database: Database) -> None:
    """From its submission through an approval to the end; what is shown at each point."""
    changes, runs = ChangeRows(database), RunRows(database)
    new = submitted(database, "network", operation=Operation.APPLY, reason="first")
    assert (new.phase, new.requester, new.patterns, new.reason) == ("queued", ADA, ("network",), "first")
    claiming, worker = made_worker(database)
    change = claiming.claim()
    assert change is not None
    assert (change.id, change.fence, change.worker) == (new.id, 1, worker.id)
    assert claiming.claim() is None
    resolved = selected(claiming, change, network="prod")
    assert resolved is not None
    (run,) = resolved.runs
    assert (run.id, run.environment, resolved.environments) == (new.runs[0].id, "prod", ("prod",))
    assert resolved.patterns is None

    def to(phase: RunPhase, status: str | None = None, digest: str | None = None, fence: int = 1) -> bool:
        return claiming.set_phase(change.id, fence, run.id, phase, status=status, digest=digest)

    assert to(RunPhase.PLANNING)
    assert to(RunPhase.WAITING, "waiting", DIGEST)
    assert claiming.finish(change.id, 1) is ChangePhase.WAITING
    assert claiming.claim() is None
    assert not changes.decide(run.id, "e" * 64)
    assert changes.decide(run.id, DIGEST)
    again = claiming.claim()
    assert again is not None
    assert again.fence == 2
    assert not to(RunPhase.APPLYING)  # With the fence of the claim before.
    assert to(RunPhase.APPLYING, fence=2)
    with pytest.raises(InvalidPhase):
        to(RunPhase.PLANNING, fence=2)
    assert to(RunPhase.DONE, "applied", fence=2)
    assert claiming.finish(change.id, 2) is ChangePhase.DONE
    assert claiming.finish(change.id, 2) is None
    ended, ended_run = changes.of(change.id), runs.of(run.id)
    assert ended is not None
    assert ended_run is not None
    assert (ended.phase, ended.worker) == (ChangePhase.DONE, None)
    assert (ended_run.status, ended_run.digest, ended_run.ended is not None) == ("applied", DIGEST, True)


def test_runs_of_one_stack_keep_their_order(database: Database) -> None:
    """A hundred runs of one stack do not starve another one, and a later one never overtakes."""
    first = [submitted(database, "busy", operation=Operation.APPLY, priority=APPLY_PRIORITY)]
    first += [submitted(database, "busy", priority=APPLY_PRIORITY) for _ in range(100)]
    other = submitted(database, "quiet")
    claiming, _ = made_worker(database)
    one, two = claiming.claim(), claiming.claim()
    assert one is not None
    assert two is not None
    assert [one.id, two.id, claiming.claim()] == [first[0].id, other.id, None]
    claiming.finish(one.id, one.fence)
    following = claiming.claim()
    assert following is not None
    assert following.id == first[1].id


def test_a_change_of_several_stacks_waits_for_all_of_them(database: Database) -> None:
    claiming, _ = made_worker(database)
    one = submitted(database, "a", "b")
    two = submitted(database, "b", "c")
    three = submitted(database, "c")
    claimed = claiming.claim()
    assert claimed is not None
    assert (claimed.id, claiming.claim()) == (one.id, None)  # `c` keeps its order behind the second change.
    claiming.finish(one.id, 1)
    for change in (two, three):
        next_one = claiming.claim()
        assert next_one is not None
        assert next_one.id == change.id
        claiming.finish(change.id, 1)


def test_a_run_that_waits_blocks_no_other_until_it_is_approved(database: Database) -> None:
    """And it does not begin while another run of its stack is in progress."""
    claiming, _ = made_worker(database)
    waiting = submitted(database, "a", operation=Operation.APPLY)
    claimed = claiming.claim()
    assert claimed is not None
    claiming.set_phase(waiting.id, 1, waiting.runs[0].id, RunPhase.PLANNING)
    claiming.set_phase(waiting.id, 1, waiting.runs[0].id, RunPhase.WAITING, status="waiting", digest=DIGEST)
    claiming.finish(waiting.id, 1)
    later = submitted(database, "a")
    running = claiming.claim()
    assert running is not None
    assert running.id == later.id
    assert ChangeRows(database).decide(waiting.runs[0].id, DIGEST)
    assert claiming.claim() is None
    claiming.finish(later.id, 1)
    approved = claiming.claim()
    assert approved is not None
    assert approved.id == waiting.id


def test_an_approval_while_the_change_runs_is_not_lost(database: Database) -> None:
    claiming, _ = made_worker(database)
    change = submitted(database, "a", "b", operation=Operation.APPLY)
    claiming.claim()
    a, b = change.runs
    for run in (a, b):
        claiming.set_phase(change.id, 1, run.id, RunPhase.PLANNING)
    claiming.set_phase(change.id, 1, a.id, RunPhase.WAITING, status="waiting", digest=DIGEST)
    assert ChangeRows(database).decide(a.id, DIGEST)
    claiming.set_phase(change.id, 1, b.id, RunPhase.DONE, status="unchanged")
    assert claiming.finish(change.id, 1) is ChangePhase.QUEUED
    assert claiming.claim() is not None


def test_a_rejected_run_is_done(database: Database) -> None:
    claiming, _ = made_worker(database)
    change = submitted(database, "a", operation=Operation.APPLY)
    claiming.claim()
    claiming.set_phase(change.id, 1, change.runs[0].id, RunPhase.PLANNING)
    claiming.set_phase(change.id, 1, change.runs[0].id, RunPhase.WAITING, status="waiting", digest=DIGEST)
    claiming.finish(change.id, 1)
    assert ChangeRows(database).decide(change.runs[0].id, DIGEST, rejected=True)
    assert not ChangeRows(database).decide(change.runs[0].id, DIGEST)
    ended = ChangeRows(database).of(change.id)
    assert ended is not None
    assert (ended.phase, ended.runs[0].phase, ended.runs[0].status) == ("done", "done", "refused")


def test_workers_with_labels_take_only_what_fits(database: Database) -> None:
    """Which environments a change has is known once its stacks are selected; then it is queued again."""
    production, _ = made_worker(database, labels={"environment": ("prod",), "target": ("aws",)})
    others, _ = made_worker(database, labels={"environment": ("dev", "test")})
    change = submitted(database, "a")
    claimed = production.claim()
    assert claimed is not None
    assert selected(production, claimed, a="dev") is None
    assert production.claim() is None
    again = others.claim()
    assert again is not None
    assert (again.id, again.fence, again.patterns) == (change.id, 2, None)
    mixed = submitted(database, "b", "c")
    claimed = others.claim()
    assert claimed is not None
    assert selected(others, claimed, b="dev", c="prod") is None
    assert [others.claim(), production.claim()] == [None, None]
    anything, _ = made_worker(database)
    taken = anything.claim()
    assert taken is not None
    assert taken.id == mixed.id


def test_stacks_require_labels_and_others_do_not_matter(database: Database) -> None:
    """And the change says which worker it waits for."""
    plain, _ = made_worker(database)
    inside, _ = made_worker(database, labels={"network": ("internal", "dmz"), "disk": ("fast",)})
    change = submitted(database, "a", "b")
    claimed = plain.claim()
    assert claimed is not None
    runs = [NewRun(stack="a", labels=("network=internal",)), NewRun(stack="b", labels=("network=dmz",))]
    assert plain.add_runs(change.id, claimed.fence, runs) is None
    assert plain.claim() is None
    taken = inside.claim()
    assert taken is not None
    assert (taken.id, taken.labels) == (change.id, ("network=dmz", "network=internal"))
    other = submitted(database, "c")  # Without labels: any worker takes it.
    claimed = inside.claim()
    assert claimed is not None
    assert inside.add_runs(other.id, claimed.fence, [NewRun(stack="c")]) is not None


def reason(database: Database, change: Change, **limits: Any) -> str | None:
    now = ChangeRows(database).of(change.id)
    assert now is not None
    return waiting_for(database, now, ClaimLimits(**limits))


def test_a_queued_change_says_what_it_waits_for(database: Database) -> None:
    """A worker, labels, order, a limit, or a decision."""
    first = submitted(database, "a", operation=Operation.APPLY)
    assert reason(database, first) == "a worker: none is running"
    claiming, _ = made_worker(database)
    assert reason(database, first) == "a free worker"
    assert reason(database, first, overall=0) == "the limit of 0 changes at the same time (`runs.limit`)"
    claimed = claiming.claim()
    assert claimed is not None
    assert selected(claiming, claimed, a="prod") is not None
    assert reason(database, first) is None
    second = submitted(database, "a")
    run = claimed.runs[0].id
    assert reason(database, second) == f"run {run} of the same stack, a, which is queued"
    claiming.set_phase(first.id, claimed.fence, run, RunPhase.PLANNING)
    assert reason(database, second) == f"run {run} of the same stack, a, which is planning"

    third = submitted(database, "b")
    claimed = claiming.claim()
    assert claimed is not None
    labelled = NewRun(stack="b", environment="prod", target="aws", labels=("network=internal",))
    assert claiming.add_runs(third.id, claimed.fence, [labelled]) is None
    assert reason(database, third) == "a worker with network=internal: none is running"
    made_worker(database, labels={"network": ("internal",), "environment": ("dev",)})
    assert reason(database, third) == "a worker with environment=prod, network=internal: none is running"
    made_worker(database, labels={"network": ("internal",)})
    limit = reason(database, third, per_environment={"prod": 1})
    assert limit == "the limit of 1 change in prod (`runs.per_environment`)"
    assert reason(database, third) == "a free worker"
    with database.transaction() as connection:
        connection.execute("update workers set beat = now() - interval '1 hour'")
    assert reason(database, third) == "a worker with network=internal: none is running"

    values = {"status": "waiting", "digest": DIGEST}
    claiming.set_phase(first.id, 1, run, RunPhase.WAITING, **values)
    claiming.finish(first.id, 1)
    assert reason(database, first) == "a decision about the plan of a"


def test_a_change_for_two_workers_says_that_no_single_one_can_take_it(database: Database) -> None:
    """It would wait for ever: a worker takes a change as a whole."""
    prod, _ = made_worker(database, labels={"environment": ("prod",)})
    made_worker(database, labels={"environment": ("dev",)})
    both = submitted(database, "a", "b")
    claimed = prod.claim()
    assert claimed is not None
    assert selected(prod, claimed, a="dev", b="prod") is None
    expected = (
        "one worker with all of environment=dev, environment=prod: those that are running have only some"
    )
    assert str(reason(database, both)).startswith(expected)
    assert "separate changes" in str(reason(database, both))
    made_worker(database, labels={"environment": ("dev", "prod")})
    assert reason(database, both) == "a free worker"


def test_an_apply_waits_until_the_stacks_of_an_earlier_one_are_known(database: Database) -> None:
    """Two merges: the older commit is not applied over the newer one if its stacks are found later."""
    repository = RepositoryRows(database).add(
        "acme", name="infra", url="https://example.com/infra.git", branch="main", credentials=None, by="ada"
    )
    assert repository is not None
    merges = [
        ChangeRows(database).submit(
            NewChange(
                tenant="acme",
                operation=operation,
                source=SourceRows(database)
                .add_commit("acme", repository=repository.id, wanted=None, by="ada")
                .id,
                requester=ADA,
                patterns=("*",),
            )
        )
        for operation in (Operation.APPLY, Operation.APPLY, Operation.PLAN)
    ]
    claiming, _ = made_worker(database)
    first, plan = claiming.claim(), claiming.claim()
    assert first is not None
    assert plan is not None
    assert [first.id, plan.id, claiming.claim()] == [merges[0].id, merges[2].id, None]
    assert selected(claiming, first, a=None) is not None
    second = claiming.claim()
    assert second is not None
    assert selected(claiming, second, a=None, b=None) is None  # Queued again: the first one has `a`.


def test_limits_of_changes_at_the_same_time(database: Database) -> None:
    limits = ClaimLimits(overall=3, per_environment={"prod": 1})
    claiming, _ = made_worker(database, limits=limits)
    for stack in ("a", "b", "c", "d", "e"):
        submitted(database, stack)
    first = claiming.claim()
    assert first is not None
    assert selected(claiming, first, a="prod") is not None
    second = claiming.claim()
    assert second is not None
    assert selected(claiming, second, b="prod") is None  # One of production at a time: queued again.
    for stack in ("c", "d"):
        claimed = claiming.claim()
        assert claimed is not None
        assert selected(claiming, claimed, **{stack: "dev"}) is not None
    assert claiming.claim() is None  # Three of all.
    claiming.finish(first.id, first.fence)
    again = claiming.claim()
    assert again is not None
    assert again.id == second.id


def test_only_ready_workers_of_the_tenant_claim(database: Database) -> None:
    claiming, worker = made_worker(database, tenant="other")
    submitted(database, "a")
    assert claiming.claim() is None
    claiming, worker = made_worker(database, tenant="acme")
    rows = WorkerRows(database)
    rows.set_phase(worker.id, "draining")
    assert claiming.claim() is None
    assert [(row.id, row.phase) for row in rows.list("acme")] == [(worker.id, "draining")]
    assert len(rows.list()) == 2
    rows.set_phase(worker.id, "gone")
    assert rows.list("acme") == ()


def test_two_workers_never_have_the_same_stack(database: Database) -> None:
    """Many claims at once: each change is given out once, and each stack has one at a time."""
    for number in range(24):
        submitted(database, f"stack-{number % 4}")
    workers = [made_worker(database)[0] for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        claimed = [change for change in threads.map(lambda worker: worker.claim(), workers) if change]
    assert sorted(change.runs[0].stack for change in claimed) == [f"stack-{number}" for number in range(4)]


def test_a_change_that_was_taken_away_is_not_written(database: Database) -> None:
    """A worker that was stopped and declared dead loses every write; a heartbeat tells it."""
    claiming, worker = made_worker(database)
    change = submitted(database, "a")
    run = change.runs[0].id
    claiming.claim()
    claiming.set_phase(change.id, 1, run, RunPhase.PLANNING)
    assert claiming.beat({change.id: 1}).lost == frozenset()
    assert claiming.requeue(change.id, 1)
    other, _ = made_worker(database)
    taken = other.claim()
    assert taken is not None
    assert (taken.fence, taken.runs[0].phase) == (2, RunPhase.QUEUED)
    assert claiming.beat({change.id: 1}).lost == {change.id}
    assert not claiming.set_phase(change.id, 1, run, RunPhase.DONE, status="planned")
    assert claiming.finish(change.id, 1) is None
    assert not claiming.requeue(change.id, 1)
    assert claiming.add_runs(change.id, 1, [NewRun(stack="b")]) is None
    unchanged = ChangeRows(database).of(change.id)
    assert unchanged is not None
    assert unchanged.runs == taken.runs
    assert unchanged.worker != worker.id


def test_several_runs_end_at_once_with_their_contents_or_not_at_all(database: Database) -> None:
    """A worker that lost its change writes neither rows nor what is stored beside them."""
    submitted(database, "a", "b", operation=Operation.APPLY)
    claiming, _ = made_worker(database)
    change = claiming.claim()
    assert change is not None
    store = RunStore(DatabaseBlobs(database, change.tenant), lambda: KEY)
    first, second = change.runs
    for run in change.runs:
        assert claiming.set_phase(change.id, 1, run.id, RunPhase.PLANNING)
    ends = [
        RunEnd(run=first.id, phase=RunPhase.DONE, status="applied", contents={result_name(first.id): b"1"}),
        RunEnd(
            run=second.id,
            phase=RunPhase.WAITING,
            status="waiting",
            digest=DIGEST,
            contents={result_name(second.id): b"2"},
        ),
    ]
    assert not claiming.end_runs(change.id, 0, ends, store.encrypted)
    assert store.encrypted.names("server") == ()
    assert claiming.end_runs(change.id, 1, ends, store.encrypted)
    shown = ChangeRows(database).of(change.id)
    assert shown is not None
    assert [(run.phase, run.status, run.digest) for run in shown.runs] == [
        ("done", "applied", None),
        ("waiting", "waiting", DIGEST),
    ]
    blob = store.encrypted.read(result_name(second.id))
    assert blob is not None
    assert blob.data == b"2"
    again = [RunEnd(run=first.id, phase=RunPhase.DONE, status="failed", contents={"server/x": b""})]
    with pytest.raises(InvalidPhase):
        claiming.end_runs(change.id, 1, again, store.encrypted)
    assert store.encrypted.read("server/x") is None


def test_lines_of_many_runs_are_written_together_and_continue_those_of_another_worker(
    database: Database,
) -> None:
    change = submitted(database, "a", "b")
    first, second = (run.id for run in change.runs)
    encrypted = RunStore(DatabaseBlobs(database, change.tenant), lambda: KEY).encrypted
    assert RunLog(encrypted, second).append(1, ["of another worker", "two"])
    output = RunOutput(database, encrypted, change.id, {"a": first, "b": second}, Redactor())

    async def write(*texts: str) -> None:
        for text in texts:
            output.handle(Note(stack=None, text=text))
        await output.flush()

    asyncio.run(write("one"))
    asyncio.run(write("two", "three"))
    assert RunLog(encrypted, first).lines() == [(1, "one"), (2, "two"), (3, "three")]
    continued = [(1, "of another worker"), (2, "two"), (3, "one"), (4, "two"), (5, "three")]
    assert RunLog(encrypted, second).lines() == continued


def test_an_apply_stays_with_its_change(database: Database) -> None:
    """A worker that ends leaves an apply to its supervisor: nothing else takes the change or the stack."""
    claiming, _ = made_worker(database)
    change = submitted(database, "a", operation=Operation.APPLY)
    claiming.claim()
    for phase in (RunPhase.PLANNING, RunPhase.APPLYING):
        claiming.set_phase(change.id, 1, change.runs[0].id, phase)
    assert claiming.requeue(change.id, 1)
    left = ChangeRows(database).of(change.id)
    assert left is not None
    assert (left.phase, left.runs[0].phase) == (ChangePhase.RUNNING, RunPhase.APPLYING)
    submitted(database, "a")
    assert claiming.claim() is None


def test_a_drained_change_is_done_with_its_runs(database: Database) -> None:
    """A worker that ends finished its apply first: there is nothing left to queue."""
    claiming, _ = made_worker(database)
    change = submitted(database, "a", operation=Operation.APPLY)
    claiming.claim()
    run = change.runs[0].id
    for phase in (RunPhase.PLANNING, RunPhase.APPLYING):
        claiming.set_phase(change.id, 1, run, phase)
    claiming.set_phase(change.id, 1, run, RunPhase.DONE, status="applied")
    assert claiming.requeue(change.id, 1)
    done = ChangeRows(database).of(change.id)
    assert done is not None
    assert (done.phase, done.worker) == (ChangePhase.DONE, None)


def test_cancelling(database: Database) -> None:
    """At once while no worker has it; otherwise the worker learns it with its next heartbeat."""
    changes = ChangeRows(database)
    claiming, _ = made_worker(database)
    queued = submitted(database, "a")
    cancelled = changes.request_cancel(queued.id, "bob")
    assert cancelled is not None
    assert (cancelled.phase, cancelled.cancelled_by, cancelled.runs[0].status) == ("done", "bob", "cancelled")
    running = submitted(database, "a", "b")
    claiming.claim()
    claiming.set_phase(running.id, 1, running.runs[0].id, RunPhase.PLANNING)
    asked = changes.request_cancel(running.id, "bob")
    assert asked is not None
    assert asked.phase is ChangePhase.RUNNING
    assert claiming.beat({running.id: 1}).cancelled == {running.id}
    assert claiming.finish(running.id, 1) is ChangePhase.DONE
    waiting = submitted(database, "c", operation=Operation.APPLY)
    claiming.claim()
    claiming.set_phase(waiting.id, 1, waiting.runs[0].id, RunPhase.PLANNING)
    claiming.set_phase(waiting.id, 1, waiting.runs[0].id, RunPhase.WAITING, status="waiting", digest=DIGEST)
    assert claiming.finish(waiting.id, 1) is ChangePhase.WAITING
    cancelled = changes.request_cancel(waiting.id, "bob")
    assert cancelled is not None
    assert (cancelled.phase, cancelled.runs[0].status) == ("done", "cancelled")
    assert not changes.decide(waiting.runs[0].id, DIGEST)
    ended = changes.request_cancel(running.id, "eve")
    assert ended is not None
    assert [run.status for run in ended.runs] == ["cancelled", "cancelled"]
    assert ended.cancelled_by == "bob"
    assert changes.request_cancel("none", "bob") is None


def test_a_change_that_fails_ends_its_runs(database: Database) -> None:
    claiming, _ = made_worker(database)
    change = submitted(database, "a")
    claiming.claim()
    error = {"code": "HF-X-1", "message": "no", "hint": None}
    assert claiming.finish(change.id, 1, error) is ChangePhase.DONE
    ended = ChangeRows(database).of(change.id)
    assert ended is not None
    assert (ended.error, ended.runs[0].status) == (error, "failed")


def test_lists_are_newest_first_and_in_pages(database: Database) -> None:
    made = [submitted(database, f"s{number % 2}") for number in range(5)]
    runs, changes = RunRows(database), ChangeRows(database)
    page = runs.list("acme", limit=3)
    rest = runs.list("acme", limit=3, before=page[-1].number)
    assert [run.change for run in (*page, *rest)] == [change.id for change in reversed(made)]
    assert len(runs.list("acme", stack="s0")) == 3
    assert runs.list("acme", phases=["done"]) == runs.list("other") == ()
    assert [change.id for change in changes.list("acme", limit=2)] == [made[4].id, made[3].id]
    assert changes.list("acme", limit=1)[0].runs == made[4].runs
    assert changes.list("acme", phases=[ChangePhase.DONE]) == ()


def test_repositories_and_sources(database: Database) -> None:
    repositories, sources = RepositoryRows(database), SourceRows(database)
    fields = {"url": "https://example.com/infra.git", "branch": "main", "credentials": "env:TOKEN"}
    made = repositories.add("acme", name="infra", by="ada", **fields)
    assert made is not None
    assert repositories.add("acme", name="infra", by="ada", **fields) is None
    assert repositories.of("acme", "infra") == repositories.of("acme", made.id) == made
    assert repositories.of("other", made.id) is None
    commit = sources.add_commit("acme", repository=made.id, wanted="main", by="ada")
    assert sources.set_revision(commit.id, "a" * 40) == sources.set_revision(commit.id, "b" * 40) == "a" * 40
    upload = sources.add_upload("acme", digest="00", size=7, by="ada")
    assert upload.expires is not None
    used = sources.use("acme", upload.id)
    assert used is not None
    assert replace(used, expires=None) == replace(upload, expires=None)
    assert sources.use("other", upload.id) is None
    assert repositories.remove("acme", made.id)
    assert not repositories.remove("acme", made.id)
    assert repositories.of("acme", made.id) is None
    assert sources.of(commit.id) is not None


def test_old_changes_and_uploads_are_removed_with_their_contents(database: Database) -> None:
    """Nothing of a removed change is left; what is new, in progress or unknown stays."""
    blobs = DatabaseBlobs(database, "acme")
    claiming, _ = made_worker(database)
    names: dict[str, set[str]] = {}

    def ended(status: str) -> Change:
        change = submitted(database, "a")
        run = change.runs[0].id
        names[change.id] = {
            *(options_name(change.id), checks_name(change.id), report_name(change.id)),
            *(plan_name(run), result_name(run)),
            *(f"server/log/{run}/{first:010d}" for first in (1, 12)),
        }
        for name in (*names[change.id], upload_name(change.source)):
            blobs.write(name, b"x")
        if status:
            claiming.claim()
            claiming.set_phase(change.id, 1, run, RunPhase.PLANNING)
            claiming.set_phase(change.id, 1, run, RunPhase.DONE, status=status)
            claiming.finish(change.id, 1)
        return change

    old, unknown, new, queued = (ended(status) for status in ("planned", "unknown", "planned", ""))
    with database.transaction() as connection:
        connection.execute("update changes set ended = now() - interval '91 days' where id <> %s", (new.id,))
        connection.execute("update sources set expires = now() - interval '1 minute'")
    assert remove_old_changes(database, keep=4) == 0
    assert remove_old_changes(database, keep=1) == 1
    assert [ChangeRows(database).of(change.id) is None for change in (old, unknown, new, queued)] == [
        *(True, False, False, False)
    ]
    assert remove_expired_uploads(database) == 3
    assert remove_expired_uploads(database) == 0
    kept = {name for change in (unknown, new, queued) for name in names[change.id]}
    assert set(blobs.names("server")) == kept | {upload_name(queued.source)}
    assert SourceRows(database).use("acme", new.source) is None
    blobs.write(upload_name("orphan"), b"x")
    with database.transaction() as connection:
        connection.execute("update blobs set written = now() - interval '2 days'")
    remove_expired_uploads(database)
    assert set(blobs.names("server")) == kept | {upload_name(queued.source)}


def test_a_worker_is_woken(database: Database) -> None:
    """By each submission; and by a poll, as notifications can be lost with a connection."""

    async def wait_for_a_submission() -> None:
        async with aclosing(listen(database, poll=30)) as wakeups:
            assert await anext(wakeups) == (None, "")
            change = await asyncio.to_thread(submitted, database, "a")
            assert await anext(wakeups) == (WORK, change.id)

    asyncio.run(wait_for_a_submission())

    async def lose_the_connection() -> None:
        async with aclosing(listen(database, poll=30)) as wakeups:
            await anext(wakeups)
            await asyncio.to_thread(_end_listeners, database)
            assert [await anext(wakeups), await anext(wakeups)] == [(None, ""), (None, "")]
            change = await asyncio.to_thread(submitted, database, "b")
            assert await anext(wakeups) == (WORK, change.id)

    asyncio.run(lose_the_connection())


def _end_listeners(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%listener'"
        )
