"""The report as Markdown: risk first, one row per stack, within its room."""

from __future__ import annotations

import pytest
from msgspec import structs
from reports_made import DIGEST, checked, failed, losing, plain, ready, refused, report

from holdfast.notify.hosts.github import GITHUB
from holdfast.notify.markdown import Frame, markdown
from holdfast.notify.report import OtherRequest, StackReport, Trouble, Verdict, verdict_of
from holdfast.notify.size_budget import SUMMARY_SIZE, SizeBudget, characters, encoded

COMMENT = GITHUB.budget
GITHUBS_LIMIT = 65_536


def test_the_answer_comes_first_then_danger_then_rows_then_plans() -> None:
    """A person on a phone sees in five lines whether they may merge, and then why not."""
    text = markdown(
        report(ready("dev/q"), refused("prod/db", "aws_db_instance.main"), headline="2 of 9 stacks")
    )
    assert text.splitlines()[:3] == [
        "## ⛔ Do not merge: 1 of 2 stacks is refused",
        "",
        "**1 delete, 1 new** · 2 of 9 stacks",
    ]
    places = [
        text.index(part)
        for part in (
            "### Needs attention",
            "- `aws_db_instance.main` deleted because its key is gone<br>**HF-GUARD-1** deletions in prod",
            f"--override {DIGEST[:12]} --reason",
            "| ⛔ `prod/db` | 1 delete | refused |",
            "| ✅ `dev/q` | 1 new | ready |",
            "<details><summary>⛔ <code>prod/db</code> 1 delete</summary>",
            "```diff\n- aws_db_instance.main  deleted\n```",
            "```diff\n+ thing.of_dev/q  created\n```",
        )
    ]
    assert places == sorted(places)


def test_warnings_and_notes_are_folded_below() -> None:
    """They do not decide whether to merge: the errors are in sight, the rest one touch away, at the end."""
    found = structs.replace(
        checked(ready("a")), warnings=tuple(Trouble(code="HF302", message=f"w{one}") for one in range(60))
    )
    text = markdown(found)
    assert "**Checks:** 2 errors, 5 warnings\n\n- `HF207` `a/main.tf:1` a secret, 1\n" in text
    plans, warnings = text.index("```diff"), text.index("<summary>Checks: 60 warnings and notes</summary>")
    assert text.index("**Checks:**") < plans < warnings < text.index("- `HF302` w0\n")
    assert text.endswith("- and 10 more\n\n</details>\n")
    calm = structs.replace(found, findings=(), checks_summary="60 warnings")
    assert "<summary>Checks: 60 warnings</summary>" in markdown(calm)
    assert verdict_of(calm) is Verdict.READY
    small = markdown(found, SizeBudget(size=3200, measure=characters))
    assert "60 warnings and notes." in small


def test_findings_follow_the_rows() -> None:
    """Errors with their place, the rest in numbers; what finds no room is said to be missing."""
    text = markdown(checked(ready("dev/q")))
    rows, errors = text.index("| ✅ `dev/q`"), text.index("**Checks:** 2 errors, 5 warnings")
    assert rows < errors < text.index("<details>")
    many = markdown(checked(ready("dev/q"), errors=90), SizeBudget(size=4000, measure=characters))
    assert len(many) <= 4000
    shown = many.count("HF207")
    assert 0 < shown < 90
    assert f"**{90 - shown} more action items**" in many


def test_what_several_stacks_share_is_said_once() -> None:
    """One error in a module that twenty stacks use is one item with their names; so is the next step."""
    broken = [
        StackReport(
            name=f"dev/{number}",
            status="failed",
            troubles=(
                Trouble(code="HF-TF-1", message="bad module", hint=f"Run: holdfast plan dev/{number}"),
            ),
        )
        for number in range(20)
    ]
    text = markdown(report(*broken))
    assert text.count("bad module") == 1
    assert "⛔ **20 stacks** failed: `dev/0`, `dev/1`, " in text
    assert " and 10 more\n\n- **HF-TF-1** bad module<br>Run: `holdfast plan STACK`\n" in text
    alone = markdown(report(broken[3]))
    assert "- **HF-TF-1** bad module<br>Run: `holdfast plan dev/3`\n" in alone
    denied = [structs.replace(refused(f"prod/{one}", "x.y"), digest=f"{one}{DIGEST[1:]}") for one in "ab"]
    text = markdown(structs.replace(report(*denied), saved_in="my bundle"))
    assert text.count("- `x.y` deleted because its key is gone") == 1
    command = "holdfast apply --plan 'my bundle' --override DIGEST --reason \"why\""
    listed = f"DIGEST: `prod/a` `a{DIGEST[1:12]}`, `prod/b` `b{DIGEST[1:12]}`"
    assert f"- If this is intentional: `{command}`<br>{listed}\n" in text


def test_a_digest_is_as_short_as_it_can_be() -> None:
    """Twelve characters, or as many as tell it from the others."""
    twins = [structs.replace(refused(name, "x.y"), digest=DIGEST[:20] + name * 44) for name in "ab"]
    assert f"`a` `{DIGEST[:20]}a`, `b` `{DIGEST[:20]}b`" in markdown(report(*twins))


def test_other_pull_requests_are_named() -> None:
    """Two open changes to one stack: the second that is applied would not be what was reviewed."""
    others = (
        OtherRequest(stack="dev/db", reference="#12", who="@ada", when="2 hours ago", open=True),
        OtherRequest(stack="dev/q", reference="#13", who="bob", when="1 day ago", open=False),
    )
    text = markdown(structs.replace(report(ready("dev/db")), elsewhere=others))
    assert "- `dev/db` is also changed in #12 (planned 2 hours ago by `@ada`)\n" in text
    assert "- `dev/q` may be also changed in #13 (planned 1 day ago by `bob`)\n" in text
    assert text.index("#12") < text.index("| ✅ `dev/db`")


def test_notes_of_a_plan_that_is_ready_stand_with_it() -> None:
    """Such as that a mock stands for a value."""
    stack = structs.replace(ready("a"), notes=("mock for `vpc_id`",))
    assert "</summary>\n\n- mock for `vpc_id`\n\n```diff" in markdown(report(stack))


def test_what_is_lost_without_a_refusal_is_named_too() -> None:
    """A delete that is allowed is still something to look at before merging."""
    text = markdown(report(losing("dev/db", "x.y")))
    assert "⚠️ **`dev/db`** ready · 1 delete\n\n- `x.y` deleted because its key is gone" in text


def test_a_failure_says_what_where_and_how_to_go_on() -> None:
    """Code, place, message and hint, as everywhere."""
    text = markdown(report(failed("a", "no such\nthing", file="a/main.tf", line=3)))
    assert "- **HF-TF-1** `a/main.tf:3` no such thing<br>Mend it." in text


def test_a_removed_stack_says_what_it_leaves() -> None:
    """What its state still holds, and the notes."""
    text = markdown(report(StackReport(name="a", status="removed", remains=("x.y",), notes=("look",))))
    assert "- still in the state: `x.y`\n- look" in text


def test_an_approval_names_the_command() -> None:
    """The next thing to type is there to be copied."""
    stack = StackReport(name="a", status="waiting", decision="approval", run="01RUN", digest=DIGEST)
    assert '`holdfast runs approve 01RUN --reason "why"`' in markdown(report(stack))


def test_several_approvals_are_one_command() -> None:
    """A bundle is approved as a whole."""
    stacks = [
        StackReport(name=name, status="waiting", decision="approval", run=f"01{name}", digest=name * 64)
        for name in "ab"
    ]
    text = markdown(structs.replace(report(*stacks), saved_in="bundle"))
    assert text.count('To approve: `holdfast runs approve --bundle bundle --reason "why"`\n') == 1


def test_quiet_stacks_share_a_row() -> None:
    """Two hundred stacks in which nothing changes are one line; a few are shown by name."""
    many = markdown(report(ready("a"), *(plain(f"s{number}", "unchanged") for number in range(200))))
    assert "| ✅ 200 stacks | | no changes |" in many
    assert "s17" not in many
    assert "| ✅ `s1` |  | no changes |" in markdown(report(plain("s1", "unchanged")))


def big(number: int, lines: int) -> StackReport:
    diff = tuple(f"- aws_thing.some_name[{line}]  deleted because its key is gone" for line in range(lines))
    return StackReport(
        name=f"accounts/acme-{number:03}/service/name",
        status="planned",
        environment="dev",
        counts={"update": 3, "create": 14},
        diff=diff,
    )


@pytest.mark.parametrize("lines", [2, 40, 4000])
def test_two_hundred_stacks_fit_a_comment_with_a_row_each(lines: int) -> None:
    """All rows and all danger are there; plans fill what is left; what is missing is said, and where."""
    dangerous = [refused(f"prod/{number}", f"aws_db_instance.d{number}") for number in range(20)]
    around = Frame(where="commit `x`", in_full="[job summary](https://x)", end="<!-- end -->")
    text = markdown(report(*(big(number, lines) for number in range(180)), *dangerous), COMMENT, around)
    assert characters(text) <= GITHUBS_LIMIT
    assert text.count("\n| ") == 200 + 1
    assert all(f"`aws_db_instance.d{number}`" in text for number in range(20))
    assert text.rstrip().endswith("<!-- end -->")
    assert text.count("<details>") == text.count("</details>") > 5
    if lines > 2:
        assert "Omitted to save space: all or part of the plan of " in text
        assert "Full report: [job summary](https://x)." in text
        assert characters(text) > 0.9 * COMMENT.size if COMMENT.size else False


def test_more_danger_than_room_is_counted_and_leaves_room_for_rows() -> None:
    """A thousand deletes do not crowd out the stacks, and nothing is dropped without a word."""
    text = markdown(
        report(
            *(
                refused(f"prod/{number:03}", *(f"x{number}.y{one}" for one in range(50)))
                for number in range(300)
            )
        ),
        COMMENT,
        Frame(in_full="the job summary"),
    )
    assert characters(text) <= GITHUBS_LIMIT
    assert text.count("| ⛔ ") > 200
    assert "more action items**" in text
    assert "Full report: the job summary." in text


def test_a_text_as_long_as_a_comment_is_cut() -> None:
    """One error of a megabyte leaves room for everything else, its own end is marked."""
    text = markdown(report(failed("a", "x" * 1_000_000), ready("b")), COMMENT)
    assert characters(text) < 5000
    assert "x…" in text
    assert "| ✅ `b` |" in text


def test_letters_that_count_double_are_counted_double() -> None:
    """GitHub may count UTF-16 units; a plan full of emoji fits all the same."""
    stack = StackReport(name="a", status="planned", counts={}, diff=("+ " + "🦊" * 1000,) * 200)
    text = markdown(report(stack), COMMENT)
    assert len(text.encode("utf-16-le")) // 2 <= GITHUBS_LIMIT
    assert len(text.encode()) <= 4 * GITHUBS_LIMIT
    assert "🦊" in text


def test_the_summary_takes_what_a_comment_cannot() -> None:
    """A mebibyte, counted in bytes."""
    text = markdown(
        report(*(big(number, 400) for number in range(180))), SizeBudget(size=SUMMARY_SIZE, measure=encoded)
    )
    assert 900_000 < len(text.encode()) <= 1024 * 1024


@pytest.mark.parametrize("size", [3000, 4000, 9000, 20_000])
def test_a_small_room_is_kept_too(size: int) -> None:
    """Whatever the room, it is not exceeded, and the verdict is there."""
    stacks = [refused(f"prod/{number}", *(f"x.y{one}" for one in range(20))) for number in range(40)]
    text = markdown(report(*stacks), SizeBudget(size=size, measure=characters), Frame(end="<!-- end -->"))
    assert characters(text) <= size
    assert text.startswith("## ⛔ Do not merge")
    assert text.endswith("<!-- end -->\n")


def test_without_a_limit_nothing_is_left_out() -> None:
    """`--format markdown` shows all of it."""
    text = markdown(report(*(big(number, 400) for number in range(30))))
    assert "Left out" not in text
    assert text.count("deleted because its key is gone") == 30 * 400


def test_a_plan_that_was_cut_before_says_so() -> None:
    """What is not in the report cannot be shown, and is named as missing."""
    stack = StackReport(name="huge", status="planned", diff=("+ a",), diff_cut=True)
    assert "all or part of the plan of `huge`" in markdown(report(stack))
