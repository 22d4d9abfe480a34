"""What is printed of errors, and of text that other programs wrote."""

from __future__ import annotations

import pytest

from holdfast.cli.console import Console
from holdfast.kernel.errors import Exit, Place, Problem
from holdfast.kernel.text import without_controls


@pytest.mark.parametrize(("count", "more"), [(20, None), (21, "… and 1 more"), (37, "… and 17 more")])
def test_at_most_twenty_errors_are_printed(
    capsys: pytest.CaptureFixture[str], count: int, more: str | None
) -> None:
    problems = tuple(
        Problem(code="HF-CONF-4", message=f"mistake {number}", place=Place("holdfast.yaml", number))
        for number in range(1, count + 1)
    )
    Console().problems(problems, Exit.USAGE)
    shown = capsys.readouterr().err
    assert shown.count("HF-CONF-4") == 20
    assert f"{count} mistakes; nothing was run. exit 64" in shown
    assert (more in shown) if more is not None else ("more" not in shown)


def test_one_error_of_many_stacks_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    problems = (
        *(Problem(code="HF-ENG-1", message=f"dev/{name}: needs 1.9.5", hint="Add it") for name in "abcde"),
        Problem(code="HF-ENG-1", message="dev/f: needs 1.8.0", hint="Add it"),
        Problem(code="HF-ENG-1", message="no colon", hint="Add it"),
        Problem(code="HF-ENG-1", message="not a stack: needs 1.9.5", hint="Add it"),
    )
    Console().problems(problems, Exit.USAGE)
    lines = [line for line in capsys.readouterr().err.splitlines() if "HF-ENG-1" in line]
    assert [line.partition("HF-ENG-1  ")[2] for line in lines] == [
        "dev/a, dev/b, dev/c and 2 more: needs 1.9.5",
        "dev/f: needs 1.8.0",
        "no colon",
        "not a stack: needs 1.9.5",
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb\x08\x7f\x9b1A", "ab1A"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("cut \x1b[3", "cut "),
        ("✗ ü 漢", "✗ ü 漢"),
    ],
)
def test_text_of_other_programs_cannot_control_a_terminal(text: str, plain: str) -> None:
    cleaned = without_controls(text)
    assert not {"\x1b", "\r", "\x08", "\x9b"} & set(cleaned)
    assert cleaned == plain or text.startswith("cut")
