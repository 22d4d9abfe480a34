"""What statements say, as far as it is known: the form in which rules ask what a policy allows. Pure.

A part with a hole is left out of what is listed here, and `unsure` says so: a rule that finds something
missing must ask whether it may stand in a hole.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.checks.iam.conditions import OPERATORS, bare
from holdfast.checks.iam.document import Fields, Node
from holdfast.hcl.reader import Unknown
from holdfast.kernel.patterns import pattern


class Texts(Struct, frozen=True):
    """The texts of one key that are known."""

    known: tuple[Node, ...] = ()
    partly: tuple[Node, ...] = ()
    """Texts with holes."""
    unsure: bool = False
    """Something in it is not known."""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(str(item.content) for item in self.known)

    @property
    def all(self) -> tuple[Node, ...]:
        return (*self.known, *self.partly)


class Comparison(Struct, frozen=True):
    """One key of a condition with what it is compared with."""

    operator: str
    """As it is written."""
    key: str
    """In small letters: AWS does not tell them apart."""
    values: Texts
    at: Node

    @property
    def bare(self) -> str:
        return bare(self.operator)

    @property
    def demands(self) -> bool:
        """Whether the request must have this key, with one of these values."""
        positive = "Not" not in self.bare and self.bare in OPERATORS and self.bare != "Null"
        return positive and not self.operator.startswith("ForAllValues:") and not self.if_exists

    @property
    def if_exists(self) -> bool:
        return self.operator.endswith("IfExists")

    @property
    def patterns(self) -> bool:
        """Whether `*` and `?` in the values are wildcards."""
        return self.bare in ("StringLike", "ArnLike", "ArnEquals")


class Conditions(Struct, frozen=True):
    tests: tuple[Comparison, ...] = ()
    unsure: bool = False

    def on(self, *keys: str) -> Iterator[Comparison]:
        return (test for test in self.tests if test.key in keys)

    def narrowed(self, *keys: str) -> bool:
        """Whether a test on one of these keys must hold and says something; unsure counts as yes."""
        if self.unsure:
            return True
        found = (test for test in self.tests if any(_is_key(key, test.key) for key in keys))
        return any(test.demands and narrow(test.values) for test in found)


def _is_key(pattern: str, key: str) -> bool:
    return key == pattern or (pattern.endswith("*") and key.startswith(pattern[:-1]))


_EVERYTHING: Final = pattern(r"[*?:/]*|arn:[*?:]*|0\.0\.0\.0/0|::/0", re.IGNORECASE)


def narrow(values: Texts) -> bool:
    """Whether no value matches everything."""
    return not any(_EVERYTHING.fullmatch(word) for word in values.words)


class Who(Struct, frozen=True):
    """A principal: `*` for everybody has no type."""

    type: str
    name: str
    at: Node


class Statement(Struct, frozen=True):
    node: Node
    allows: bool
    """False also where the effect is not known."""
    actions: Texts
    resources: Texts
    principals: tuple[Who, ...]
    conditions: Conditions
    not_action: Node | None = None
    not_resource: Node | None = None
    not_principal: Node | None = None

    @property
    def at(self) -> Node:
        """Where a finding about the statement as a whole stands."""
        effect = self.node.fields.get("Effect")
        return effect if effect is not None and effect.line else self.node

    def acts(self, action: str) -> Node | None:
        """The known text among its actions that covers an action."""
        return next((item for item in self.actions.known if covers(str(item.content), action)), None)

    @property
    def on_everything(self) -> Node | None:
        return next((item for item in self.resources.known if not str(item.content).strip("*")), None)


def covers(pattern: str, action: str) -> bool:
    """Whether an action as a policy writes it stands for this one. Letters' case does not matter."""
    wanted = pattern.lower().replace("[", "[[]")
    return pattern == "*" or fnmatch.fnmatchcase(action.lower(), wanted)


def statements(document: Node) -> tuple[Statement, ...]:
    """Those that can be made out; a statement that is a hole is left out."""
    listed = document.fields.get("Statement")
    items = listed.items if listed is not None else ()
    return tuple(_statement(item) for item in items if isinstance(item.content, Fields))


def _statement(node: Node) -> Statement:
    fields = node.fields
    effect = fields.get("Effect")
    return Statement(
        node=node,
        allows=effect is not None and effect.content == "Allow",
        actions=_texts(fields.get("Action")),
        resources=_texts(fields.get("Resource")),
        principals=tuple(_principals(fields.get("Principal"))),
        conditions=_conditions(fields),
        not_action=_told(fields.get("NotAction")),
        not_resource=_told(fields.get("NotResource")),
        not_principal=_told(fields.get("NotPrincipal")),
    )


def _told(value: Node | None) -> Node | None:
    return value if value is not None and value.told else None


def _texts(value: Node | None) -> Texts:
    if value is None:
        return Texts()
    return _sorted(value.items)


def _sorted(items: Iterable[Node]) -> Texts:
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
    return Texts(tuple(known), tuple(partly), unsure)


def _principals(value: Node | None) -> Iterator[Who]:
    if value is None:
        return
    if value.content == "*":
        yield Who("", "*", value)
    for key, named in value.fields.pairs:
        for item in _texts(named).all:
            yield Who(str(key.content), str(item.content), item)


def _conditions(fields: Fields) -> Conditions:
    value = fields.get("Condition")
    if value is None:
        return Conditions(unsure=fields.more)
    unsure = isinstance(value.content, Unknown) or value.fields.more
    found: list[Comparison] = []
    for operator, tests in value.fields.pairs:
        unsure = unsure or isinstance(tests.content, Unknown) or tests.fields.more
        for key, given in tests.fields.pairs:
            found.append(Comparison(str(operator.content), str(key.content).lower(), _texts(given), key))
    return Conditions(tuple(found), unsure)
