"""The kinds of policies, what each must and must not contain, and how to recognise a kind."""

from __future__ import annotations

import functools
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.checks.iam.document import Node, flatten, is_fully_known
from holdfast.kernel.patterns import pattern


class PolicyKind(StrEnum):
    IDENTITY = "an identity policy"
    BOUNDARY = "a permissions boundary"
    TRUST = "a trust policy"
    KEY = "a key policy"
    BUCKET = "a bucket policy"
    RESOURCE = "a resource policy"
    ENDPOINT = "an endpoint policy"
    ORGANIZATION = "an organization policy"
    RESOURCE_CONTROL = "a resource control policy"
    UNCLEAR = "a policy"

    @property
    def names_principals(self) -> bool | None:
        """Whether each statement must have a principal; None: unknown."""
        if self is PolicyKind.UNCLEAR:
            return None
        return self not in (PolicyKind.IDENTITY, PolicyKind.BOUNDARY, PolicyKind.ORGANIZATION)

    @property
    def needs_resource(self) -> bool:
        return self not in (PolicyKind.TRUST, PolicyKind.RESOURCE, PolicyKind.ENDPOINT, PolicyKind.UNCLEAR)

    @property
    def bounds(self) -> bool:
        """Whether it only limits what other policies allow."""
        return self in (
            PolicyKind.BOUNDARY,
            PolicyKind.ENDPOINT,
            PolicyKind.ORGANIZATION,
            PolicyKind.RESOURCE_CONTROL,
        )

    @property
    def strict_text(self) -> bool:
        """Whether IAM's limits on characters apply; other services are less strict."""
        return self in (PolicyKind.IDENTITY, PolicyKind.BOUNDARY, PolicyKind.TRUST)


class PolicyUse(Struct, frozen=True):
    """What a document is used as, and its maximum size."""

    kind: PolicyKind
    limit: int | None = None
    """In characters without white space, if this document alone can reach it."""
    hard: int | None = None
    """The maximum to which AWS can raise the limit."""


BOUNDARY: Final = PolicyUse(PolicyKind.BOUNDARY, 6144)
TRUST: Final = PolicyUse(PolicyKind.TRUST, 2048, 8192)
KEY: Final = PolicyUse(PolicyKind.KEY, 32768)
BUCKET: Final = PolicyUse(PolicyKind.BUCKET, 20480)
RESOURCE: Final = PolicyUse(PolicyKind.RESOURCE)
RESOURCE_CONTROL: Final = PolicyUse(PolicyKind.RESOURCE_CONTROL, 5120)
_ENDPOINT: Final = PolicyUse(PolicyKind.ENDPOINT, 20480)


class _UseOfArguments(PolicyUse, frozen=True, kw_only=True):
    """A row of the table: the arguments with this use, each after its resource type."""

    arguments: list[str]


@functools.cache
def uses_by_type() -> dict[str, dict[str, PolicyUse]]:
    """The arguments of AWS resources that contain a policy. A dot: inside a nested block."""
    table = Path(__file__).with_name("policy_arguments.json").read_bytes()
    uses: dict[str, dict[str, PolicyUse]] = {}
    for row in msgspec.json.decode(table, type=list[_UseOfArguments]):
        for path in row.arguments:
            type_, _, argument = path.partition(".")
            uses.setdefault(type_, {})[argument] = PolicyUse(row.kind, row.limit, row.hard)
    return uses


_TRUST_NAME = pattern(r"trust|assume[-_. ]?role|assumerole")
_KEY_NAME = pattern(r"(?:kms|key)[-_. ]?(?:key[-_. ]?)?policy|key-policy")
_BUCKET_NAME = pattern(r"bucket[-_. ]?policy")
_FILE_NAME = pattern(r"(?:.*\s)?((?:key|bucket)[-_.]policy)\.json")
"""A file with exactly this name is that kind of policy."""
_ORGANIZATION_NAME = pattern(r"(?:^|[^a-z])scps?(?:[^a-z]|$)|service[-_. ]?control")
_RESOURCE_CONTROL_NAME = pattern(r"(?:^|[^a-z])rcps?(?:[^a-z]|$)|resource[-_. ]?control")
_ENDPOINT_NAME = pattern(r"endpoint")
_BOUNDARY_NAME = pattern(r"boundary|boundaries")


def guess_use(name: str, document: Node) -> PolicyUse:  # noqa: PLR0911 - one line for each kind
    """The use of a document without a known user: by its name, then by its form."""
    lowered = name.lower()
    form = _form(document)
    if _TRUST_NAME.search(lowered) and (form is not PolicyKind.IDENTITY or "trust" in lowered):
        return TRUST
    plainly = _FILE_NAME.fullmatch(lowered)
    if form is not PolicyKind.IDENTITY or plainly:
        for use, pattern in ((KEY, _KEY_NAME), (BUCKET, _BUCKET_NAME)):
            if pattern.search(plainly[1] if plainly else lowered):
                return use if use is KEY or plainly or _is_about(document, "s3") else PolicyUse(form)
    if _BOUNDARY_NAME.search(lowered) and form is PolicyKind.IDENTITY:
        return BOUNDARY
    if _RESOURCE_CONTROL_NAME.search(lowered) and form is PolicyKind.RESOURCE:
        return RESOURCE_CONTROL
    if _ORGANIZATION_NAME.search(lowered) and form in (PolicyKind.IDENTITY, PolicyKind.UNCLEAR):
        return PolicyUse(PolicyKind.ORGANIZATION)
    if _ENDPOINT_NAME.search(lowered) and form is PolicyKind.RESOURCE:
        return _ENDPOINT
    return PolicyUse(form)


def _is_about(document: Node, service: str) -> bool:
    """Whether all known actions are of this service."""
    listed = document.fields.get("Statement")
    actions = (
        statement.fields.get("Action") for statement in (flatten(listed) if listed is not None else ())
    )
    texts = (item.text for action in actions if action is not None for item in flatten(action))
    return all(text is None or text == "*" or text.lower().startswith(f"{service}:") for text in texts)


def combine_uses(uses: list[PolicyUse]) -> PolicyUse:
    """The use of a document with several users: only requirements that apply to all of them."""
    kinds = dict.fromkeys(use.kind for use in uses)
    limits = [use.limit for use in uses if use.limit is not None]
    if len(kinds) == 1:
        return min(uses, key=lambda use: use.limit or max(limits, default=0) + 1)
    if set(kinds) <= {PolicyKind.IDENTITY, PolicyKind.BOUNDARY}:
        return PolicyUse(PolicyKind.IDENTITY, min(limits, default=None))
    if set(kinds) <= {PolicyKind.KEY, PolicyKind.BUCKET, PolicyKind.RESOURCE}:
        return RESOURCE
    return PolicyUse(PolicyKind.UNCLEAR)


def _form(document: Node) -> PolicyKind:
    """The kind that the statements look like, if it is unambiguous."""
    listed = document.fields.get("Statement")
    statements = [item.fields for item in flatten(listed)] if listed is not None else []
    if (
        not statements
        or not all(one.pairs for one in statements)
        or any(fields.more for fields in statements)
    ):
        return PolicyKind.UNCLEAR
    has_principal = [fields.has("Principal") or fields.has("NotPrincipal") for fields in statements]
    what = [fields.has("Resource") or fields.has("NotResource") for fields in statements]
    if not any(has_principal) and all(what):
        return PolicyKind.IDENTITY
    if all(has_principal) and not any(what):
        return (
            PolicyKind.TRUST
            if all(_assumes(fields.get("Action")) for fields in statements)
            else PolicyKind.RESOURCE
        )
    return PolicyKind.RESOURCE if all(has_principal) and all(what) else PolicyKind.UNCLEAR


def _assumes(action: Node | None) -> bool:
    return action is not None and all((item.text or "sts:").startswith("sts:") for item in action.items)


def looks_like_policy(document: Node) -> bool:
    """Whether any JSON is a policy: statements with an effect."""
    listed = document.fields.get("Statement")
    if listed is None:
        return False
    if document.fields.has("Version") and not is_fully_known(listed):
        return True
    return any(item.fields.has("Effect") or item.fields.has("Action") for item in flatten(listed))
