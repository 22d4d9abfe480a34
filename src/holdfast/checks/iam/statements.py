"""The known content of statements, in the form in which rules ask what a policy allows. Pure.

Parts with unknown content are left out, and `unsure` is set: a rule that misses something must check whether
it may be in an unknown part. Of `Alternatives` all options are listed: one that is dangerous is enough.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator

from msgspec import Struct

from holdfast.checks.iam.conditions import OPERATORS, base_operator, is_narrow
from holdfast.checks.iam.document import HOLE, Alternatives, Fields, Node, flatten
from holdfast.hcl.reader import Unknown


class TextValues(Struct, frozen=True):
    """The strings of one key."""

    known: tuple[Node, ...] = ()
    partly: tuple[Node, ...] = ()
    """Strings with unknown parts."""
    unsure: bool = False
    """Something in it is unknown."""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(str(item.content) for item in self.known)

    @property
    def all(self) -> tuple[Node, ...]:
        return (*self.known, *self.partly)


class ConditionTest(Struct, frozen=True):
    """One key of a condition and its values."""

    operator: str
    """As in the source."""
    key: str
    """In lower case, because AWS ignores case. It may have unknown parts."""
    values: TextValues
    at: Node

    @property
    def base_operator(self) -> str:
        return base_operator(self.operator)

    @property
    def demands(self) -> bool:
        """Whether the request must have this key, with one of these values."""
        positive = not self.negative and self.base_operator in OPERATORS and self.base_operator != "Null"
        return positive and not self.holds_without

    @property
    def negative(self) -> bool:
        return "Not" in self.base_operator

    @property
    def holds_without(self) -> bool:
        """Whether it is also true for a request without this key."""
        return self.operator.startswith("ForAllValues:") or self.operator.endswith("IfExists")

    @property
    def patterns(self) -> bool:
        """Whether `*` and `?` in the values are wildcards."""
        return self.base_operator in ("StringLike", "ArnLike", "ArnEquals")


class Conditions(Struct, frozen=True):
    tests: tuple[ConditionTest, ...] = ()
    unsure: bool = False

    def restricts(self, *keys: str) -> bool:
        """Whether a test on one of these keys restricts the statement; unknown counts as yes."""
        if self.unsure:
            return True
        tests = (test for test in self.tests if is_one_of(test.key, keys) or HOLE in test.key)
        return any(
            test.demands and is_narrow(test.key, test.base_operator, test.values.words) for test in tests
        )


def is_one_of(key: str, keys: Iterable[str]) -> bool:
    """Whether a condition key is one of these; `*` matches any suffix."""
    return any(key == pattern or (pattern[-1] == "*" and key.startswith(pattern[:-1])) for pattern in keys)


class PrincipalName(Struct, frozen=True):
    """A principal; `*` has no type."""

    type: str
    name: str
    """With unknown parts; only `HOLE` if it is unknown."""
    at: Node


class Statement(Struct, frozen=True):
    node: Node
    allows: bool
    """False if the effect is unknown."""
    actions: TextValues
    resources: TextValues
    principals: tuple[PrincipalName, ...]
    conditions: Conditions
    not_action: Node | None = None
    not_resource: Node | None = None
    not_principal: Node | None = None
    sure: bool = True
    """False if the statement may be absent or another one."""

    @property
    def at(self) -> Node:
        """The place of a finding about the whole statement."""
        effect = self.node.fields.get("Effect")
        return effect if effect is not None and effect.line else self.node

    def matching_action(self, action: str) -> Node | None:
        """The known action of the statement that covers this one."""
        return next((item for item in self.actions.known if covers(str(item.content), action)), None)

    @property
    def any_resource(self) -> Node | None:
        return next((item for item in self.resources.known if not str(item.content).strip("*")), None)

    @property
    def allows_everyone(self) -> bool:
        return any(principal.name == "*" and principal.type in ("", "AWS") for principal in self.principals)


def covers(pattern: str, action: str) -> bool:
    """Whether an action pattern of a policy covers an action. Case is ignored."""
    wanted = pattern.lower().replace("[", "[[]")
    return pattern == "*" or fnmatch.fnmatchcase(action.lower(), wanted)


def statements(document: Node) -> tuple[Statement, ...]:
    """The known statements, with every alternative; unknown ones are left out."""
    listed = document.fields.get("Statement")
    items = listed.items if listed is not None else ()
    return tuple(
        statement
        for item in items
        for way in flatten(item)
        if isinstance(way.content, Fields)
        for statement in _statement(way, sure=way is item)
    )


def _statement(node: Node, *, sure: bool) -> Iterator[Statement]:
    """One, or one for each alternative of its conditions."""
    fields = node.fields
    effect = fields.get("Effect")
    condition = fields.get("Condition")
    either = condition.content if condition is not None else None
    for option in either.options if isinstance(either, Alternatives) and either.options else (condition,):
        yield Statement(
            node=node,
            allows=effect is not None and any(way.content == "Allow" for way in flatten(effect)),
            actions=_texts(fields.get("Action")),
            resources=_texts(fields.get("Resource")),
            principals=tuple(_principals(fields.get("Principal"))),
            conditions=_conditions(option, more=fields.more),
            not_action=_first_option(fields.get("NotAction")),
            not_resource=_first_option(fields.get("NotResource")),
            not_principal=_first_option(fields.get("NotPrincipal")),
            sure=sure and option is condition,
        )


def _first_option(value: Node | None) -> Node | None:
    """The value, or one that it may have."""
    if value is None or not isinstance(value.content, Alternatives):
        return value if value is not None and value.exists else None
    return next((way for way in value.content.options if way.exists and way.content is not None), None)


def _texts(value: Node | None) -> TextValues:
    if value is None:
        return TextValues()
    whole = not isinstance(value.content, Alternatives) and not any(
        isinstance(item.content, Alternatives) for item in value.items
    )
    texts = _classify_texts(flatten(value))
    return texts if whole else TextValues(texts.known, texts.partly, unsure=True)


def _classify_texts(items: Iterable[Node]) -> TextValues:
    known: list[Node] = []
    partly: list[Node] = []
    unsure = False
    for item in items:
        if isinstance(item.content, Unknown):
            unsure = True
        elif isinstance(item.content, str) and not item.known:
            partly.append(item)
            unsure = True
        elif isinstance(item.content, str):
            known.append(item)
        elif isinstance(item.content, bool | int | float):
            known.append(Node(str(item.content).lower(), item.line, item.column))
    return TextValues(tuple(known), tuple(partly), unsure)


def _principals(value: Node | None) -> Iterator[PrincipalName]:
    for way in flatten(value) if value is not None else ():
        if way.content == "*":
            yield PrincipalName("", "*", way)
        for key, named in way.fields.pairs:
            for item in flatten(named):
                if isinstance(item.content, str | Unknown):
                    name = item.content if isinstance(item.content, str) else HOLE
                    yield PrincipalName(str(key.content), name, item)


def _conditions(value: Node | None, *, more: bool) -> Conditions:
    if value is None or value.content is None:
        return Conditions(unsure=more and value is None)
    unsure = isinstance(value.content, Unknown) or value.fields.more
    conditions: list[ConditionTest] = []
    for operator, tests in value.fields.pairs:
        fields = tests.fields
        unsure = unsure or isinstance(tests.content, Unknown) or (fields.more and not fields.partly)
        for key, values in (*fields.pairs, *fields.partly):
            conditions.append(
                ConditionTest(str(operator.content), str(key.content).lower(), _texts(values), key)
            )
    return Conditions(tuple(conditions), unsure)
