"""Whether a module source or a version constraint is pinned. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qs

from msgspec.structs import replace

from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.terraform.versions import Constraint, Operator, Term

_FORCED = pattern(r"(?P<getter>[A-Za-z0-9]+)::(?P<rest>.+)", re.DOTALL)
_LOCAL = pattern(r"\.{1,2}(?:$|/|\\)|/|[A-Za-z]:[\\/]")
_GIT = pattern(
    r"[\w.-]+@[\w.-]+:|ssh://|git://|(?:https?://)?(?:www\.)?(?:github\.com|bitbucket\.org)/|[^?]*\.git(?:$|//|\?)",
    re.IGNORECASE,
)
_ARCHIVE = pattern(
    r"https?://|[\w.-]+\.s3[\w.-]*\.amazonaws\.com/|s3[\w.-]*\.amazonaws\.com/|www\.googleapis\.com/storage/",
    re.IGNORECASE,
)
_REGISTRY = pattern(
    r"(?:[\w-]+(?:\.[\w-]+)+(?::\d+)?/)?[0-9A-Za-z][\w-]*/[0-9A-Za-z][\w-]*/[0-9a-z]+(?:$|//)"
)
_SHA = pattern(r"[0-9a-f]{7,64}", re.IGNORECASE)
_TAG = pattern(
    r"(?:v?\d+(?:\.\d+){0,3}|.*[-_/@](?:v\d+(?:\.\d+){0,3}|\d+(?:\.\d+){1,3}|\d{8}))(?:[-+_][\w.+-]+)?"
    r"|(?:.*[-_/@])?\d{4}-\d\d-\d\d",
    re.IGNORECASE,
)
"""After a name, a number alone is not a version: `ABC-123` is a branch."""
_LONGEST_TAG = 255
"""Git stores a tag in a file of that name."""
_BRANCH = pattern(r"refs/heads/.*|(?:releases?|feature|features|hotfix|support|bugfix)/.*", re.IGNORECASE)
_TAGS = "refs/tags/"


def is_elsewhere(source: str) -> bool:
    """Whether it is fetched, and not a local path."""
    return not _LOCAL.match(source)


def loose_module(source: str, version: str | None) -> str | None:  # noqa: PLR0911 - one for each kind
    """Why a module's source is not pinned, as the end of a sentence; None if it is."""
    forced = _FORCED.match(source)
    getter, address = (forced["getter"].lower(), forced["rest"]) if forced else ("", source)
    query = {name: values[-1] for name, values in parse_qs(address.partition("?")[2]).items()}
    if not getter and _LOCAL.match(source):
        return None
    if getter == "git" or (not getter and _GIT.match(address)):
        return _loose_ref(query.get("ref"), "ref")
    if getter == "hg":
        return _loose_ref(query.get("rev"), "rev")
    if address.startswith("oci://"):
        return None if "digest" in query else _loose_ref(query.get("tag"), "tag")
    if getter or _ARCHIVE.match(address):
        pinned = query.get("checksum") or query.get("version")
        return None if pinned else "is an archive without a checksum"
    if _REGISTRY.match(address):
        return _loose_version(version)
    return None


def _loose_ref(ref: str | None, key: str) -> str | None:
    if not ref:
        return f"has no `{key}`, so it follows the default branch" if key != "tag" else "has no `tag`"
    ref = ref.partition("//")[0]  # older versions accept the folder behind it: `?ref=v1.2.0//modules/a`
    is_tag = len(ref) <= _LONGEST_TAG and _TAG.fullmatch(ref) is not None
    if ref.startswith(_TAGS) or (not _BRANCH.fullmatch(ref) and (is_tag or _SHA.fullmatch(ref))):
        return None
    return f"uses `{ref}`, which is neither a version nor a commit"


def _loose_version(version: str | None) -> str | None:
    if version is None:
        return "has no `version`, so it is always the newest"
    if (why := loose_constraint(version)) is not None:
        return f"has the version `{version}`, which {why}"
    return None


def loose_constraint(text: str) -> str | None:
    """Why a module's constraint has no upper bound, as the end of a sentence; otherwise None."""
    return _loose(Constraint.parse, text)


def loose_provider(text: str) -> str | None:
    """The same for a provider's constraint."""
    return _loose(provider_constraint, text)


def _loose(parse: Callable[[str], Constraint], text: str) -> str | None:
    try:
        terms = parse(text).terms
    except UsageError:
        return "is not a valid version constraint"
    return None if any(map(_bounds, terms)) else "allows every later version"


def provider_constraint(text: str) -> Constraint:
    """For a provider `~> 5` means `~> 5.0`; for a module and Terraform itself it has no upper bound."""
    constraint = Constraint.parse(text)
    return replace(constraint, terms=tuple(map(_of_provider, constraint.terms)))


def _of_provider(term: Term) -> Term:
    if term.operator is not Operator.PESSIMISTIC or term.version.written > 1:
        return term
    return replace(term, version=replace(term.version, written=2))


def _bounds(term: Term) -> bool:
    """`~> 5` has no upper bound: only the last number may increase, and there is only one."""
    if term.operator is Operator.PESSIMISTIC:
        return term.version.written > 1
    return term.operator in (Operator.EQUAL, Operator.LESS, Operator.AT_MOST)
