"""On a narrow terminal every word of a line is still there, in order, and a command can be copied."""

from __future__ import annotations

import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.cli.wrapping import columns, wrap

WORDS = st.lists(
    st.text(alphabet="abcXYZ019-_/.:✗~é漢'`()\\", min_size=1, max_size=24), min_size=0, max_size=30
)
MARKS = st.sampled_from(["", " ", "   ✗ ", "     ", "  ~ ", "   ! "])


def shown(line: str, width: int) -> list[str]:
    return ["".join(text for text, _ in row) for row in wrap([(line[:5], "bold"), (line[5:], "")], width)]


@given(mark=MARKS, words=WORDS, width=st.integers(30, 120))
def test_no_word_is_lost_and_no_line_is_too_long(mark: str, words: list[str], width: int) -> None:
    line = mark + " ".join(words)
    lines = shown(line, width)
    assert " ".join(lines).split() == line.split()
    for number, text in enumerate(lines):
        longest = max((columns(word) for word in text.split()), default=0)
        assert columns(text) <= width or columns(text.strip()) == longest or number == 0
    assert all(text.startswith("  ") for text in lines[1:])


@given(
    options=st.lists(st.text(alphabet="abc019-/", min_size=1, max_size=20), min_size=0, max_size=8),
    before=st.integers(0, 60),
    width=st.integers(40, 100),
)
@example(options=["bundle/"], before=50, width=60)
def test_a_command_can_be_copied(options: list[str], before: int, width: int) -> None:
    """In one piece where it fits; otherwise broken as a shell takes it."""
    command = " ".join(["holdfast", "apply", *options, '--reason "why not"'])
    lines = shown(f"   {'w ' * (before // 2)}run: {command}", width)
    text = "\n".join(lines)
    copied = text[text.index("holdfast apply") :]
    # A shell joins such lines; shlex does not.
    assert shlex.split(copied.replace("\\\n", "")) == shlex.split(command)
    if columns(command) <= width - 6:
        assert command in text


def test_a_line_that_fits_is_not_changed() -> None:
    pieces = [("  ✗ ", "red"), ("a   b", "")]
    assert wrap(pieces, 60) == [pieces]
