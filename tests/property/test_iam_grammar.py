"""Whatever policy is written: the reader and the grammar never break, a hole never makes a finding, and what
moto's own validator refuses is refused here.

Where moto's validator is wrong, or does not look, and is therefore not followed:

- it wants a Version of 2012-10-17; the grammar has 2008-10-17 too, and no Version at all;
- it refuses `arn:aws:iam::ACCOUNT:*` as a resource, though its own message says that `*` may stand there;
- it knows trust policies only with `Action`, and only with whole names of actions (`sts:*` is refused);
- it refuses a number as the value of a condition;
- it accepts: a key that stands twice, any character and size, a top key `Conditions`, any text as a Sid, a
  principal in an identity policy and none in a trust policy, any form of principal, any name of an action,
  null in a list, an unknown operator without keys, and values that do not fit their operator (but for dates).
"""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from moto.iam.exceptions import MalformedPolicyDocument
from moto.iam.policy_validation import IAMPolicyDocumentValidator, IAMTrustPolicyDocumentValidator
from msgspec import structs

from holdfast.checks.iam.document import (
    Alternatives,
    Fields,
    Malformed,
    Node,
    is_list,
    node_from_value,
    read_document,
)
from holdfast.checks.iam.grammar import grammar_issues
from holdfast.checks.iam.policy_types import PolicyKind as Kind
from holdfast.checks.iam.policy_types import guess_use, looks_like_policy
from holdfast.checks.iam.statements import statements
from holdfast.hcl.reader import UNKNOWN

MISSING = object()
ONLY_OURS = (
    *("may only contain letters and digits", "`Id` is not allowed", "is not allowed in an identity policy"),
    *("needs `Principal`", "is not an action name", "there is no condition operator"),
)
"""What is said here and not by moto."""


def field(*values: object) -> st.SearchStrategy[object]:
    return st.sampled_from(values)


def one_or_list(*values: object) -> st.SearchStrategy[object]:
    return st.one_of(field(*values), st.lists(field(*values), max_size=2))


ACTIONS = ("*", "s3:GetObject", "s3:Get*", "GetObject", "s3:Get:Object", "s 3:Get", "s3:Get Object", 7)
RESOURCES = (
    *("*", "arn:aws:s3:::a/*", "bucket", "arn:awz:s3:::a", "arn:aws:s3:eu-west-1::a", "arn:aws-cn:s3:::a"),
    *("arn:aws:iam::111122223333:role/a", "arn:aws:iam::111122223333:rolle/a", "arn:aws:iam:x:1:role/a"),
)
CONDITIONS: tuple[object, ...] = (
    {},
    {"StringEquals": {"a:b": "c"}},
    {"ForAnyValue:StringLikeIfExists": {"a:b": ["c", "d"]}},
    {"StringIs": {"a:b": "c"}},
    {"StringEquals": "a"},
    {"DateLessThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"}},
    {"DateLessThan": {"aws:CurrentTime": "soon"}},
    {"Bool": {"a:b": True}},
    [],
)


def whole(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not MISSING}


IDENTITY = st.fixed_dictionaries(
    {
        "Sid": field(MISSING, MISSING, "a", "b", "a b", 1),
        "Effect": field("Allow", "Deny", "Allow", "allow", MISSING, 1),
        "Action": st.one_of(field(MISSING), one_or_list(*ACTIONS[:3]), one_or_list(*ACTIONS)),
        "NotAction": field(MISSING, MISSING, MISSING, "iam:*"),
        "Resource": st.one_of(field(MISSING), one_or_list(*RESOURCES[:2]), one_or_list(*RESOURCES)),
        "NotResource": field(MISSING, MISSING, MISSING, "*"),
        "Principal": field(MISSING, MISSING, MISSING, "*"),
        "Condition": field(MISSING, MISSING, *CONDITIONS),
        "Comment": field(MISSING, MISSING, MISSING, MISSING, "a"),
    }
).map(whole)
TRUST = st.fixed_dictionaries(
    {
        "Sid": field(MISSING, MISSING, "a", "a b"),
        "Effect": field("Allow", "Deny", "allow", MISSING),
        "Principal": field({"AWS": "111122223333"}, {"Service": "ec2.amazonaws.com"}, MISSING),
        "Action": one_or_list("sts:AssumeRole", "sts:TagSession", "s3:GetObject", "*"),
        "Resource": field(MISSING, MISSING, MISSING, "*"),
        "Condition": field(MISSING, MISSING, *CONDITIONS),
    }
).map(whole)


def documents(statement: st.SearchStrategy[dict[str, object]]) -> st.SearchStrategy[str]:
    listed = st.one_of(statement, st.lists(statement, max_size=3))
    tops = {"Version": field("2012-10-17", "2012-10-17", "2012-10-18"), "Id": field(MISSING, MISSING, "a", 1)}
    return st.fixed_dictionaries({**tops, "Statement": listed}).map(whole).map(json.dumps)


def read(text: str) -> Node:
    found = read_document(text)
    assert not isinstance(found, Malformed)
    return found


def refused_by_moto(text: str, kind: Kind) -> bool:
    made = IAMPolicyDocumentValidator if kind is Kind.IDENTITY else IAMTrustPolicyDocumentValidator
    try:
        made(text).validate()
    except (MalformedPolicyDocument, AttributeError):  # a number among actions breaks it
        return True
    return False


def compare(text: str, kind: Kind) -> None:
    said = [one.message for one in grammar_issues(read(text), kind, text)]
    refused = refused_by_moto(text, kind)
    if refused:
        assert said, text
    else:
        assert all(any(words in one for words in ONLY_OURS) for one in said), said


@settings(max_examples=150, deadline=None)
@given(documents(IDENTITY))
def test_identity_policies_are_rejected_as_by_moto(text: str) -> None:
    """What AWS's imitation refuses is refused; what is said beyond that is on the list above."""
    compare(text, Kind.IDENTITY)


@settings(max_examples=100, deadline=None)
@given(documents(TRUST))
def test_trust_policies_are_rejected_as_by_moto(text: str) -> None:
    """The same for trust policies."""
    compare(text, Kind.TRUST)


def holes(node: Node, at: int) -> tuple[Node, int]:
    """The document with its value number `at` gone, counted from the top down; keys stay."""
    if at == 0:
        return Node(UNKNOWN, node.line, node.column), -1
    at -= 1
    if isinstance(node.content, Fields):
        pairs = []
        for key, value in node.content.pairs:
            made, at = holes(value, at) if at >= 0 else (value, at)
            pairs.append((key, made))
        return node._replace(content=Fields(pairs=tuple(pairs))), at
    if is_list(node):
        items = []
        for item in node.items:
            made, at = holes(item, at) if at >= 0 else (item, at)
            items.append(made)
        return node._replace(content=tuple(items)), at
    return node, at


@settings(max_examples=150, deadline=None)
@given(st.one_of(documents(IDENTITY), documents(TRUST)), st.integers(0, 30), st.sampled_from(Kind))
def test_a_hole_never_makes_a_finding(text: str, at: int, kind: Kind) -> None:
    """What is not known can only silence what was said of it."""
    whole_one = read(text)
    partly, _ = holes(whole_one, at)
    before = {one.message for one in grammar_issues(whole_one, kind, "")}
    assert {one.message for one in grammar_issues(partly, kind, "")} <= before
    statements(partly)


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["*", "Allow"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["Version", "Statement", "Effect", "Action", "Principal", "Condition", "AWS", "x"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(ANYTHING, st.sampled_from(Kind))
def test_nothing_breaks_the_grammar(value: object, kind: Kind) -> None:
    """Any JSON at all is judged, guessed at and taken apart."""
    document = read(json.dumps({"Statement": value}))
    assert list(grammar_issues(document, kind, "")) is not None
    statements(document)
    looks_like_policy(document)
    guess_use("a", document)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='{}[]",:\\ \n\ue000a1"', max_size=40))
def test_nothing_breaks_the_reader(text: str) -> None:
    """Text that is no JSON is malformed, with a line."""
    found = read_document(text)
    assert found.line >= 1


@given(IDENTITY, IDENTITY)
@settings(deadline=None, max_examples=100)
def test_a_way_among_others_hides_nothing(one: dict[str, object], other: dict[str, object]) -> None:
    """What is wrong with a statement, and what it allows, is found where it is only one side of a choice."""
    first, second = node_from_value(one), node_from_value(other)
    alone = Node(Fields(((Node("Statement"), Node((first,))),)))
    among = Node(Fields(((Node("Statement"), Node((Node(Alternatives(second, first)),))),)))
    said = {item.message for item in grammar_issues(alone, Kind.IDENTITY, "")}
    assert said <= {item.message for item in grammar_issues(among, Kind.IDENTITY, "")}
    made = [structs.replace(found, sure=True) for found in statements(among)]
    assert all(found in made for found in statements(alone))
