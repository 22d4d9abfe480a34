"""The comment, against a server that speaks GitHub's API over a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from github_server import LONGEST, TOKEN, GithubServer, Misbehaviour
from reports_made import losing, ready, refused, report

from holdfast.kernel.errors import Problem
from holdfast.notify.comment import marker
from holdfast.notify.hosts.client import RetryLimits
from holdfast.notify.hosts.github import GITHUB, read_run
from holdfast.notify.publish import REPORT_FILE, Publication, publish
from holdfast.notify.report import ChangeReport
from holdfast.system.environment import Environment

NOW = 1_700_000_000.0
NAME = "Plan/aws"


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


class Job:
    """One job of GitHub Actions: its files, its environment, and a clock that only waiting moves."""

    def __init__(self, folder: Path, api: str) -> None:
        self.folder = folder
        self.waited: list[float] = []
        self.said: list[str] = []
        self.event: dict[str, Any] = {"pull_request": {"number": 7}}
        self.variables = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": api,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_REPOSITORY": "acme/infra",
            "GITHUB_WORKFLOW": "Plan",
            "GITHUB_JOB": "aws",
            "GITHUB_RUN_NUMBER": "5",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "outputs"),
            "RUNNER_TEMP": str(folder),
        }

    def publish(self, change: ChangeReport, seconds: float = 150.0, **variables: str) -> tuple[Problem, ...]:
        (self.folder / "event.json").write_text(json.dumps(self.event))
        given = {**self.variables, **variables}
        environment = Environment(variables={name: one for name, one in given.items() if one})
        run, problems = read_run(environment)
        telling = Publication(report=change, host=GITHUB, run=run, exit_code=0, environment=environment)
        limits = RetryLimits(
            seconds,
            pause=self.waited.append,
            monotonic=lambda: sum(self.waited),
            now=lambda: NOW + sum(self.waited),
            chance=lambda: 0.0,
        )
        return (*problems, *publish(telling, self.said.append, limits))


@pytest.fixture
def job(tmp_path: Path, github: GithubServer) -> Job:
    return Job(tmp_path, github.api)


def codes(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.code for problem in problems]


def test_one_comment_is_written_and_then_rewritten(job: Job, github: GithubServer) -> None:
    """The second report stands in the place of the first."""
    assert job.publish(report(refused("prod/db", "x.y"))) == ()
    assert job.publish(report(ready("prod/db")), GITHUB_RUN_NUMBER="6") == ()
    (body,) = github.bodies(7)
    assert body.startswith("## ✅ May be merged: 1 new in 1 stack")
    assert body.endswith(marker(NAME, (6, 1)))


def test_it_is_found_behind_many_others(job: Job, github: GithubServer) -> None:
    """A list of comments comes in pages, and the last page counts too."""
    for number in range(250):
        github.write(7, f"comment {number}", author="ann")
    ours = github.write(7, f"old\n\n{marker(NAME, (1, 1))}")
    assert job.publish(report(ready("a"))) == ()
    assert github.asked("GET") == 3
    assert [call.path for call in github.calls if call.method == "PATCH"] == [
        f"/repos/acme/infra/issues/comments/{ours}"
    ]
    assert len(github.bodies(7)) == 251


def test_a_faked_marker_is_ignored(job: Job, github: GithubServer) -> None:
    """Somebody else's comment with our marker is neither edited nor believed."""
    github.write(7, f"all fine!\n\n{marker(NAME, (99, 1))}", author="mallory")
    assert job.publish(report(ready("a"))) == ()
    assert github.bodies(7)[0].startswith("all fine!")
    assert github.bodies(7)[1].startswith("## ✅")


def test_of_two_old_ones_the_first_is_kept_and_the_second_retired(job: Job, github: GithubServer) -> None:
    """Nobody reads an old verdict in the place of the new one."""
    github.write(7, f"old\n\n{marker(NAME, (1, 1))}")
    github.write(7, f"✅ May be merged\n\n{marker(NAME, (2, 1))}")
    assert job.publish(report(refused("a", "x.y"))) == ()
    first, second = github.bodies(7)
    assert first.startswith("## ⛔")
    assert second == "This report was replaced by a newer one in an earlier comment."
    assert job.publish(report(refused("a", "x.y"))) == ()
    assert github.asked("PATCH") == 3


def test_an_author_other_than_the_workflow_is_known_too(tmp_path: Path) -> None:
    """With the token of an app or a person, the comment is found by that author."""
    with GithubServer(author="infra-bot[bot]") as github:
        job = Job(tmp_path, github.api)
        assert job.publish(report(ready("a"))) == ()
        assert job.publish(report(ready("a"))) == ()
        assert len(github.bodies(7)) == 1


def test_the_default_author_is_the_workflow(job: Job, github: GithubServer) -> None:
    """A server without that question: the author is the one that workflows write as."""
    github.knows_viewer = False
    assert job.publish(report(ready("a"))) == ()
    assert job.publish(report(ready("a"))) == ()
    assert len(github.bodies(7)) == 1


def test_two_hundred_stacks_are_not_too_long(job: Job, github: GithubServer) -> None:
    """The server refuses what GitHub refuses; the comment is taken, the summary has more."""
    stacks = [
        losing(f"account-{number:03}/db", *(f"x{number}.y[{one}]" for one in range(60)))
        for number in range(200)
    ]
    assert job.publish(report(*stacks)) == ()
    (body,) = github.bodies(7)
    assert 0.9 * LONGEST < len(body) <= LONGEST
    assert "Omitted to save space" in body
    assert (job.folder / "summary.md").stat().st_size <= 1024 * 1024
    assert (job.folder / REPORT_FILE).read_text().count("deleted because its key is gone") == 200 * 60


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("wrong", "seconds"),
    [
        ({"status": 403, "headers": {"retry-after": "9"}, "message": "secondary rate limit"}, 9),
        ({"status": 429, "headers": {"retry-after": "2"}}, 2),
        (
            {
                "status": 403,
                "headers": {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 33)},
            },
            33,
        ),
        ({"status": 403, "message": "You have exceeded a secondary rate limit"}, 60),
        ({"status": 502}, 0.5),
        ({"hang_up": True}, 0.5),
    ],
)
def test_a_limit_is_waited_for_and_a_fault_tried_again(
    job: Job, github: GithubServer, method: str, wrong: dict[str, Any], seconds: float
) -> None:
    """As long as GitHub asks for, and then it is done."""
    github.to_come.append(Misbehaviour(method=method, **wrong))
    assert job.publish(report(ready("a"))) == ()
    assert job.waited == [seconds]
    assert len(github.bodies(7)) == 1


@pytest.mark.parametrize("wrong", [{"status": 504}, {"hang_up": True}])
def test_a_lost_answer_makes_no_second_comment(job: Job, github: GithubServer, wrong: dict[str, Any]) -> None:
    """Written, and the answer lost: before another try it is looked for."""
    github.to_come.append(Misbehaviour(method="POST", done=True, **wrong))
    assert job.publish(report(ready("a"))) == ()
    assert len(github.bodies(7)) == 1


def test_a_limit_that_is_too_far_away_is_a_warning(job: Job, github: GithubServer) -> None:
    """Nobody waits an hour for a comment; the summary has the report."""
    limited = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 3000)}
    github.to_come.append(
        Misbehaviour(method="GET", status=403, headers=limited, message="API rate limit exceeded")
    )
    (problem,) = job.publish(report(ready("a")))
    assert (problem.code, job.waited) == ("HF-TELL-2", [])
    assert "API rate limit exceeded" in problem.message
    assert problem.hint is not None
    assert "3000 s" in problem.hint
    assert "May be merged" in (job.folder / "summary.md").read_text()


def test_a_server_that_is_broken_is_a_warning(job: Job, github: GithubServer) -> None:
    """After a few tries, and in bounded time."""
    github.to_come.extend(Misbehaviour(method="GET") for _ in range(20))
    assert codes(job.publish(report(ready("a")))) == ["HF-TELL-2"]
    assert sum(job.waited) < 150
    assert github.asked("GET") == 6


def test_an_answer_that_does_not_come_is_a_warning(job: Job, github: GithubServer) -> None:
    """Each request has a limit of time too."""
    github.to_come.append(Misbehaviour(method="GET", held=threading.Event()))
    held = github.to_come[0].held
    assert codes(job.publish(report(ready("a")), seconds=0.3)) == ["HF-TELL-2"]
    assert held is not None
    held.set()


@pytest.mark.parametrize("fork", [True, False])
def test_without_permission_it_is_a_warning(job: Job, github: GithubServer, *, fork: bool) -> None:
    """Not asked twice, and the hint says what is missing: a permission, or that it comes from a fork."""
    github.read_only = True
    base = {"sha": "b" * 40, "repo": {"full_name": "acme/infra"}}
    head = {"sha": "a" * 40, "repo": {"full_name": "ann/infra" if fork else "acme/infra"}}
    job.event = {"pull_request": {"number": 7, "head": head, "base": base}}
    (problem,) = job.publish(report(ready("a")))
    assert (problem.code, job.waited) == ("HF-TELL-1", [])
    assert ("fork" if fork else "pull-requests: write") in str(problem.hint)


def test_a_wrong_token_is_a_warning_that_does_not_name_it(job: Job, github: GithubServer) -> None:
    """Refused, said, and not shown."""
    found = job.publish(report(ready("a")), GITHUB_TOKEN="ghs_wrong")
    assert codes(found) == ["HF-TELL-1"]
    assert "ghs_wrong" not in repr(found) + repr(job.said)
    assert github.bodies(7) == []


def test_without_a_token_or_with_an_open_line_nothing_is_sent(job: Job, github: GithubServer) -> None:
    """The token goes over TLS or not at all."""
    assert codes(job.publish(report(ready("a")), GITHUB_TOKEN="")) == ["HF-TELL-3"]
    assert codes(job.publish(report(ready("a")), GITHUB_API_URL="http://github.example")) == ["HF-TELL-4"]
    assert github.calls == []


def test_the_token_stays_with_its_host(job: Job, github: GithubServer) -> None:
    """A next page on another host is not asked for."""
    for number in range(150):
        github.write(7, f"comment {number}", author="ann")
    with GithubServer() as other:
        github.next_page_at = other.api
        assert codes(job.publish(report(ready("a")))) == ["HF-TELL-8"]
        assert other.calls == []
    assert {call.token for call in github.calls} == {f"Bearer {TOKEN}"}


def test_a_comment_that_is_not_taken_is_a_warning(job: Job, github: GithubServer) -> None:
    """Whatever the reason, it is passed on."""
    github.to_come.append(Misbehaviour(method="POST", status=422, message="Body is too long"))
    (problem,) = job.publish(report(ready("a")))
    assert problem.code == "HF-TELL-7"
    assert "Body is too long" in problem.message


def test_an_older_run_keeps_quiet(job: Job, github: GithubServer) -> None:
    """The report of a newer push stays."""
    github.write(7, f"newer\n\n{marker(NAME, (9, 1))}")
    assert job.publish(report(ready("a"))) == ()
    assert github.bodies(7) == [f"newer\n\n{marker(NAME, (9, 1))}"]


def test_a_push_has_no_comment_and_no_warning(job: Job, github: GithubServer) -> None:
    """After the merge there is a summary and there are outputs, but no comment."""
    job.event = {"ref": "refs/heads/main"}
    assert job.publish(report(ready("a"))) == ()
    assert github.calls == []
    assert "verdict<<holdfast_" in (job.folder / "outputs").read_text()


def test_files_that_cannot_be_written_are_warnings(job: Job, github: GithubServer) -> None:
    """And everything else is told all the same."""
    found = job.publish(
        report(refused("a", "x.y")), GITHUB_STEP_SUMMARY="/nowhere/s", GITHUB_OUTPUT="/nowhere/o"
    )
    assert codes(found) == ["HF-TELL-5", "HF-TELL-5"]
    assert job.said[0].startswith("::error title=a refused::")
    assert len(github.bodies(7)) == 1


def test_a_summary_leaves_room_for_what_is_there(job: Job) -> None:
    """Another tool wrote to the same summary before: together they stay within the limit."""
    (job.folder / "summary.md").write_text("x" * 1_000_000 + "\n")
    stacks = [losing(f"s{number:03}", *(f"x.y[{one}]" for one in range(60))) for number in range(200)]
    assert job.publish(report(*stacks)) == ()
    written = (job.folder / "summary.md").read_text()
    assert len(written.encode()) <= 1024 * 1024
    assert "## ⚠️ May be merged, with care" in written


def test_a_full_summary_is_left_alone(job: Job, github: GithubServer) -> None:
    """Past its limit GitHub would drop all of it: what others wrote is not put at risk."""
    (job.folder / "summary.md").write_text("x" * (1024 * 1024 - 5000))
    (problem,) = job.publish(report(ready("a")))
    assert problem.code == "HF-TELL-5"
    assert (job.folder / "summary.md").stat().st_size == 1024 * 1024 - 5000
    assert len(github.bodies(7)) == 1


def test_an_event_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    """Then no pull request is known, and that is said."""
    broken = tmp_path / "event.json"
    broken.write_bytes(b"{")
    for path in (broken, tmp_path / "nowhere"):
        run, problems = read_run(Environment(variables={"GITHUB_EVENT_PATH": str(path)}))
        assert run.pull_request is None
        assert codes(problems) == ["HF-TELL-6"]


def test_an_unexpected_error_harms_nothing(job: Job, github: GithubServer) -> None:
    """A part of telling that breaks is a warning, and the other parts are told."""

    class Broken(list[str]):
        def append(self, line: str) -> None:
            raise RuntimeError(line)

    job.said = Broken()
    assert codes(job.publish(report(refused("a", "x.y")))) == ["HF-TELL-9"]
    assert len(github.bodies(7)) == 1
