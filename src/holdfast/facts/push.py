"""Publishes files on a branch: read, regenerate, push; again if somebody else pushed in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.system import clock
from holdfast.system.git_branch import Author, GitBranch

_ATTEMPTS: Final = 50
"""As many others may be faster."""
_REFUSALS: Final = 4
"""After as many refusals of an unchanged branch, it is not a race."""
_PAUSE: Final = 0.4
AUTHOR: Final = Author(name="Holdfast", email="holdfast@localhost")


class Push(Struct, frozen=True, kw_only=True):
    commit: str | None
    """None if nothing had to change."""
    attempts: int


def open_branch(
    context: ChangeContext, repository: str, branch: str, credentials: SecretRef | None
) -> GitBranch:
    """In a folder that is removed with this command; the credentials are read now."""
    secret = context.secrets.read(credentials) if credentials is not None else None
    if secret is not None:
        context.redactor.register(secret)
    folder: Path = context.engines.scratch / f"git-{clock.new_id()}"
    folder.mkdir(mode=0o700)
    variables = context.project.environment.variables
    return GitBranch(folder / "branch.git", repository, branch, variables, credentials=secret)


def push_files(
    branch: GitBranch,
    change: Callable[[str | None], Mapping[str, bytes | None]],
    *,
    message: Callable[[], str],
    before: Callable[[], None],
) -> Push:
    """`change` gives the new contents on top of a commit. It reads states itself, after the branch was read,
    and is asked again after a race: what was published in between is never replaced by something older.

    `before` is called once, before something is pushed.
    """
    refusals = 0
    last: str | None = None
    why = ""
    for attempt in range(1, _ATTEMPTS + 1):
        tip = branch.tip()
        contents = change(tip)
        if not contents:
            return Push(commit=None, attempts=attempt)
        if attempt == 1:
            before()
        refusals = refusals + 1 if attempt > 1 and tip == last else 0
        last = tip
        commit = branch.commit(tip, contents, message(), AUTHOR)
        refused = branch.push(commit, expected=tip)
        if refused is None:
            return Push(commit=commit, attempts=attempt)
        why = refused
        if refusals >= _REFUSALS or attempt == _ATTEMPTS:
            break
        clock.pause(_PAUSE * (0.2 + clock.chance()))
    raise Refused(
        "HF-FACT-5",
        f"{branch.url}: the host refused the push to {branch.branch}: {why}",
        hint="Check that these credentials may push to the branch, and that no rule or hook of the host "
        "forbids it. Nothing was published.",
    )
