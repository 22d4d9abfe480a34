"""Tell GitHub what came out of a change: comment, job summary, annotations, outputs.

Telling never harms doing: whatever goes wrong here is a warning, and each part is tried on its own.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.kernel.errors import Problem
from holdfast.notify.actions import ActionsRun
from holdfast.notify.commands import annotation_lines
from holdfast.notify.comment import REPLACED, marker, to_do
from holdfast.notify.github_api import GithubApi, NotTakenError
from holdfast.notify.markdown import Surroundings, markdown
from holdfast.notify.outputs import output_lines, outputs_of
from holdfast.notify.report import ChangeReport
from holdfast.notify.retry import OutOfPatienceError, RetryLimits
from holdfast.notify.size_budget import COMMENT, SUMMARY_ROOM, Room, encoded
from holdfast.system import clock, files
from holdfast.system.environment import Environment
from holdfast.system.http import is_local_address
from holdfast.system.markup import code, one_line

REPORT_FILE = "holdfast-report.md"
_FORBIDDEN = frozenset({401, 403, 404})
_NOT_TAKEN = 422
_SMALLEST_SUMMARY = 4096


class Telling(Struct, frozen=True, kw_only=True):
    """One report, and all that is needed to tell it."""

    report: ChangeReport
    run: ActionsRun
    exit_code: int
    environment: Environment
    prefix: str = ""
    """The way from the workspace to the folder that files are named from."""
    clean: Callable[[str], str] = str
    """The redactor: what GitHub answers passes it before it is shown."""


def tell(
    telling: Telling, say: Callable[[str], None], patience: RetryLimits | None = None
) -> tuple[Problem, ...]:
    """Everything, each part on its own. `say` prints one line for the runner. Returns the warnings."""
    parts: tuple[Callable[[], tuple[Problem, ...]], ...] = (
        lambda: _annotate(telling, say),
        lambda: _write_report(telling),
        lambda: _write_summary(telling),
        lambda: _write_outputs(telling),
        lambda: _comment(telling, patience or RetryLimits()),
    )
    return tuple(problem for part in parts for problem in _guarded(part))


def _guarded(part: Callable[[], tuple[Problem, ...]]) -> tuple[Problem, ...]:
    try:
        return part()
    except Exception as error:  # noqa: BLE001 - the outermost door of telling: the change is done and stays done
        return (unforeseen(error),)


def unforeseen(error: Exception) -> Problem:
    return Problem(
        code="HF-TELL-9",
        message=f"something nobody foresaw kept a report from being told: {type(error).__name__}",
        hint="The change itself is not touched by this. Please report it.",
    )


def _annotate(telling: Telling, say: Callable[[str], None]) -> tuple[Problem, ...]:
    for line in annotation_lines(telling.report, telling.prefix):
        say(line)
    return ()


def _write_report(telling: Telling) -> tuple[Problem, ...]:
    """All of it, for the artefact that a later step keeps."""
    if telling.run.temporary is None:
        return ()
    file = telling.run.temporary / REPORT_FILE
    text = markdown(telling.report, around=Surroundings(where=_where(telling.run)))
    return _written(file, lambda: files.write(file, text, durable=False))


def _write_summary(telling: Telling) -> tuple[Problem, ...]:
    file = telling.run.summary
    if file is None:
        return ()

    def write() -> None:
        left = SUMMARY_ROOM - (file.stat().st_size if file.exists() else 0)
        if left < _SMALLEST_SUMMARY:
            raise OSError(errno.ENOSPC, "others have filled it to GitHub's limit")
        room = Room(size=left, measure=encoded)
        in_full = f"the artefact {code(telling.run.artifact, 100)}" if telling.run.artifact else ""
        around = Surroundings(where=_where(telling.run, link=False), in_full=in_full)
        _append(file, markdown(telling.report, room, around) + "\n")

    return _written(file, write)


def _write_outputs(telling: Telling) -> tuple[Problem, ...]:
    file = telling.run.outputs
    if file is None:
        return ()
    outputs = outputs_of(telling.report, exit_code=telling.exit_code)
    if telling.run.temporary is not None:
        outputs["report"] = one_line(str(telling.run.temporary / REPORT_FILE))
    text = output_lines(outputs, clock.random_token())
    return _written(file, lambda: _append(file, text))


def _append(file: Path, text: str) -> None:
    """The runner made the file, and others write to it too."""
    with file.open("ab") as opened:
        opened.write(text.encode())


def _written(file: Path, write: Callable[[], None]) -> tuple[Problem, ...]:
    try:
        write()
    except OSError as error:
        return (
            Problem(
                code="HF-TELL-5",
                message=f"{file.name} for GitHub Actions cannot be written: {error.strerror or error}",
                hint="The report stands in the log.",
            ),
        )
    return ()


# The comment


def comment_body(telling: Telling) -> str:
    run = telling.run
    places = [f"[job summary]({run.link})"] if run.link else ["the job summary"]
    places += [f"the artefact {code(run.artifact, 100)}"] if run.artifact else []
    around = Surroundings(where=_where(run), in_full=" and ".join(places), end=marker(run.name, run.age))
    return markdown(telling.report, COMMENT, around).rstrip("\n")


def _where(run: ActionsRun, *, link: bool = True) -> str:
    parts = [f"commit {code(run.commit[:10])}"] if run.commit else []
    parts += [f"[run {run.number}]({run.link})"] if run.link and link else []
    return " · ".join(parts)


def _comment(telling: Telling, patience: RetryLimits) -> tuple[Problem, ...]:
    run = telling.run
    if run.pull_request is None or run.repository is None:
        return ()
    if (problem := _no_way(run)) is not None or run.token is None:
        return (problem,) if problem is not None else ()
    api = GithubApi(run.api, run.token, run.repository, telling.environment, patience)
    try:
        _write_comment(api, telling, run.pull_request.number)
    except NotTakenError as error:
        return (_not_taken(run, error.status, one_line(telling.clean(error.words), 200)),)
    except OutOfPatienceError as error:
        last = one_line(telling.clean(api.last), 200)
        return (
            Problem(
                code="HF-TELL-2",
                message=f"the comment was given up: GitHub's last answer was: {last}",
                hint=f"Another try would have come in {error.needed:.0f} s. The job summary has the report.",
            ),
        )
    return ()


def _write_comment(api: GithubApi, telling: Telling, number: int) -> None:
    run, body = telling.run, comment_body(telling)
    author = api.author()
    while True:
        todo = to_do(api.comments(number), author=author, name=run.name, age=run.age)
        if todo.newer:
            return
        if todo.update is not None:
            api.update(todo.update, body)
            for old in todo.retire:
                api.update(old, REPLACED)
            return
        if api.create(number, body):
            return


def _no_way(run: ActionsRun) -> Problem | None:
    """What is known to be wrong before anything is sent."""
    if run.token is None:
        return Problem(
            code="HF-TELL-3",
            message="there is no GITHUB_TOKEN, so no comment was written",
            hint="Give the step env: GITHUB_TOKEN: ${{ github.token }}.",
        )
    parts = urlsplit(run.api)
    if parts.scheme != "https" and not is_local_address(parts.hostname or ""):
        return Problem(
            code="HF-TELL-4",
            message="GITHUB_API_URL does not begin with https://, so the token was not sent",
            hint="Unset it, or give the https:// address of your server's API.",
        )
    return None


def _not_taken(run: ActionsRun, status: int, words: str) -> Problem:
    if status in _FORBIDDEN:
        fork = run.pull_request is not None and run.pull_request.fork
        return Problem(
            code="HF-TELL-1",
            message=f"the token may not write a comment on this pull request: {status} {words}",
            hint="It comes from a fork, whose workflows have a token that only reads; see the job summary."
            if fork
            else "Give the job permissions: pull-requests: write.",
        )
    if status == _NOT_TAKEN:
        return Problem(
            code="HF-TELL-7",
            message=f"GitHub does not take the comment: {words}",
            hint="The job summary has the report.",
        )
    return Problem(
        code="HF-TELL-8",
        message=f"GitHub answered something that is not understood: {status} {words}",
        hint="The job summary has the report.",
    )
