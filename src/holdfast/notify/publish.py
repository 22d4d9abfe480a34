"""Publishes the report of a change on a code host: comment, job summary, annotations, outputs.

A failure here never fails the change: it is a warning, and each part is tried on its own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from holdfast.kernel.errors import Problem
from holdfast.notify.commands import output_lines, outputs_of, report_annotations
from holdfast.notify.comment import marker, write_comment
from holdfast.notify.hosts.client import HostError, RetriesExhaustedError, RetryLimits
from holdfast.notify.hosts.interface import CiRun, CodeHost, CommentApi, is_safe
from holdfast.notify.markdown import Frame, markdown
from holdfast.notify.report import ChangeReport
from holdfast.notify.size_budget import SUMMARY_SIZE, SizeBudget, encoded
from holdfast.system import clock, files
from holdfast.system.environment import Environment
from holdfast.system.markup import code, one_line

REPORT_FILE = "holdfast-report.md"
_FORBIDDEN = frozenset({203, 302, 401, 403, 404})
_UNPROCESSABLE = frozenset({400, 413, 422})
_MIN_SUMMARY = 4096


class Publication(Struct, frozen=True, kw_only=True):
    """A report, and what is needed to publish it."""

    report: ChangeReport
    host: CodeHost
    run: CiRun
    exit_code: int
    environment: Environment
    prefix: str = ""
    """The path from the workspace to the folder that file names are relative to."""
    next_step: str = ""
    """In the comment: what people can do with the plan. Trusted Markdown."""
    clean: Callable[[str], str] = str
    """The redactor, for answers of the host."""


def publish(
    publication: Publication, say: Callable[[str], None], limits: RetryLimits | None = None
) -> tuple[Problem, ...]:
    """Each part on its own. `say` prints one line for the runner. Returns the warnings."""
    parts: tuple[Callable[[], tuple[Problem, ...]], ...] = (
        lambda: _annotate(publication, say),
        lambda: _write_report(publication, say),
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
    if (annotation := publication.host.annotation) is not None:
        for given in report_annotations(publication.report, publication.prefix):
            say(annotation(given))
    return ()


def _write_report(publication: Publication, say: Callable[[str], None]) -> tuple[Problem, ...]:
    """The full report: for an artifact of a later step, and for the page of the run."""
    if publication.run.temporary is None:
        return ()
    file = publication.run.temporary / REPORT_FILE
    text = markdown(publication.report, frame=Frame(where=_where(publication.run)))
    problems = _try_write(file, lambda: files.write(file, text, durable=False))
    if publication.host.upload_summary and not problems:
        say(f"{publication.host.upload_summary}{file}")
    return problems


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
                message=f"cannot write {file.name}: {error.strerror or error}",
                hint="The report is in the log.",
            ),
        )
    return ()


# The comment


def comment_body(publication: Publication) -> str:
    run, host = publication.run, publication.host
    places = [f"[{host.full_report.removeprefix('the ')}]({run.link})"] if run.link else [host.full_report]
    places += [f"the artifact {code(run.artifact, 100)}"] if run.artifact else []
    frame = Frame(
        where=_where(run),
        in_full=" and ".join(places),
        next_step=publication.next_step,
        end=marker(run.name, run.age),
    )
    return markdown(publication.report, host.budget, frame).rstrip("\n")


def _where(run: CiRun, *, link: bool = True) -> str:
    parts = [f"commit {code(run.commit[:10])}"] if run.commit else []
    parts += [f"[run {run.number}]({run.link})"] if run.link and link else []
    return " · ".join(parts)


def _comment(publication: Publication, limits: RetryLimits) -> tuple[Problem, ...]:
    run = publication.run
    if run.pull_request is None or run.repository is None:
        return ()
    number, body = run.pull_request.number, comment_body(publication)
    write = lambda api: write_comment(api, number, body, name=run.name, age=run.age)  # noqa: E731
    return with_api(publication.host, run, publication.environment, write, limits, publication.clean)


def with_api(
    host: CodeHost,
    run: CiRun,
    environment: Environment,
    work: Callable[[CommentApi], object],
    limits: RetryLimits,
    clean: Callable[[str], str] = str,
) -> tuple[Problem, ...]:
    """Do something with the host's API; what prevents it is a warning."""
    if (problem := _precondition(host, run)) is not None:
        return (problem,)
    api = host.open_api(run, environment, limits)
    try:
        work(api)
    except HostError as error:
        return (_refusal(host, run, error.status, one_line(clean(error.message), 200)),)
    except RetriesExhaustedError as error:
        last = one_line(clean(api.client.last_answer), 200)
        return (
            Problem(
                code="HF-TELL-2",
                message=f"cannot write the comment; the last response of {host.title}: {last}",
                hint=f"The next try would be in {error.needed:.0f} s. The report is in {host.full_report}.",
            ),
        )
    return ()


def _precondition(host: CodeHost, run: CiRun) -> Problem | None:
    """A problem that is known before anything is sent."""
    if run.token is None:
        return Problem(
            code="HF-TELL-3",
            message=f"{host.token} is not set, so no comment was written",
            hint=host.token_hint,
        )
    if not is_safe(run.api):
        return Problem(
            code="HF-TELL-4",
            message=f"{host.api} does not start with https://, so the token was not sent",
            hint="Unset it, or set it to the https:// address of your server.",
        )
    return None


def _refusal(host: CodeHost, run: CiRun, status: int, message: str) -> Problem:
    where = f"The report is in {host.full_report}."
    if status in _FORBIDDEN:
        fork = run.pull_request is not None and run.pull_request.fork
        return Problem(
            code="HF-TELL-1",
            message=f"the token is not allowed to comment on this pull request: {status} {message}",
            hint=f"The token of a fork can only read. {where}" if fork else host.permission_hint,
        )
    if status in _UNPROCESSABLE:
        return Problem(code="HF-TELL-7", message=f"{host.title} rejected the comment: {message}", hint=where)
    return Problem(
        code="HF-TELL-8",
        message=f"{host.title} returned an unexpected response: {status} {message}",
        hint=where,
    )
