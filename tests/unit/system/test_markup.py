"""Text from elsewhere is shown as it is, and does nothing."""

from __future__ import annotations

import pytest

from holdfast.system.markup import cell, code, fenced, html_code, one_line, prose, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "␛[31mred"),
        ("admin\u202etxt.exe", "admin\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("filler\u3164", "filler\\u3164"),
        ("hard\u00a0space", "hard space"),
        ("lone \ud800", "lone \\ud800"),
        ("del\x7f", "del␡"),
        ("größe 山 🦊", "größe 山 🦊"),
    ],
)
def test_what_does_not_show_is_shown(text: str, shown: str) -> None:
    """No escape code, no change of direction, nothing of no width; ordinary letters of any script stay."""
    assert visible(text) == shown


def test_a_line_is_one_line() -> None:
    """Line ends become spaces, and a long text is cut where it says so."""
    assert one_line("a\r\nb\nc\td") == "a b c d"
    assert one_line("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a", "`a`"),
        ("a`b", "``a`b``"),
        ("``", "` `` `"),
        ("`a` ``b``", "``` `a` ``b`` ```"),
        ("", "`(empty)`"),
        ("`" * 61, f"`{chr(39) * 61}`"),
    ],
)
def test_a_code_span_cannot_be_left(text: str, span: str) -> None:
    """Its fence is a run of backticks that the text does not have, and never a long one."""
    assert code(text) == span


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("deleted: no longer in the configuration", "deleted: no longer in the configuration"),
        (
            'aws_x.main goes because `name` changes ("a-b" → 1,5)',
            '`aws_x.main` goes because `name` changes ("a-b" → 1,5)',
        ),
        ("@everyone #12 GH-1 o/r#3 !4 ~l $s &5", "`@everyone` `#12` `GH-1` `o/r#3` `!4` `~l` `$s` `&5`"),
        ("https://e.example www.e.example a@b.c", "`https://e.example` `www.e.example` `a@b.c`"),
        ("<b> [a](b) **x** _y_ :tada: 3fa9c01b", "`<b>` `[a](b)` `**x**` `_y_` `:tada`: `3fa9c01b`"),
        ("1. # - /close", "1\\. `#` \u2013 `/close`"),
        ("Plan: holdfast plan a --out D, then go.", "Plan: `holdfast plan a --out D`, then go."),
        ("Fetch: git fetch origin x (Actions).", "Fetch: `git fetch origin x` (Actions)."),
        ("`a``b`", "`a` `b`"),
        ("", "(empty)"),
    ],
)
def test_a_sentence_is_text_and_its_names_are_code(text: str, shown: str) -> None:
    """Words are read as words; whatever means something to Markdown or to a code host is code."""
    assert prose(text) == shown


def test_a_cell_has_no_pipe() -> None:
    """It would end a cell of a table, even in code."""
    assert cell('x["a|b"]') == '`x["a│b"]`'


def test_no_line_of_a_block_is_a_quick_action() -> None:
    """GitLab runs `/merge` at the beginning of a line."""
    assert fenced(["/merge", "+ a"], "diff") == "```diff\n /merge\n+ a\n```"


def test_a_tag_cannot_be_left() -> None:
    """Inside a tag, where Markdown is not read, the text is escaped as HTML."""
    assert html_code("</code><img src=x>\n\n# hi") == "<code>&lt;/code&gt;&lt;img src=x&gt;  # hi</code>"


def test_a_fence_is_longer_than_any_in_it() -> None:
    """A line of backticks inside a block does not end it, and a line end inside a line makes no line."""
    assert fenced(["+ a", "  ````", "b\n```"], "diff") == "`````diff\n+ a\n  ````\nb␊```\n`````"
    assert "`" not in fenced(["`" * 300], "diff").split("\n")[1]
