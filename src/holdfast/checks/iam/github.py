"""Which GitHub Actions jobs a condition on the subject of their token allows. Pure.

Two formats are in use: `repo:OWNER/REPO:…`, and, for repositories made, renamed or moved since the summer of
2026, `repo:OWNER@OWNER_ID/REPO@REPO_ID:…`, which a name that is freed and taken by others does not match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.checks.iam.document import HOLE, display_text
from holdfast.kernel.patterns import pattern

HOST: Final = "token.actions.githubusercontent.com"
AUDIENCES: Final = frozenset(("sts.amazonaws.com", "sts.amazonaws.com.cn"))
ASSUMES: Final = "sts:AssumeRoleWithWebIdentity"

_SUBJECT = pattern(r"repo:([^:/]*)(?:/([^:]*))?(?::(.*))?")
_ID = pattern(r"[0-9]+|[*?0-9]+")
_NO_REPO = pattern(r"[\w.-]+/[\w.-]+(?::.*)?")
_MISTAKEN = pattern(
    r"refs/|heads/|tags/|branch:|ref:(?!refs/|[*?])|environment:?$|pull_request:|pull-request"
)


_WHOSE = pattern(
    r"(?:^|:)(?:repo|repository|repository_id|repository_owner|repository_owner_id|enterprise|enterprise_id"
    r"|job_workflow_ref|workflow_ref):([^:/*?]+)(?:[:/@]|$)"
)
"""A claim that identifies the owner of the repository."""


class SubjectScope(NamedTuple):
    """Why a subject is too wide or never matches; None if it is neither."""

    severe: str | None = None
    mild: str | None = None
    never: str | None = None


_FINE = SubjectScope()


def github_host(principals: Iterable[str], keys: Iterable[str]) -> str | None:
    """GitHub's own host, or that of an enterprise: by the provider; where that is a reference, by the keys
    of the conditions.
    """
    for principal in principals:
        host = principal.rpartition("oidc-provider/")[2].lower()
        if host == HOST or host.startswith(f"{HOST}/"):
            return host
    return next((key.rpartition(":")[0] for key in keys if key.startswith((f"{HOST}:", f"{HOST}/"))), None)


def subject_scope(subject: str, *, patterns: bool) -> SubjectScope:
    """`patterns`: `*` and `?` are wildcards. Of a subject with unknown parts only the start counts."""
    if HOLE in subject:
        return _width_with_holes(subject) if patterns else _FINE
    if ("*" in subject or "?" in subject) and not patterns:
        why = "contains a wildcard, which only StringLike supports: it never matches"
        return SubjectScope(never=f"`{subject}` {why}")
    if not subject.startswith("repo:"):
        return _not_a_repository(subject)
    parts = _SUBJECT.fullmatch(subject)
    if parts is None:
        return SubjectScope(never=f"`{subject}` is not a GitHub subject")
    owner, repository, rest = parts[1], parts[2], parts[3]
    return _owner(subject, owner, repository) or _repository(subject, owner, repository, rest) or _FINE


def _width_with_holes(subject: str) -> SubjectScope:
    """An unknown part is taken as a name without wildcards."""
    display = display_text(subject)
    filled = display if "/" in display else display.replace("…", "…/…")
    scope = subject_scope(filled, patterns=True)
    if scope.never is not None:
        return _FINE
    return SubjectScope(*(None if why is None else why.replace(filled, display) for why in scope))


def _not_a_repository(subject: str) -> SubjectScope:
    if not subject.strip("*?"):
        return SubjectScope(f"`{subject}` allows every repository on GitHub")
    if subject[0] in "*?" or re.match(r"(?:r|re|rep|repo)[*?]", subject):
        return SubjectScope(f"`{subject}` starts with a wildcard: any repository can match it")
    if _NO_REPO.fullmatch(subject) and ":" not in subject.partition("/")[0]:
        return SubjectScope(never=f"`{subject}` never matches: a subject starts with `repo:`")
    # An organization may choose claims of its own for the subject, and so may everybody else.
    if _WHOSE.search(subject):
        return _FINE
    return SubjectScope(
        f"`{subject}` does not name the owner of the repository: anyone can have such a subject"
    )


def _owner(subject: str, owner: str, repository: str | None) -> SubjectScope | None:
    name, at, id_ = owner.partition("@")
    if not name or "*" in name or "?" in name:
        return SubjectScope(
            f"`{subject}` allows repositories of other owners: anyone can register a matching name"
        )
    if repository is None or not repository.partition("@")[0]:
        return SubjectScope(never=f"`{subject}` names no repository")
    if at and not _ID.fullmatch(id_):
        return SubjectScope(never=f"`{subject}` never matches: `{id_}` is not an owner id")
    numbered = "@" in repository
    if bool(at) is not numbered and "*" not in repository:
        return SubjectScope(never=f"`{subject}` never matches: either both names have an id, or neither does")
    return None


def _repository(subject: str, owner: str, repository: str, rest: str | None) -> SubjectScope | None:
    name, at, id_ = repository.partition("@")
    if "*" in name or "?" in name:
        return SubjectScope(None, f"`{subject}` allows more than one repository of {owner.partition('@')[0]}")
    if at and not _ID.fullmatch(id_):
        return SubjectScope(never=f"`{subject}` never matches: `{id_}` is not a repository id")
    if rest is None:
        return SubjectScope(
            never=f"`{subject}` never matches: it has no branch, tag, environment or pull request"
        )
    if rest and not rest.strip("*?"):
        return SubjectScope(None, f"`{subject}` allows every branch, tag and pull request of the repository")
    if _MISTAKEN.match(rest) or not rest:
        forms = "`ref:refs/heads/…`, `ref:refs/tags/…`, `environment:…` or `pull_request`"
        return SubjectScope(never=f"`{subject}` never matches: after the repository GitHub writes {forms}")
    return None
