"""Publishes the report of a change to GitHub: comment, job summary, annotations, outputs.

A failure here never fails the change: it is a warning, and each part is tried on its own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.kernel.errors import Problem
from holdfast.notify.actions import ActionsRun
from holdfast.notify.commands import annotation_lines, output_lines, outputs_of
from holdfast.notify.github_api import (
    REPLACED,
    GithubApi,
    GithubError,
    RetriesExhaustedError,
    RetryLimits,
    marker,
    plan_comment,
)
from holdfast.notify.markdown import Frame, markdown
from holdfast.notify.report import ChangeReport
from holdfast.notify.size_budget import COMMENT, SUMMARY_SIZE, SizeBudget, encoded
from holdfast.system import clock, files
from holdfast.system.environment import Environment
from holdfast.system.http import is_local_address
from holdfast.system.markup import code, one_line

REPORT_FILE = "holdfast-report.md"
_FORBIDDEN = frozenset({401, 403, 404})
_UNPROCESSABLE = 422
_MIN_SUMMARY = 4096


class Publication(Struct, frozen=True, kw_only=True):
    """A report, and what is needed to publish it."""

    report: ChangeReport
    run: ActionsRun
    exit_code: int
    environment: Environment
    prefix: str = ""
    """The path from the workspace to the folder that file names are relative to."""
    clean: Callable[[str], str] = str
    """The redactor, for answers of GitHub."""


def publish(
    publication: Publication, say: Callable[[str], None], limits: RetryLimits | None = None
) -> tuple[Problem, ...]:
    """Each part on its own. `say` prints one line for the runner. Returns the warnings."""
    parts: tuple[Callable[[], tuple[Problem, ...]], ...] = (
        lambda: _annotate(publication, say),
        lambda: _write_report(publication),
        lambda: _write_summary(publication),
        lambda: _write_outputs(publication),
        lambda: _comment(publication, limits or RetryLimits()),
    )
    return tuple(problem for part in parts for problem in _attempt(part))


def _attempt(part: Callable[[], tuple[Problem, ...]]) -> tuple[Problem, ...]:
    try:
        return part()
    except Exception as error:  # noqa: BLE001 - a failed notification never fails the change
        return (unexpected_error(error),)


def unexpected_error(error: Exception) -> Problem:
    return Problem(
        code="HF-TELL-9",
        message=f"an unexpected error prevented publishing the report: {type(error).__name__}",
        hint="The change itself is not affected. Please report this bug.",
    )


def _annotate(publication: Publication, say: Callable[[str], None]) -> tuple[Problem, ...]:
    for line in annotation_lines(publication.report, publication.prefix):
        say(line)
    return ()


def _write_report(publication: Publication) -> tuple[Problem, ...]:
    """The full report, for the artifact of a later step."""
    if publication.run.temporary is None:
        return ()
    file = publication.run.temporary / REPORT_FILE
    text = markdown(publication.report, frame=Frame(where=_where(publication.run)))
    return _try_write(file, lambda: files.write(file, text, durable=False))


def _write_summary(publication: Publication) -> tuple[Problem, ...]:
    file = publication.run.summary
    if file is None:
        return ()

    def write() -> None:
        left = SUMMARY_SIZE - (file.stat().st_size if file.exists() else 0)
        if left < _MIN_SUMMARY:
            raise OSError(errno.ENOSPC, "it has reached GitHub's size limit")
        budget = SizeBudget(size=left, measure=encoded)
        in_full = f"the artifact {code(publication.run.artifact, 100)}" if publication.run.artifact else ""
        frame = Frame(where=_where(publication.run, link=False), in_full=in_full)
        _append(file, markdown(publication.report, budget, frame) + "\n")

    return _try_write(file, write)


def _write_outputs(publication: Publication) -> tuple[Problem, ...]:
    file = publication.run.outputs
    if file is None:
        return ()
    outputs = outputs_of(publication.report, exit_code=publication.exit_code)
    if publication.run.temporary is not None:
        outputs["report"] = one_line(str(publication.run.temporary / REPORT_FILE))
    text = output_lines(outputs, clock.random_token())
    return _try_write(file, lambda: _append(file, text))


def _append(file: Path, text: str) -> None:
    """The runner creates the file, and other steps write to it too."""
    with file.open("ab") as stream:
        stream.write(text.encode())


def _try_write(file: Path, write: Callable[[], None]) -> tuple[Problem, ...]:
    try:
        write()
    except OSError as error:
        return (
            Problem(
                code="HF-TELL-5",
                message=f"cannot write {file.name} for GitHub Actions: {error.strerror or error}",
                hint="The report is in the log.",
            ),
        )
    return ()


# The comment


def comment_body(publication: Publication) -> str:
    run = publication.run
    places = [f"[job summary]({run.link})"] if run.link else ["the job summary"]
    places += [f"the artifact {code(run.artifact, 100)}"] if run.artifact else []
    frame = Frame(where=_where(run), in_full=" and ".join(places), end=marker(run.name, run.age))
    return markdown(publication.report, COMMENT, frame).rstrip("\n")


def _where(run: ActionsRun, *, link: bool = True) -> str:
    parts = [f"commit {code(run.commit[:10])}"] if run.commit else []
    parts += [f"[run {run.number}]({run.link})"] if run.link and link else []
    return " · ".join(parts)


def _comment(publication: Publication, limits: RetryLimits) -> tuple[Problem, ...]:
    run = publication.run
    if run.pull_request is None or run.repository is None:
        return ()
    if (problem := _precondition(run)) is not None or run.token is None:
        return (problem,) if problem is not None else ()
    api = GithubApi(run.api, run.token, run.repository, publication.environment, limits)
    try:
        _write_comment(api, publication, run.pull_request.number)
    except GithubError as error:
        return (_refused(run, error.status, one_line(publication.clean(error.message), 200)),)
    except RetriesExhaustedError as error:
        last = one_line(publication.clean(api.last_answer), 200)
        return (
            Problem(
                code="HF-TELL-2",
                message=f"cannot write the comment; GitHub's last response: {last}",
                hint=f"The next attempt would be in {error.needed:.0f} s. The report is in the job summary.",
            ),
        )
    return ()


def _write_comment(api: GithubApi, publication: Publication, number: int) -> None:
    run, body = publication.run, comment_body(publication)
    author = api.author()
    while True:
        plan = plan_comment(api.comments(number), author=author, name=run.name, age=run.age)
        if plan.newer:
            return
        if plan.update is not None:
            api.update(plan.update, body)
            for old in plan.retire:
                api.update(old, REPLACED)
            return
        if api.create(number, body):
            return


def _precondition(run: ActionsRun) -> Problem | None:
    """A problem that is known before anything is sent."""
    if run.token is None:
        return Problem(
            code="HF-TELL-3",
            message="GITHUB_TOKEN is not set, so no comment was written",
            hint="Add to the step: env: GITHUB_TOKEN: ${{ github.token }}",
        )
    parts = urlsplit(run.api)
    if parts.scheme != "https" and not is_local_address(parts.hostname or ""):
        return Problem(
            code="HF-TELL-4",
            message="GITHUB_API_URL does not start with https://, so the token was not sent",
            hint="Unset it, or set it to the https:// address of your server's API.",
        )
    return None


def _refused(run: ActionsRun, status: int, message: str) -> Problem:
    if status in _FORBIDDEN:
        fork = run.pull_request is not None and run.pull_request.fork
        return Problem(
            code="HF-TELL-1",
            message=f"the token is not allowed to comment on this pull request: {status} {message}",
            hint="The token of a fork can only read. The report is in the job summary."
            if fork
            else "Add to the job: permissions: pull-requests: write",
        )
    if status == _UNPROCESSABLE:
        return Problem(
            code="HF-TELL-7",
            message=f"GitHub rejected the comment: {message}",
            hint="The report is in the job summary.",
        )
    return Problem(
        code="HF-TELL-8",
        message=f"GitHub returned an unexpected response: {status} {message}",
        hint="The report is in the job summary.",
    )
