"""Whether a command runs outside of a pull request: in CI, for the default branch of the repository. Pure.

Where CI does not name both branches, the answer is no: a change under review must not pass for a merged one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.audit.actor import CI, GITHUB_ACTIONS, Actor

_GITHUB_EVENTS: Final = frozenset({"push", "schedule", "workflow_dispatch", "repository_dispatch"})
"""Other events run for a pull request, or for the default branch with the code of a pull request."""
_ALWAYS_DEFAULT: Final = frozenset({"schedule", "repository_dispatch"})
_OTHERS: Final = (
    ("CI_COMMIT_BRANCH", "CI_DEFAULT_BRANCH"),
    ("BUILDKITE_BRANCH", "BUILDKITE_PIPELINE_DEFAULT_BRANCH"),
)
"""The variables of GitLab and Buildkite: the branch, and the default branch."""
_NOT_NAMED: Final = "this CI does not name the default branch"
_REVIEWS: Final = (
    "CI_MERGE_REQUEST_IID",
    "BUILDKITE_PULL_REQUEST",
    "CHANGE_ID",
    "SYSTEM_PULLREQUEST_PULLREQUESTID",
)


def why_not_default_branch(
    who: Actor, variables: Mapping[str, str], *, default: str | None, commit: str | None
) -> str | None:
    """None outside of CI and for the default branch.

    `default` is its name in the event of GitHub Actions, `commit` the one that is checked out.
    """
    if who.kind == GITHUB_ACTIONS:
        return _why_not_on_github(who.claims, default=default, commit=commit)
    if who.kind != CI:
        return None
    if any(variables.get(name, "false") not in {"", "false"} for name in _REVIEWS):
        return "this job runs for a pull request"
    if variables.get("BRANCH_IS_PRIMARY") == "true":
        return None
    for own, main in _OTHERS:
        branch, default = variables.get(own), variables.get(main)
        if branch and default:
            return None if branch == default else f"this job runs for {branch}, not for {default}"
    return _NOT_NAMED


def is_under_review(
    who: Actor, variables: Mapping[str, str], *, default: str | None, commit: str | None
) -> bool:
    """Where CI names no default branch, only a pull request that it names counts."""
    return why_not_default_branch(who, variables, default=default, commit=commit) not in {None, _NOT_NAMED}


def _why_not_on_github(claims: Mapping[str, str], *, default: str | None, commit: str | None) -> str | None:
    event, ref = claims.get("event_name") or "an unknown event", claims.get("ref") or "an unknown ref"
    if event not in _GITHUB_EVENTS:
        return f"this job runs for {event}"
    if event not in _ALWAYS_DEFAULT and ref != f"refs/heads/{default}":
        return f"this job runs for {ref}, not for the default branch"
    if commit is not None and commit != claims.get("sha"):
        return "another commit than that of the job is checked out"
    return None
