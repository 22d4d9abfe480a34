from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.conditions import is_narrow
from holdfast.checks.iam.danger import ESCALATING, REVEALING, most_dangerous_action
from holdfast.checks.iam.document import Issue, Node, display_text
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import ConditionTest, Statement
from holdfast.checks.model.interface import Rule, Severity
from holdfast.kernel.text import plural

_NO_BOUND: Final = ("aws:securetransport", "aws:requestedregion")
_ALWAYS_THERE: Final = ("iam:passedtoservice",)


def _check(policy: IamPolicy) -> Iterator[Issue]:
    if policy.kind not in (PolicyKind.IDENTITY, PolicyKind.UNCLEAR):
        return
    for statement in policy.allowing:
        if not _is_bounded(statement):
            yield from _issues(statement, is_note=policy.is_administrative)


def _is_bounded(statement: Statement) -> bool:
    """A condition may restrict the statement, and a principal makes it a resource policy."""
    conditions = statement.conditions
    named = bool(statement.principals) or statement.not_principal is not None
    return (
        conditions.unsure
        or named
        or statement.node.fields.has("Principal")
        or any(map(_is_bound, conditions.tests))
    )


def _is_bound(test: ConditionTest) -> bool:
    if test.key in _NO_BOUND or (test.holds_without and test.key not in _ALWAYS_THERE):
        return False
    return (
        test.negative
        or test.base_operator == "Null"
        or is_narrow(test.key, test.base_operator, test.values.words)
    )


def _issues(statement: Statement, *, is_note: bool) -> Iterator[Issue]:
    """One for each table: a statement that allows one such action often allows several."""
    reported: set[str] = set()
    for table in (ESCALATING, REVEALING):
        dangers = {
            pattern: (action, resource, danger)
            for action in statement.actions.known
            if (pattern := str(action.content)) not in ("*", "*:*", *reported)
            for resource in reversed(statement.resources.all)
            if (danger := most_dangerous_action(pattern, table, str(resource.content))) is not None
        }
        reported.update(dangers)
        if dangers:
            more, first = len(dangers) - 1, next(iter(dangers.values()))
            yield _issue(*first, more=more, is_note=is_note or table is REVEALING)


def _issue(action: Node, resource: Node, danger: tuple[str, str], *, more: int, is_note: bool) -> Issue:
    pattern, (name, why) = str(action.content), danger
    what = f"`{pattern}`" if pattern.lower() == name.lower() else f"`{pattern}` ({name})"
    whole = not str(resource.content).strip("*")
    where = "every resource" if whole else f"`{display_text(resource.content)}`"
    others = f"; so {'are' if more > 1 else 'is'} {plural(more, 'other dangerous action')}" if more else ""
    return Issue(f"{what} is allowed on {where}: {why}{others}", action, is_note=is_note)


RULE = Rule(
    id="HF505",
    title="Dangerous action on every resource",
    fix="Restrict `Resource` to the roles, keys or secrets that are needed, or add a condition.",
    **policy_rule(_check, Severity.WARNING),
)
