"""Whose plan it is decides who may approve it, where that is verified."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdfast.audit.actor import GITHUB_ACTIONS, PERSON, Actor
from holdfast.kernel.errors import Refused
from holdfast.runs.approval import require_not_own


def who(name: str, *, verified: bool) -> Actor:
    return Actor(
        kind=GITHUB_ACTIONS, name=name, host="runner", verified=verified, because="a token", claims={}
    )


def test_a_proved_author_cannot_approve() -> None:
    """The same person, verified both times, is refused."""
    with pytest.raises(Refused) as caught:
        require_not_own(who("ada", verified=True), "db", who("ada", verified=True).document())
    assert caught.value.problem.code == "HF-APPR-3"


def test_one_of_the_same_name_and_another_kind_can() -> None:
    """A job that is called like a person is somebody else."""
    person = structs.replace(who("ada", verified=True), kind=PERSON)
    assert require_not_own(person, "db", who("ada", verified=True).document()) == ()


def test_another_proved_person_can() -> None:
    """And there is nothing to add."""
    assert require_not_own(who("bob", verified=True), "db", who("ada", verified=True).document()) == ()


@pytest.mark.parametrize(("me", "author"), [(False, True), (True, False), (False, False)])
def test_what_is_not_proved_is_said(*, me: bool, author: bool) -> None:
    """The rule cannot hold there, and nobody is left to think that it does."""
    (note,) = require_not_own(who("ada", verified=me), "db", who("ada", verified=author).document())
    assert "cannot check for self-approval" in note
