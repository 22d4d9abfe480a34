"""What GitHub says about a job in its token, and which jobs a condition on the subject lets in. Pure.

Two formats are in use: `repo:OWNER/REPO:…`, and, for repositories made, renamed or moved since the summer of
2026, `repo:OWNER@OWNER_ID/REPO@REPO_ID:…`, which a name that is freed and taken by others does not match.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

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


class Width(NamedTuple):
    """How wide a subject is: why it is too wide or never matches; None where it is neither."""

    grave: str | None = None
    mild: str | None = None


_FINE = Width()


def is_github(principal: str) -> bool:
    return principal.rpartition("oidc-provider/")[2].lower() == HOST


def width(subject: str, *, patterns: bool) -> Width:
    """`patterns`: `*` and `?` are wildcards here."""
    if ("*" in subject or "?" in subject) and not patterns:
        return Width(f"`{subject}` holds a wildcard, which only StringLike understands: nothing matches it")
    if not subject.startswith("repo:"):
        return _not_a_repository(subject)
    found = _SUBJECT.fullmatch(subject)
    if found is None:
        return Width(f"`{subject}` is no subject of GitHub")
    owner, repository, rest = found[1], found[2], found[3]
    return _owner(subject, owner, repository) or _repository(subject, owner, repository, rest) or _FINE


def _not_a_repository(subject: str) -> Width:
    if not subject.strip("*?"):
        return Width(f"`{subject}` lets in every repository of GitHub")
    if subject[0] in "*?" or re.match(r"(?:r|re|rep|repo)[*?]", subject):
        return Width(f"`{subject}` begins with a wildcard: anybody's repository can match it")
    if _NO_REPO.fullmatch(subject) and ":" not in subject.partition("/")[0]:
        return Width(f"`{subject}` never matches: a subject begins with `repo:`")
    # An organization may have chosen claims of its own for the subject: those cannot be judged from here.
    return _FINE


def _owner(subject: str, owner: str, repository: str | None) -> Width | None:
    name, at, id_ = owner.partition("@")
    if not name or "*" in name or "?" in name:
        return Width(f"`{subject}` lets in repositories of other owners: anyone can take a name that matches")
    if repository is None or not repository.partition("@")[0]:
        return Width(f"`{subject}` names no repository")
    if at and not _ID.fullmatch(id_):
        return Width(f"`{subject}` never matches: `{id_}` is no number of an owner")
    numbered = "@" in repository
    if bool(at) is not numbered and "*" not in repository:
        return Width(f"`{subject}` never matches: either both names carry their number, or neither does")
    return None


def _repository(subject: str, owner: str, repository: str, rest: str | None) -> Width | None:
    name, at, id_ = repository.partition("@")
    if "*" in name or "?" in name:
        return Width(None, f"`{subject}` lets in more than one repository of {owner.partition('@')[0]}")
    if at and not _ID.fullmatch(id_):
        return Width(f"`{subject}` never matches: `{id_}` is no number of a repository")
    if rest is None:
        return Width(f"`{subject}` never matches: it says neither branch, tag, environment nor pull request")
    if rest and not rest.strip("*?"):
        return Width(None, f"`{subject}` lets in every branch, tag and pull request of the repository")
    if _MISTAKEN.match(rest) or not rest:
        forms = "`ref:refs/heads/…`, `ref:refs/tags/…`, `environment:…` or `pull_request`"
        return Width(f"`{subject}` never matches: after the repository GitHub writes {forms}")
    return None
