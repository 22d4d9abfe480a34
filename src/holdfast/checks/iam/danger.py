"""Actions that lead to more privileges or to secrets, and whether an unknown part may contain one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from holdfast.checks.iam.arns import parse_arn
from holdfast.checks.iam.document import HOLE, Fields, Node, flatten
from holdfast.checks.iam.github import ASSUMES
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import Statement, covers
from holdfast.hcl.reader import COMPUTED, Unknown

_TABLES: Final = msgspec.json.decode(
    Path(__file__).with_name("dangerous_actions.json").read_bytes(), type=dict[str, dict[str, str]]
)
ESCALATING: Final = _TABLES["escalating"]
REVEALING: Final = _TABLES["revealing"]
"""Actions with their consequences, the most dangerous first."""

_OF: Final[Mapping[str, str]] = {
    "lambda": "function",
    "kms": "key",
    "s3": "",
    "secretsmanager": "secret",
    "ssm": "parameter",
}
_OF_IAM: Final = ("Role", "User", "Group", "Policy")


def most_dangerous_action(
    pattern: str, table: Mapping[str, str], resource: str = "*"
) -> tuple[str, str] | None:
    """The most dangerous action that a pattern covers on this resource, and its consequence."""
    return next(
        (
            (action, why)
            for action, why in table.items()
            if covers(pattern, action) and covers_all_resources(resource, action)
        ),
        None,
    )


def covers_all_resources(resource: str, action: str) -> bool:
    """Whether it covers every resource of an action: `*`, or `arn:aws:iam::111122223333:role/*`."""
    if not resource.strip("*"):
        return True
    arn = parse_arn(resource)
    if arn is None or not arn.resource.endswith("*") or HOLE in arn.resource:
        return False
    service = action.partition(":")[0]
    kind = _kind(action)
    named = covers(arn.service, "iam" if service == "sts" else service)
    return named and arn.resource.rstrip("*?") in ("", kind, f"{kind}/", f"{kind}:")


def _kind(action: str) -> str:
    """The prefix of the ARNs of an action's resources."""
    service, _, name = action.partition(":")
    if service == "sts":
        return "role"
    if service != "iam":
        return _OF.get(service, service)
    if name in ("CreateAccessKey", "CreateLoginProfile", "UpdateLoginProfile"):
        return "user"
    if name == "AddUserToGroup":
        return "group"
    return next(kind.lower() for kind in _OF_IAM if kind in name)


# Whether an unknown part of a document may contain what a rule looks for. Such a document is only partly
# checked. An unknown part of an ARN does not count, nor does an attribute of a resource: the ARN of a role is
# never `*`. A variable may be anything.


def has_relevant_unknowns(document: Node, kind: PolicyKind, statements: tuple[Statement, ...]) -> bool:
    fields = document.fields
    listed = fields.get("Statement")
    if listed is None or fields.more:
        return fields.more
    if any(_is_unknown(item) for item in flatten(listed)):
        return True
    of_principals = kind.names_principals is not False
    return not kind.bounds and any(
        _statement(statement, of_principals=of_principals) for statement in statements
    )


def _is_unknown(node: Node) -> bool:
    return isinstance(node.content, Unknown)


def _statement(statement: Statement, *, of_principals: bool) -> bool:
    fields = statement.node.fields
    effect = fields.get("Effect")
    if fields.more or (effect is not None and any(_is_unknown(way) for way in flatten(effect))):
        return True
    if not statement.allows:
        return False
    if any(_may_be_any_action(item) for name in ("Action", "NotAction") for item in _items(fields, name)):
        return True
    principals = tuple(_items(fields, "Principal")) if of_principals else ()
    return any(_may_be_anyone(principal) for principal in principals) or _depends_on_unknown(statement)


def _items(fields: Fields, name: str) -> tuple[Node, ...]:
    value = fields.get(name)
    return tuple(flatten(value)) if value is not None else ()


def _may_be_any_action(item: Node) -> bool:
    return _is_unknown(item) or (isinstance(item.content, str) and item.content.startswith(HOLE))


def _may_be_anyone(principal: Node) -> bool:
    if _is_unknown(principal):
        return principal.content is not COMPUTED
    pairs = principal.fields.pairs
    named = (item for type_, names in pairs if type_.content != "Federated" for item in flatten(names))
    return principal.fields.more or any(_is_unknown(item) and item.content is not COMPUTED for item in named)


def _depends_on_unknown(statement: Statement) -> bool:
    """Whether an unknown condition, resource or provider decides if it is a finding."""
    dangerous = any(
        most_dangerous_action(word, table)
        for word in statement.actions.words
        for table in (ESCALATING, REVEALING)
    )
    if dangerous and not statement.principals:
        hidden = (item for item in _items(statement.node.fields, "Resource") if _is_unknown(item))
        on_hidden = any(item.content is not COMPUTED for item in hidden)
        return on_hidden or (statement.any_resource is not None and statement.conditions.unsure)
    web = statement.matching_action(ASSUMES) is not None and not any(
        test.key.endswith(":sub") for test in statement.conditions.tests
    )
    if web and any(
        principal.name == HOLE and principal.type == "Federated" for principal in statement.principals
    ):
        return True
    watched = any(
        principal.name == "*" or principal.type in ("Service", "Federated")
        for principal in statement.principals
    )
    return watched and statement.conditions.unsure
