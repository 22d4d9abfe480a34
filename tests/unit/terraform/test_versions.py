from __future__ import annotations

import pytest

from holdfast.kernel.errors import UsageError
from holdfast.terraform.versions import Constraint, Version

ASCENDING = [
    "0.11.14",
    "1.0.0-alpha.1",
    "1.0.0-alpha.2",
    "1.0.0-alpha.11",
    "1.0.0-alpha.beta",
    "1.0.0-alpha20210101",
    "1.0.0-beta1",
    "1.0.0-rc1",
    "1.0.0",
    "1.0.1",
    "1.9.0",
    "1.10.0-rc2",
    "1.10.0",
    "1.10.0.1",
    "2.0",
]


def test_versions_are_ordered_as_semantic_versioning_orders_them() -> None:
    """A pre-release comes before its release, and numbers are compared as numbers."""
    ordered = sorted(Version.parse(text) for text in reversed(ASCENDING))
    assert ordered == [Version.parse(text) for text in ASCENDING]
    assert len(set(ordered)) == len(ASCENDING)


@pytest.mark.parametrize(("one", "other"), [("1.5", "1.5.0"), ("v1.5.0", "1.5"), ("1.5.0+ent", "1.5.0+oss")])
def test_versions_that_differ_only_in_writing_are_equal(one: str, other: str) -> None:
    """`1.5` is `1.5.0`, a leading v means nothing, and metadata is not compared."""
    assert Version.parse(one) == Version.parse(other)
    assert hash(Version.parse(one)) == hash(Version.parse(other))


def test_a_version_is_written_back_in_full() -> None:
    """A version that was read can be shown and read again."""
    assert str(Version.parse(" v1.16.0-rc1+build.5 ")) == "1.16.0-rc1+build.5"


@pytest.mark.parametrize(
    "text", ["", "latest", "1.", "1.2.x", "-1", "1.2.3 4", "1.2.3-", "1" * 50, "\u0661.5"]
)
def test_what_is_not_a_version_is_refused_with_a_hint(text: str) -> None:
    """A bad version is a mistake of the user with a code and a hint, not a crash."""
    with pytest.raises(UsageError) as caught:
        Version.parse(text)
    assert caught.value.problem.code == "HF-ENG-21"
    assert caught.value.problem.hint


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused"),
    [
        ("1.5.0", ["1.5", "1.5.0"], ["1.5.1", "1.5.0-rc1"]),
        ("= 1.5.0-rc1", ["1.5.0-rc1"], ["1.5.0"]),
        ("!= 1.5.1", ["1.5.0", "1.5.2"], ["1.5.1"]),
        ("> 1.5", ["1.5.1", "2.0"], ["1.5.0", "1.4.9"]),
        (">= 1.9, < 2.0", ["1.9.0", "1.15.5"], ["1.8.9", "2.0.0", "3.1"]),
        ("<= 1.5.0", ["1.5.0", "0.1"], ["1.5.1"]),
        ("~> 1.5", ["1.5.0", "1.99.0"], ["1.4.9", "2.0.0"]),
        ("~> 1.5.0", ["1.5.0", "1.5.99"], ["1.6.0", "1.4.0"]),
        ("~> 1.5.3", ["1.5.3", "1.5.4"], ["1.5.2", "1.6.0"]),
        ("~> 1", ["1.0", "2.5"], ["0.9"]),
        (">=1.5,!=1.6.0", ["1.5.0", "1.6.1"], ["1.6.0"]),
        (">= 1.5", [], ["1.6.0-alpha1"]),
        (">= 1.6.0-alpha1", ["1.6.0-beta1", "1.6.0", "1.7.0"], ["1.7.0-alpha1"]),
        ("~> 1.6.0-beta1", ["1.6.0-beta2"], ["1.6.0-alpha1", "1.6.0"]),
        ("< 2.0.0", [], ["2.0.0-rc1"]),
    ],
)
def test_constraints_decide_as_terraform_does(
    constraint: str, allowed: list[str], refused: list[str]
) -> None:
    """An engine that Terraform would refuse is not chosen, and one that it would take is."""
    parsed = Constraint.parse(constraint)
    assert [text for text in allowed if not parsed.allows(Version.parse(text))] == []
    assert [text for text in refused if parsed.allows(Version.parse(text))] == []


@pytest.mark.parametrize("text", ["", ">=", ">= 1.5,", "=> 1.5", "1.5 || 1.6", "^1.5", ">= 1.5 < 2", "~> x"])
def test_what_is_not_a_constraint_is_refused_with_a_hint(text: str) -> None:
    """A bad constraint names itself, the part that is wrong, and how to write one."""
    with pytest.raises(UsageError) as caught:
        Constraint.parse(text)
    assert caught.value.problem.code == "HF-ENG-22"
    assert caught.value.problem.hint
