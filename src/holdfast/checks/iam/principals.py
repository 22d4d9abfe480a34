"""The principals of a statement: the forms that AWS accepts, by kind of policy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.arns import ACCOUNT, has_wildcard, parse_arn
from holdfast.checks.iam.document import HOLE, Fields, Issue, Node, is_list
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.hcl.reader import Unknown
from holdfast.kernel.patterns import pattern

TYPES: Final = ("AWS", "Federated", "Service", "CanonicalUser")
_SERVICE = pattern(r"[a-z0-9*-]+(?:\.[a-z0-9*-]+)+")
_UNIQUE_ID = pattern(r"A[A-Z0-9]{3}[A-Z0-9]{12,124}")
_CANONICAL = pattern(r"[0-9a-f]{64}")
_FEDERATED = pattern(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+(?:/.*)?")
_OF_AWS: Final = ("iam", "sts")


def principal_issues(value: Node | None, name: str, kind: PolicyKind) -> Iterator[Issue]:
    if value is None or isinstance(value.content, Unknown) or kind.names_principals is False:
        return
    if not isinstance(value.content, Fields):
        if value.content != "*" and not (isinstance(value.content, str) and HOLE in value.content):
            yield Issue(f"`{name}` must be `*` or an object with {', '.join(TYPES)}", value)
        return
    if not value.fields.pairs and not value.fields.more:
        yield Issue(f"`{name}` names no principal", value)
    for key, who in value.fields.pairs:
        if key.content not in TYPES:
            yield Issue(f"`{key.content}` is not a principal type", key, f"Valid: {', '.join(TYPES)}.")
            continue
        if key.content == "CanonicalUser" and kind in (PolicyKind.TRUST, PolicyKind.KEY):
            yield Issue(f"`CanonicalUser` is not allowed in {kind}: only bucket policies support it", key)
        yield from _named(str(key.content), who, name)


def _named(type_: str, who: Node, name: str) -> Iterator[Issue]:
    if isinstance(who.content, Unknown):
        return
    if is_list(who) and not who.items:
        yield Issue(f"`{name}.{type_}` names no principal", who)
    for item in who.items:
        if isinstance(item.content, Unknown):
            continue
        if not isinstance(item.content, str):
            yield Issue(f"`{name}.{type_}` must be a string or a list of strings", item)
        elif item.text is not None and (wrong := _wrong(type_, item.text)) is not None:
            yield Issue(wrong, item)


def _wrong(type_: str, text: str) -> str | None:
    match type_:
        case "AWS":
            return _wrong_aws(text)
        case "Service":
            fine = text == "*" or _SERVICE.fullmatch(text)
            return None if fine else f"`{text}` is not a service: write, for example, `lambda.amazonaws.com`"
        case "CanonicalUser":
            fine = text == "*" or _CANONICAL.fullmatch(text)
            return None if fine else f"`{text}` is not a canonical user id: it has 64 hexadecimal digits"
        case _:
            return _wrong_federated(text)


def _wrong_aws(text: str) -> str | None:
    if text == "*" or ACCOUNT.fullmatch(text) or _UNIQUE_ID.fullmatch(text) or "${" in text:
        return None
    arn = parse_arn(text)
    if arn is None or arn.service not in _OF_AWS:
        return f"`{text}` is not an AWS principal: write `*`, an account, or an IAM or STS ARN"
    if has_wildcard(text):
        return f"`{text}`: the ARN of a principal cannot have a wildcard; use a condition on aws:PrincipalArn"
    if not ACCOUNT.fullmatch(arn.account) and arn.account != "cloudfront":
        return f"`{text}`: `{arn.account}` is not an account id, which has twelve digits"
    return None


def _wrong_federated(text: str) -> str | None:
    if text == "*" or "${" in text or _FEDERATED.fullmatch(text):
        return None
    arn = parse_arn(text)
    fine = arn is not None and arn.service == "iam" and arn.resource.startswith(_PROVIDERS)
    shown = "the ARN of an `oidc-provider/` or a `saml-provider/`, or a provider's domain"
    return None if fine else f"`{text}` is not an identity provider: write {shown}"


_PROVIDERS: Final = ("oidc-provider/", "saml-provider/")
