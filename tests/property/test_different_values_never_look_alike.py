"""Of two different values no screen and no comment shows the same text; every changed path is in `--full`."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from plan_documents import change, plan

from holdfast.changes.plan_lines import diff_lines
from holdfast.cli.console import Console
from holdfast.cli.views.plan_diff import FULL, SCREENFUL, Detail, show_plan
from holdfast.system.markup import fenced
from holdfast.terraform.addresses import path_text
from holdfast.terraform.plan.diff import EVERYTHING, Difference, Limits, differences
from holdfast.terraform.plan.model import Plan

ODD = st.sampled_from(
    [
        *"aA1 \t\n\r\"\\`'…→{}[]",
        "\u200b",
        "\u00a0",
        "\u202e",
        "\u3164",
        "\u0301",
        "é",
        "e",
        "\u0430",
        "\ufe0f",
        "\x1b[1m",
    ]
)
texts = st.lists(ODD, max_size=12).map("".join)
long_texts = st.tuples(texts, st.integers(0, 300), texts, st.integers(0, 300)).map(
    lambda drawn: drawn[0] + "x" * drawn[1] + drawn[2] + "\n" * (drawn[3] % 3) + "y" * drawn[3]
)
leaves = texts | long_texts | st.none() | st.booleans() | st.integers(-1, 2)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "a b", "ключ"]), inner, max_size=3)
    ),
    max_leaves=8,
)
documents = values | values.map(json.dumps)


def updated(before: Any, after: Any, **masks: Any) -> Plan:
    document = change("x.y", "update", after={"attribute": after})
    document["change"] |= {"before": {"attribute": before}, **masks}
    return plan([document])


def keep(_: str, text: str) -> str:
    return text


def screen(of: Plan, detail: Detail) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        show_plan(Console(color=False), of, detail, more="MORE")
    return shown.getvalue()


def comment(of: Plan) -> str:
    lines, _ = diff_lines(of, str, keep, 1_000_000)
    return fenced(list(lines), "diff")


def sides_of(found: Difference) -> list[tuple[str, str]]:
    """What is shown for before and after, side by side."""
    if found.parts:
        return [pair for part in found.parts for pair in sides_of(part)]
    if found.lines:
        blocks = itertools.groupby(found.lines, key=lambda line: line.sign in "+-")
        changed = [list(block) for is_changed, block in blocks if is_changed]
        assert changed
        return [
            (
                "\n".join(line.text for line in block if line.sign == "-"),
                "\n".join(line.text for line in block if line.sign == "+"),
            )
            for block in changed
            if {line.sign for line in block} == {"-", "+"}
        ]
    return [(f"{found.before}", f"{found.after}")]


@settings(max_examples=200, deadline=None)
@given(documents, documents, st.sampled_from([EVERYTHING, Limits(width=20), Limits(width=5)]))
@example("x" * 500, "x" * 501, Limits(width=20))
@example("a\n(newline at the end)", "a\n", EVERYTHING)
@example({"a": None}, {}, EVERYTHING)
@example('{"a":1}', '{"a": 1}', EVERYTHING)
def test_two_different_values_have_two_texts(before: Any, after: Any, limits: Limits) -> None:
    """Equal values show nothing. Of different ones each shown part has two texts."""
    compared = differences(updated(before, after).changes[0], clean=keep, limits=limits)
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        assert compared.shown == ()
        return
    assert compared.shown
    for found in compared.shown:
        for old, new in sides_of(found):
            assert old != new
            assert (old + new).replace("\n", "").isprintable()


@settings(max_examples=80, deadline=None)
@given(texts | long_texts, texts | long_texts)
def test_a_screen_and_a_comment_show_the_difference_of_two_texts(before: str, after: str) -> None:
    """The same after the console and Markdown removed what they do not print."""
    of = updated(before, after)
    for shown in (screen(of, SCREENFUL), screen(of, FULL)):
        lines = [
            line.strip() for line in shown.splitlines() if "attribute" in line or line.startswith(" " * 11)
        ]
        assert bool(lines) == (before != after)
        for line in lines:
            if (
                pair := re.fullmatch(r"~ attribute(?: \([^)]*\))?   (\S.*) → (\S.*)", line)
            ) and "→" not in before + after:
                assert pair[1] != pair[2]
        removed, added = ({line[2:] for line in lines if line.startswith(sign)} for sign in ("- ", "+ "))
        assert not (removed and added and removed == added)
    removed, added = (
        {line[1:] for line in comment(of).splitlines() if line.startswith(sign)} for sign in ("-", "+")
    )
    assert before == after or removed != added


MARK = "hunter2hunter"


@settings(max_examples=80, deadline=None)
@given(values, values, st.sampled_from(["before", "after", "both"]))
def test_no_masked_value_is_in_any_rendering(before: Any, after: Any, where: str) -> None:
    """Not on a screen, in full or not, and not in a comment, whatever is around it."""
    masks = {
        f"{side}_sensitive": {"attribute": {"secret": True}}
        for side in ("before", "after")
        if where in (side, "both")
    }
    of = updated({"secret": f"{MARK}1", "open": before}, {"secret": [f"{MARK}2"], "open": after}, **masks)
    for shown in (screen(of, SCREENFUL), screen(of, FULL), comment(of)):
        assert MARK not in shown
        assert "(sensitive, changed)" in shown


trees = st.recursive(
    st.integers(0, 3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    ),
    max_leaves=20,
)


def known_paths(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    parts = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if parts is None:
        return {path: value}
    return {inner: leaf for step, part in parts for inner, leaf in known_paths(part, (*path, step)).items()}


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from("pqr"), trees, min_size=1), st.sampled_from(["create", "delete"]))
def test_every_path_is_in_the_full_diff(value: dict[str, Any], action: str) -> None:
    """Of something new, of something deleted, and of each changed key."""
    document = change("x.y", action, after=value if action == "create" else None)
    document["change"]["before"] = value if action == "delete" else None
    shown = screen(plan([document]), FULL)
    for path, leaf in known_paths(value).items():
        assert re.search(rf"[+-] {re.escape(path_text(path))}\s+{leaf}$", shown, re.MULTILINE)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.text("abc", min_size=1), st.integers(0, 3)),
    st.dictionaries(st.text("abc", min_size=1), st.integers(0, 3)),
)
def test_every_changed_key_is_in_the_full_diff(before: dict[str, int], after: dict[str, int]) -> None:
    """Of a map, and of the same as JSON."""
    for old, new, prefix in ((before, after, "attribute."), (json.dumps(before), json.dumps(after), "")):
        shown = screen(updated(old, new), FULL)
        for key in before.keys() | after.keys():
            changed = before.get(key) != after.get(key)
            assert bool(re.search(rf"[+~-] {prefix}{key} ", shown)) == changed
