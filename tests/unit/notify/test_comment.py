"""Which comment is ours, and what becomes of it."""

from __future__ import annotations

from holdfast.notify.comment import CommentPlan, marker, plan_comment
from holdfast.notify.hosts.interface import Comment

US = "github-actions[bot]"


def comment(id_: int, age: tuple[int, int] = (1, 1), *, name: str = "plan", author: str = US) -> Comment:
    return Comment(id=id_, author=author, body=f"## old\n\n{marker(name, age)}")


def asked(*comments: Comment, age: tuple[int, int] = (5, 1)) -> CommentPlan:
    return plan_comment(comments, author=US, name="plan", age=age)


def test_without_one_a_new_one_is_written() -> None:
    """Nothing of ours is there."""
    assert asked(Comment(id=1, author=US, body="hello")) == CommentPlan()


def test_the_one_that_is_there_is_rewritten() -> None:
    """One comment, in place."""
    assert asked(Comment(id=1, author="ann", body="hi"), comment(2)) == CommentPlan(update=2)


def test_of_several_the_oldest_stays() -> None:
    """People have linked to it; the others must not go on saying what is no longer so."""
    assert asked(comment(9), comment(4), comment(7)) == CommentPlan(update=4, retire=(7, 9))


def test_a_marker_of_another_author_is_not_ours() -> None:
    """Anyone can paste a marker into a comment, and would have it edited or believed."""
    assert asked(comment(1, author="mallory"), comment(2, author="github-actions")) == CommentPlan()


def test_another_report_is_left_alone() -> None:
    """Two jobs, two comments."""
    assert asked(comment(1, name="other")) == CommentPlan()


def test_a_marker_counts_only_at_the_end() -> None:
    """Our own comment of another report may quote a plan that holds a marker."""
    quoting = Comment(id=1, author=US, body=f"`{marker('plan', (1, 1))}`\n\n{marker('other', (1, 1))}")
    assert asked(quoting) == CommentPlan()
    assert asked(Comment(id=1, author=US, body=marker("plan", (1, 1)) + "\r\n ")) == CommentPlan(update=1)


def test_an_older_run_does_not_speak_over_a_newer_one() -> None:
    """A slow job of an earlier push comes last: its report is not the truth any more."""
    assert asked(comment(1, (6, 1))) == CommentPlan(newer=True)
    assert asked(comment(1, (5, 2))) == CommentPlan(newer=True)
    assert asked(comment(1, (5, 1))) == CommentPlan(update=1)


def test_a_name_cannot_end_the_marker() -> None:
    """Names of workflows are free text."""
    assert marker("--> <img src=x>", (1, 2)).count("-->") == 1
