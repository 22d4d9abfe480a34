"""The grammar of policy documents: what AWS would refuse. Pure.

Each kind has its own: an identity policy has no principal, a trust policy no resource. Unknown parts are not
reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.checks.iam.arns import ACCOUNT, PARTITIONS, has_wildcard, is_literal, parse_arn
from holdfast.checks.iam.conditions import condition_issues
from holdfast.checks.iam.document import (
    HOLE,
    Alternatives,
    Fields,
    Issue,
    Node,
    display_text,
    duplicate_keys,
    flatten,
    is_list,
    same_word,
)
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.hcl.reader import Unknown
from holdfast.kernel.patterns import pattern

VERSIONS: Final = ("2012-10-17", "2008-10-17")
_TOP: Final = ("Version", "Id", "Statement")
_STATEMENT: Final = (
    *("Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction"),
    *("Resource", "NotResource", "Condition"),
)
_EFFECTS: Final = ("Allow", "Deny")
_SID = pattern(r"[A-Za-z0-9]*")
_NOT_ALLOWED = pattern(r"[^\t\n\r\u0020-\u00ff]")
_VENDOR = pattern(r"[a-zA-Z0-9.-]+")
_FILLED_IN: Final = pattern(r"%|^_[A-Z0-9_]+_(?:/|$)")
"""`%s`, or a placeholder that a module replaces, such as `_S3_BUCKET_ARN_`."""
_ACTION_NAME = pattern(r"[A-Za-z0-9*?:_-]+")
_IAM_PATHS: Final = (
    *("user/", "federated-user/", "role/", "group/", "instance-profile/", "mfa/", "server-certificate/"),
    *("policy/", "sms-mfa/", "saml-provider/", "oidc-provider/", "report/", "access-report/", "u2f/"),
)
_BUCKET_SERVICES: Final = ("s3", "s3-object-lambda", "s3express", "s3-outposts")


class _Pair(NamedTuple):
    """Two keys of which a statement has at most one."""

    one: str
    other: str


_PRINCIPAL = _Pair("Principal", "NotPrincipal")
_ACTION = _Pair("Action", "NotAction")
_RESOURCE = _Pair("Resource", "NotResource")


def grammar_issues(document: Node, kind: PolicyKind, text: str) -> Iterator[Issue]:
    """Every violation of the grammar in a document. `text`: the document that AWS gets."""
    issues = {
        (issue.message, issue.at.line, issue.at.column): issue for issue in _grammar(document, kind, text)
    }
    return iter(issues.values())


def _grammar(document: Node, kind: PolicyKind, text: str) -> Iterator[Issue]:
    if not isinstance(document.content, Fields):
        if not isinstance(document.content, Unknown):
            yield Issue("a policy document must be a JSON object", document)
        return
    for first, again in duplicate_keys(document):
        where = f" (first on line {first.line})" if first.line and first.line != again.line else ""
        yield Issue(f"the key `{again.content}` occurs twice in one object{where}", again)
    yield from _characters(document, kind, text)
    yield from _keys(document.fields, _TOP, "a policy document")
    yield from _top(document, kind)
    yield from _statements(document, kind)


def _characters(document: Node, kind: PolicyKind, text: str) -> Iterator[Issue]:
    match = _NOT_ALLOWED.search(display_text(text).replace("…", "")) if kind.strict_text else None
    if match is not None:
        code = f"U+{ord(match[0]):04X}"
        yield Issue(
            f"the character {code} is not allowed in {kind}: only tab, line breaks and U+0020 to U+00FF are",
            document,
        )


def _keys(fields: Fields, known: tuple[str, ...], where: str) -> Iterator[Issue]:
    for key, _ in fields.pairs:
        if key.content not in known:
            near = same_word(str(key.content), known)
            hint = f"Write `{near}`." if near else f"Valid: {', '.join(known)}."
            yield Issue(f"`{key.content}` is not a key of {where}", key, hint)


def _top(document: Node, kind: PolicyKind) -> Iterator[Issue]:
    fields = document.fields
    version, id_ = fields.get("Version"), fields.get("Id")
    if version is not None and version.known and version.content not in VERSIONS:
        yield Issue(f"`Version` is `{_display(version)}`; it must be {' or '.join(VERSIONS)}", version)
    if id_ is not None and kind is PolicyKind.IDENTITY:
        yield Issue("`Id` is not allowed in an identity policy", id_, is_note=True)
    elif id_ is not None and id_.known and not isinstance(id_.content, str):
        yield Issue("`Id` must be a string", id_)


def _statements(document: Node, kind: PolicyKind) -> Iterator[Issue]:
    listed = document.fields.get("Statement")
    if listed is None:
        if not document.fields.more:
            yield Issue("`Statement` is missing", document)
        return
    if is_list(listed) and not listed.items:
        yield Issue("`Statement` is empty", listed)
    sids: set[str] = set()
    for statement in listed.items:
        either = isinstance(statement.content, Alternatives)
        for way in flatten(statement):
            if not (either and way.content is None):
                yield from _statement(way, kind)
        sid = statement.fields.get("Sid")
        name = sid.text if sid is not None else None
        if sid is not None and name:
            if name in sids:
                yield Issue(f"two statements have the Sid `{name}`", sid, is_note=kind is PolicyKind.KEY)
            sids.add(name)


def _statement(statement: Node, kind: PolicyKind) -> Iterator[Issue]:
    if isinstance(statement.content, Unknown):
        return
    fields = statement.fields
    if not isinstance(statement.content, Fields):
        yield Issue("a statement must be an object", statement)
        return
    yield from _keys(fields, _STATEMENT, "a statement")
    yield from _sid(fields.get("Sid"), kind)
    yield from _effect(statement)
    yield from _one_of(statement, _ACTION, needed=True)
    yield from _one_of(statement, _RESOURCE, needed=kind.needs_resource)
    yield from _one_of(statement, _PRINCIPAL, needed=kind.names_principals is True, where=kind)
    yield from _out_of_place(fields, kind)
    for name in _ACTION:
        yield from _actions(fields.get(name), name, kind)
    for name in _RESOURCE:
        yield from _resources(fields.get(name), name, kind)
    for name in _PRINCIPAL:
        yield from principal_issues(fields.get(name), name, kind)
    yield from condition_issues(fields.get("Condition"))


def _sid(sid: Node | None, kind: PolicyKind) -> Iterator[Issue]:
    if sid is None or not sid.known:
        return
    if not isinstance(sid.content, str):
        yield Issue("`Sid` must be a string", sid)
    elif kind.strict_text and not _SID.fullmatch(sid.content):
        yield Issue(f"the Sid `{sid.content}` may only contain letters and digits in {kind}", sid)


def _effect(statement: Node) -> Iterator[Issue]:
    effect = statement.fields.get("Effect")
    if effect is None:
        if not statement.fields.more:
            yield Issue("`Effect` is missing", statement)
    elif effect.known and effect.content not in _EFFECTS:
        near = same_word(str(effect.content), _EFFECTS)
        hint = f"Write `{near}`." if near else None
        message = f"`Effect` is `{_display(effect)}`; it must be Allow or Deny"
        yield Issue(message, effect, hint, is_note=near is not None)


def _one_of(
    statement: Node, pair: _Pair, *, needed: bool, where: PolicyKind | None = None
) -> Iterator[Issue]:
    fields = statement.fields
    first, second = fields.get(pair.one), fields.get(pair.other)
    if first is not None and second is not None and first.exists and second.exists:
        yield Issue(f"a statement has `{pair.one}` or `{pair.other}`, not both", second)
    elif needed and first is None and second is None and not fields.more:
        whose = f" of {where}" if where else ""
        yield Issue(f"a statement{whose} needs `{pair.one}` or `{pair.other}`", statement)


def _out_of_place(fields: Fields, kind: PolicyKind) -> Iterator[Issue]:
    wrong: tuple[str, ...] = ()
    if kind.names_principals is False:
        wrong = _PRINCIPAL
    elif kind is PolicyKind.TRUST:
        wrong = _RESOURCE
    for key, value in fields.pairs:
        if key.content in wrong and value.exists:
            yield Issue(f"`{key.content}` is not allowed in {kind}", key)


def _texts(value: Node | None, name: str) -> Iterator[Issue | Node]:
    """The items of a string or a list of strings, and an issue for anything else."""
    if value is None or isinstance(value.content, Unknown):
        return
    if is_list(value) and not value.items:
        yield Issue(f"`{name}` is empty", value)
    for item in value.items:
        if isinstance(item.content, Unknown):
            continue
        yield (
            item
            if isinstance(item.content, str)
            else Issue(f"`{name}` must be a string or a list of strings", item)
        )


def _actions(value: Node | None, name: str, kind: PolicyKind) -> Iterator[Issue]:
    for item in _texts(value, name):
        if isinstance(item, Issue):
            yield item
            continue
        action = item.text
        if action is None or (action == "*" and kind is not PolicyKind.TRUST):
            continue
        yield from _action(action, item, kind)


def _action(action: str, item: Node, kind: PolicyKind) -> Iterator[Issue]:
    vendor, colon, what = action.partition(":")
    if action == "*":
        yield Issue("a trust policy allows only `sts:` actions", item)
    elif not colon:
        yield Issue(f"the action `{action}` has no service", item, "Write `service:Action`.")
    elif ":" in what:
        yield Issue(f"the action `{action}` has more than one colon", item)
    elif vendor != "*" and not _VENDOR.fullmatch(vendor):
        yield Issue(f"the action `{action}`: `{vendor}` is not a service name", item)
    elif not _ACTION_NAME.fullmatch(what):
        yield Issue(f"the action `{action}`: `{what}` is not an action name", item)
    elif kind is PolicyKind.TRUST and vendor.lower() != "sts":
        yield Issue(f"the action `{action}` is not allowed in a trust policy: only `sts:` actions are", item)
    elif kind is PolicyKind.BUCKET and vendor != "*" and vendor.lower() not in _BUCKET_SERVICES:
        yield Issue(f"the action `{action}` is not allowed in a bucket policy: only `s3:` actions are", item)


def _resources(value: Node | None, name: str, kind: PolicyKind) -> Iterator[Issue]:
    for item in _texts(value, name):
        if isinstance(item, Issue):
            yield item
        elif item.text is not None and not (has_wildcard(item.text) and not item.text.strip("*")):
            yield from _resource(item.text, item, kind)


def _resource(text: str, item: Node, kind: PolicyKind) -> Iterator[Issue]:
    arn = parse_arn(text)
    if arn is None:
        if kind is not PolicyKind.UNCLEAR and not (_FILLED_IN.search(text) or _may_be_resource(text, kind)):
            hint = "arn:partition:service:region:account:resource"
            yield Issue(f"the resource `{text}` is neither `*` nor an ARN", item, f"An ARN is `{hint}`.")
        return
    if is_literal(arn.partition) and arn.partition not in PARTITIONS:
        yield Issue(f"the resource `{text}`: there is no partition `{arn.partition}`", item)
    elif not arn.service:
        yield Issue(f"the resource `{text}` has no service", item)
    elif arn.service == "iam" and is_literal(arn.region) and arn.region:
        yield Issue(f"the resource `{text}`: IAM resources have no region", item)
    elif arn.service == "s3" and is_literal(arn.region) and arn.region and not arn.account:
        yield Issue(f"the resource `{text}`: the ARN of a bucket has no region", item)
    elif arn.service == "iam" and is_literal(arn.resource) and not arn.resource.startswith(_IAM_PATHS):
        yield Issue(f"the resource `{text}`: IAM has no resource `{arn.resource}`", item)
    elif kind is PolicyKind.BUCKET and is_literal(arn.service) and arn.service not in _BUCKET_SERVICES:
        yield Issue(f"the resource `{text}` is neither a bucket nor in one", item)


def _may_be_resource(text: str, kind: PolicyKind) -> bool:
    """Not a full ARN, but accepted: with variables or wildcards, or as the short form of an API."""
    short = kind is PolicyKind.RESOURCE and text.startswith("execute-api:/")
    return short or "${" in text or (text.startswith("arn:") and has_wildcard(text))


def _display(node: Node) -> str:
    return str(node.content) if isinstance(node.content, str | int | float | bool) else "not text"


# Principals: the forms that AWS accepts, by kind of policy.


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
    for key, names in value.fields.pairs:
        if key.content not in TYPES:
            yield Issue(f"`{key.content}` is not a principal type", key, f"Valid: {', '.join(TYPES)}.")
            continue
        if key.content == "CanonicalUser" and kind in (PolicyKind.TRUST, PolicyKind.KEY):
            yield Issue(f"`CanonicalUser` is not allowed in {kind}: only bucket policies support it", key)
        yield from _named(str(key.content), names, name)


def _named(type_: str, names: Node, name: str) -> Iterator[Issue]:
    if isinstance(names.content, Unknown):
        return
    if is_list(names) and not names.items:
        yield Issue(f"`{name}.{type_}` names no principal", names)
    for item in names.items:
        if isinstance(item.content, Unknown):
            continue
        if not isinstance(item.content, str):
            yield Issue(f"`{name}.{type_}` must be a string or a list of strings", item)
        elif (
            item.text is not None
            and "${" not in item.text
            and (wrong := _wrong(type_, item.text)) is not None
        ):
            yield Issue(wrong, item, is_note=_REMOVED.search(item.text) is not None)


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


_REMOVED: Final = pattern(
    r"(?i)(?:^|::)[<\[{]?(?:x{3,}|(?:(?:aws|my|your)[-_]?)*account(?:[-_]?(?:id|number))?)[>\]}]?(?::|$)"
)
"""Somebody removed the account before publishing the code."""


def _wrong_aws(text: str) -> str | None:
    if text == "*" or ACCOUNT.fullmatch(text) or _UNIQUE_ID.fullmatch(text):
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
    valid = "the ARN of an `oidc-provider/` or a `saml-provider/`, or a provider's domain"
    return None if fine else f"`{text}` is not an identity provider: write {valid}"


_PROVIDERS: Final = ("oidc-provider/", "saml-provider/")
