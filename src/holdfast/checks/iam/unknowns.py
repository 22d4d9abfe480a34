"""Whether an unknown part of a document may contain what a rule looks for. Pure.

Such a document is only partly checked. An unknown part of an ARN does not count, nor does an attribute of a
resource: the ARN of a role is never `*`. A variable may be anything.
"""

from __future__ import annotations

from holdfast.checks.iam.danger import ESCALATING, REVEALING, most_dangerous_action
from holdfast.checks.iam.document import HOLE, Fields, Node, flatten
from holdfast.checks.iam.github import ASSUMES
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import Statement
from holdfast.hcl.reader import COMPUTED, Unknown


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
    return any(_may_be_anyone(principal) for principal in principals) or _decided_elsewhere(statement)


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


def _decided_elsewhere(statement: Statement) -> bool:
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
