"""Conftest's conventions, and what is an error here though Conftest takes it for a success."""

from __future__ import annotations

import pytest

from holdfast.checks.tools.rego.interface import ResultKind, results_from_package


def said(value: object, rules: dict[str, bool] | None = None) -> list[tuple[str, ResultKind, str]]:
    found = results_from_package("main", value, rules if rules is not None else {"deny": True})
    return [(one.rule, one.kind, one.message) for one in found]


def test_messages_are_failures_and_warnings_by_the_name_of_their_rule() -> None:
    """`deny` and `violation` fail, `warn` warns; other rules say nothing."""
    value = {"deny": ["a"], "violation_x": [{"msg": "b"}], "warn_y": ["c"], "denying": ["no"]}
    assert said(value) == [
        ("deny", ResultKind.FAILURE, "a"),
        ("violation_x", ResultKind.FAILURE, "b"),
        ("warn_y", ResultKind.WARNING, "c"),
    ]


def test_metadata_is_everything_beside_the_message() -> None:
    """Everything but `msg`."""
    (one,) = results_from_package("main", {"deny": [{"msg": "a", "team": "core"}]}, {"deny": True})
    assert one.metadata == {"team": "core"}


@pytest.mark.parametrize(
    ("names", "rule", "spared"),
    [
        (["public"], "deny_public", True),
        (["public"], "violation_public", True),
        (["public"], "warn_public", True),
        (["public"], "deny_other", False),
        ([""], "deny", True),
        (["deny"], "deny", False),
        (["x"], "deny_warn_x", True),
    ],
)
def test_an_exception_spares_the_rules_it_names(names: list[str], rule: str, spared: bool) -> None:  # noqa: FBT001
    """By what follows the underscore; a bare name is the empty text."""
    found = said({rule: ["m"], "exception": [names]}, {rule: True})
    assert [kind is ResultKind.EXCEPTION for _, kind, _ in found] == [spared]


@pytest.mark.parametrize(
    "value", [[{"text": "no msg"}], [1], {"v0 message": True}, 3], ids=["object", "number", "v0", "not a set"]
)
def test_a_result_of_an_unexpected_shape_is_an_error(value: object) -> None:
    """An unexpected shape is not taken for nothing found, and no exception spares it."""
    assert [kind for _, kind, _ in said({"deny": value, "exception": [[""]]})] == [ResultKind.ERROR]


def test_a_set_that_is_not_there_is_an_error() -> None:
    """A set is always defined: without it the evaluator passed over the rule."""
    assert said({}) == [("deny", ResultKind.ERROR, "the rule has no value")]
    assert said({}, {"deny": False}) == []
    assert [kind for _, kind, _ in said(None)] == [ResultKind.ERROR]


@pytest.mark.parametrize(("value", "count"), [(True, 1), ("text", 1), (False, 0), ("", 0), (None, 0)])
def test_a_rule_that_is_no_set_counts_if_it_holds(value: object, count: int) -> None:
    """`deny if …` is a failure where it holds."""
    assert len(said({"deny": value}, {"deny": False})) == count
