"""What holds for the comment on every code host, against servers that speak their APIs over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from host_jobs import NAME, SERVERS, job, open_server
from host_server import TOKEN, HostServer, Misbehaviour
from memory_blobs import MemoryBlobs
from reports_made import losing, ready, refused, report
from results_made import result, stack

from holdfast.changes.pull_requests import mark_out_of_date, other_requests, record_plans
from holdfast.kernel.errors import Problem
from holdfast.notify.comment import marker
from holdfast.notify.hosts.catalogue import current_host
from holdfast.notify.hosts.client import RetryLimits
from holdfast.notify.hosts.interface import CiRun, CodeHost
from holdfast.notify.publish import Publication, publish
from holdfast.notify.report import ChangeReport
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.secrets.keys import Key
from holdfast.store.blob_cipher import PULL_REQUESTS
from holdfast.store.run_store import RunStore
from holdfast.system.environment import Environment

COMMIT = "c" * 40


@pytest.fixture(params=list(SERVERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str) -> Iterator[HostServer]:
    with open_server(name) as running:
        yield running


class Job:
    def __init__(self, name: str, server: HostServer, folder: Path) -> None:
        self._name, self._server, self._folder = name, server, folder
        self.waited: list[float] = []

    def read(
        self, number: int | None = 7, changed: dict[str, str] | None = None, *, run: int = 5, commit: str = ""
    ) -> tuple[CodeHost, CiRun, Environment]:
        variables = job(self._name, self._server, self._folder, number, run=run, commit=commit)
        variables |= changed or {}
        environment = Environment(variables=variables)
        host = current_host(environment)
        assert host is not None
        read, problems = host.read_run(environment)
        assert problems == ()
        return host, read, environment

    def publish(
        self, change: ChangeReport, changed: dict[str, str] | None = None, *, run: int = 5
    ) -> tuple[Problem, ...]:
        host, read, environment = self.read(7, changed, run=run)
        limits = RetryLimits(
            pause=self.waited.append, monotonic=lambda: sum(self.waited), chance=lambda: 0.0, now=lambda: 0.0
        )
        publication = Publication(report=change, host=host, run=read, exit_code=0, environment=environment)
        return publish(publication, lambda _: None, limits)


@pytest.fixture
def ci(name: str, server: HostServer, tmp_path: Path) -> Job:
    return Job(name, server, tmp_path)


def test_one_comment_is_written_and_rewritten(ci: Job, server: HostServer) -> None:
    """The report of the next run takes its place; that of an older run does not."""
    assert ci.publish(report(refused("prod/db", "x.y"))) == ()
    assert ci.publish(report(ready("prod/db")), run=6) == ()
    assert ci.publish(report(losing("prod/db", "x.y")), run=4) == ()
    (body,) = server.bodies(7)
    assert body.startswith("## ✅ May be merged: 1 new in 1 stack")
    assert body.endswith(marker(NAME, (6, 1)))


def test_a_marker_of_somebody_else_is_not_believed(ci: Job, server: HostServer) -> None:
    """Neither edited, nor taken for a newer report; also behind many other comments."""
    server.write(7, f"all fine!\n\n{marker(NAME, (99, 1))}", author="mallory")
    for number in range(120):
        server.write(7, f"comment {number}", author="ann")
    assert ci.publish(report(ready("a"))) == ()
    assert ci.publish(report(refused("a", "x.y")), run=6) == ()
    bodies = server.bodies(7)
    assert len(bodies) == 122
    assert bodies[0].startswith("all fine!")
    assert bodies[-1].startswith("## ⛔")


def test_of_two_the_second_is_retired(ci: Job, server: HostServer) -> None:
    """Two jobs at the same time: no old verdict stays."""
    for run in (1, 2):
        server.write(7, f"✅ May be merged\n\n{marker(NAME, (run, 1))}")
    assert ci.publish(report(refused("a", "x.y"))) == ()
    first, second = server.bodies(7)
    assert first.startswith("## ⛔")
    assert second == "This report was replaced by a newer one in an earlier comment."


def test_a_long_report_fits(ci: Job, server: HostServer) -> None:
    """The server refuses what the host refuses."""
    stacks = [losing(f"s{number:03}", *(f"x{number}.y[{one}]" for one in range(90))) for number in range(200)]
    assert ci.publish(report(*stacks)) == ()
    (body,) = server.bodies(7)
    assert 0.5 * min(server.longest, 900_000) < len(body) <= server.longest


@pytest.mark.parametrize(
    ("wrong", "waited"),
    [
        ({"status": 429, "headers": {"retry-after": "9"}}, 9),
        ({"status": 503}, 0.5),
        ({"hang_up": True, "done": True}, 0.5),
    ],
)
def test_a_fault_is_tried_again(ci: Job, server: HostServer, wrong: dict[str, object], waited: float) -> None:
    """After as long as the host asks; what was written and not answered is not written twice."""
    server.to_come.append(Misbehaviour(method="POST", **wrong))  # type: ignore[arg-type]
    assert ci.publish(report(ready("a"))) == ()
    assert ci.waited == [waited]
    assert len(server.bodies(7)) == 1


@pytest.mark.parametrize(
    ("status", "code"), [(403, "HF-TELL-1"), (404, "HF-TELL-1"), (400, "HF-TELL-7"), (418, "HF-TELL-8")]
)
def test_a_refusal_is_a_warning(ci: Job, server: HostServer, status: int, code: str) -> None:
    """With the message of the host; not tried again."""
    server.to_come.append(Misbehaviour(method="POST", status=status, message="because so"))
    (problem,) = ci.publish(report(ready("a")))
    assert problem.code == code
    assert "because so" in problem.message
    assert ci.waited == []


def test_a_wrong_token_is_a_warning_that_does_not_name_it(ci: Job, server: HostServer) -> None:
    """Also where the host answers with a page to sign in."""
    host, _, _ = ci.read()
    found = ci.publish(report(ready("a")), {host.token: "glpat-wrong"})
    assert [problem.code for problem in found] == ["HF-TELL-1"]
    assert "glpat-wrong" not in repr(found)
    assert server.bodies(7) == []


def test_without_a_token_or_with_an_open_line_nothing_is_sent(ci: Job, server: HostServer) -> None:
    """The hint names the variable and how to set it."""
    host, _, _ = ci.read()
    (problem,) = ci.publish(report(ready("a")), {host.token: ""})
    assert problem.code == "HF-TELL-3"
    assert host.token in problem.message
    assert [one.code for one in ci.publish(report(ready("a")), {host.api: "http://x.example"})] == [
        "HF-TELL-4"
    ]
    assert server.calls == []


def store() -> RunStore:
    return RunStore(MemoryBlobs(), lambda: Key.of(b"k" * 32))


def planned(*names: str) -> list[StackResult]:
    return [result(stack(one), Status.PLANNED) for one in names]


def test_other_open_pull_requests_are_known(ci: Job, server: HostServer) -> None:
    """With who planned them and when; not its own, not another stack, not one that is closed."""
    runs, (host, first, environment) = store(), ci.read(11)
    record_plans(runs, first, planned("db", "q"))
    record_plans(runs, ci.read(12)[1], planned("dns"))
    record_plans(runs, ci.read(13)[1], planned("db"))
    server.closed.add(13)
    (other,) = other_requests(runs, host, ci.read(14)[1], planned("db", "x"), environment)
    assert (other.stack, other.reference, other.who) == ("db", f"{host.reference}11", "ada")
    assert (other.open, other.when) == (True, "less than a minute ago")
    assert other_requests(runs, host, first, planned("db"), environment) == ()
    assert len(runs.blobs.names(PULL_REQUESTS)) == 2
    _, no_token, _ = ci.read(14, {host.token: ""})
    (other,) = other_requests(runs, host, no_token, planned("q"), environment)
    assert not other.open
    record_plans(runs, first, [result(stack("db"), Status.UNCHANGED)])
    assert other_requests(runs, host, ci.read(14)[1], planned("db"), environment) == ()


def test_an_apply_marks_other_reports_as_out_of_date(ci: Job, server: HostServer) -> None:
    """In the first line, which names the stack and the pull request; the rest and the marker stay."""
    runs, (host, read, environment) = store(), ci.read(7)
    record_plans(runs, read, planned("db", "q"))
    assert ci.publish(report(ready("db"), ready("q"))) == ()
    (before,) = server.bodies(7)
    server.merged[COMMIT] = 11
    _, after_merge, _ = ci.read(None, commit=COMMIT)
    applied = [result(stack("db"), Status.APPLIED), result(stack("q"), Status.FAILED)]
    assert mark_out_of_date(runs, applied, (host, after_merge), environment) == ()
    (body,) = server.bodies(7)
    first = f"## ⚠️ Out of date: `db` was applied by {host.reference}11 since this plan; plan again"
    assert body.split("\n")[0] == first
    assert body.endswith(before)
    assert (
        mark_out_of_date(runs, [result(stack("q"), Status.APPLIED)], (host, after_merge), environment) == ()
    )
    (body,) = server.bodies(7)
    assert body.startswith("## ⚠️ Out of date: `db`, `q` were applied by ")
    assert body.endswith(before)
    assert body.count("Out of date") == 1
    # The next plan is up to date again.
    assert ci.publish(report(ready("db")), run=6) == ()
    assert server.bodies(7)[0].startswith("## ✅")
    assert mark_out_of_date(runs, applied, (host, after_merge), environment) == ()
    assert server.bodies(7)[0].startswith("## ✅")


def test_the_applied_pull_request_itself_is_not_out_of_date(ci: Job, server: HostServer) -> None:
    """Nor one that is closed; their records go."""
    runs, (host, read, environment) = store(), ci.read(7)
    record_plans(runs, read, planned("db"))
    assert ci.publish(report(ready("db"))) == ()
    server.merged[COMMIT] = 7
    _, after_merge, _ = ci.read(None, commit=COMMIT)
    applied = [result(stack("db"), Status.APPLIED)]
    assert mark_out_of_date(runs, applied, (host, after_merge), environment) == ()
    assert server.bodies(7)[0].startswith("## ✅")
    assert runs.blobs.names(PULL_REQUESTS) == ()
    record_plans(runs, read, planned("db"))
    server.merged.clear()
    server.closed.add(7)
    assert mark_out_of_date(runs, applied, (host, after_merge), environment) == ()
    assert server.bodies(7)[0].startswith("## ✅")
    assert runs.blobs.names(PULL_REQUESTS) == ()


def test_a_failed_notice_is_a_warning_and_the_record_stays(ci: Job, server: HostServer) -> None:
    """Without the permission, or with no token at all."""
    runs, (host, read, environment) = store(), ci.read(7)
    record_plans(runs, read, planned("db"))
    assert ci.publish(report(ready("db"))) == ()
    server.read_only = True
    applied = [result(stack("db"), Status.APPLIED)]
    _, after_merge, _ = ci.read(None, commit=COMMIT)
    (problem,) = mark_out_of_date(runs, applied, (host, after_merge), environment)
    assert problem.code == "HF-TELL-1"
    assert mark_out_of_date(runs, applied, None, environment) == ()
    (plan,) = runs.request_plans.all()
    assert list(plan.applied) == ["db"]


def test_the_token_is_sent_to_the_server_alone(ci: Job, server: HostServer) -> None:
    """In the header of the host, and nowhere else."""
    assert ci.publish(report(ready("a"))) == ()
    assert server.calls
    for call in server.calls:
        assert call.token == server.authorization
        assert TOKEN not in call.path
