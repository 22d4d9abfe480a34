from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.secrets.redact import Redactor
from holdfast.terraform.plan.diff import (
    EVERYTHING,
    Difference,
    Differences,
    Limits,
    differences,
    value_differences,
)
from holdfast.terraform.plan.model import Plan, read_plan
from holdfast.terraform.plan.values import sensitive_values

PLANS = Path(__file__).parents[1] / "plans"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def plan_of(change: dict[str, Any], **more: Any) -> Plan:
    resource = {"address": "x.y", "mode": "managed", "change": {"actions": ["update"], **change}}
    return read_plan(json.dumps({"format_version": "1.2", "resource_changes": [resource], **more}).encode())


def keep(_: str, text: str) -> str:
    return text


def shown(change: dict[str, Any], limits: Limits = EVERYTHING) -> Differences:
    return differences(plan_of(change).changes[0], clean=keep, limits=limits)


def between(before: Any, after: Any, limits: Limits = EVERYTHING) -> Difference:
    """The difference of one attribute."""
    (found,) = shown({"before": {"a": before}, "after": {"a": after}}, limits).shown
    return found


def pairs(change: dict[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    return {found.path: (found.before, found.after) for found in shown(change).shown}


def text_of(found: Difference) -> list[str]:
    """Signs and texts, without layout."""
    parts = [f"{part.sign} {part.path} {part.before} → {part.after}" for part in found.parts]
    return [*parts, *(f"{line.sign}{line.text}" for line in found.lines)]


@pytest.mark.parametrize("engine", ENGINES)
def test_recorded_differences_are_shown_and_secrets_are_not(engine: str) -> None:
    """A real update shows what changes, with the password masked, even where Terraform forgot the mark."""
    plan = read_plan((PLANS / f"{engine}-changes.json").read_bytes())
    redactor = Redactor(sensitive_values(plan))
    (updated,) = [change for change in plan.changes if change.name == "updated"]
    found = {each.path: each for each in differences(updated, clean=redactor.clean_field).shown}
    assert (found["input.a"].before, found["input.a"].after) == ("1", "2")
    assert (found["input.b[1]"].before, found["input.b[1]"].after) == ('"y"', '"z"')
    assert (found["input.b[2]"].before, found["input.b[2]"].after) == (None, '"w"')
    assert found["input.password"] == Difference(
        path="input.password", before="(sensitive)", after="(sensitive, changed)", sensitive=True
    )
    assert found["output"].after == "(known after apply)"
    assert "secret-value" not in repr(found)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_forces_a_replacement_comes_first(engine: str) -> None:
    """The reader of a replacement sees its cause before anything else."""
    plan = read_plan((PLANS / f"{engine}-changes.json").read_bytes())
    (replaced,) = [change for change in plan.changes if change.name == "replaced"]
    first, *rest = differences(replaced, clean=keep).shown
    assert (first.path, first.before, first.after, first.notes) == (
        "triggers_replace",
        '"one"',
        '"two"',
        ("forces replacement",),
    )
    assert not any(each.forces_replacement for each in rest)


@pytest.mark.parametrize(
    ("before", "after", "shortened"),
    [
        ("a" * 200, "b" * 200, True),
        ("a" * 200 + "x", "a" * 200 + "y", True),
        ("a…", "…b", False),
        (1, 2, False),
        ("a\n" * 3 + "x" * 200, "a\n" * 3 + "y" * 200, True),
    ],
)
def test_a_shortened_value_is_known_as_such(before: Any, after: Any, *, shortened: bool) -> None:
    """Whoever shows it can count it. In full, nothing is shortened."""
    assert between(before, after, Limits(width=40)).shortened is shortened
    assert not between(before, after).shortened


def test_equal_parts_are_left_out() -> None:
    """Only what differs is shown."""
    assert pairs({"before": {"a": 1, "b": [1, 2]}, "after": {"a": 1, "b": [1, 3]}}) == {"b[1]": ("2", "3")}


def test_unknown_values_are_shown_as_known_after_apply() -> None:
    """An unknown value is not shown as a removal."""
    change = {
        "before": {"id": "a", "l": [1]},
        "after": {"l": [1]},
        "after_unknown": {"id": True, "l": [False, True]},
    }
    assert pairs(change) == {"id": ('"a"', "(known after apply)"), "l[1]": (None, "(known after apply)")}


def test_a_new_resource_shows_its_attributes_and_what_is_unknown_last() -> None:
    """Nulls are left out: they are not set."""
    change: dict[str, Any] = {
        "before": None,
        "after": {
            "id": None,
            "name": "n",
            "none": None,
            "p": "x",
            "tags": {},
            "rule": [{"port": 1, "x": None}],
        },
        "after_unknown": {"id": True},
        "after_sensitive": {"p": True},
    }
    found = shown(change).shown
    assert [(each.sign, each.path, each.after) for each in found] == [
        ("+", "name", '"n"'),
        ("+", "p", "(sensitive)"),
        ("+", "rule[0].port", "1"),
        ("+", "id", "(known after apply)"),
        ("+", "tags", "{}"),
    ]


@pytest.mark.parametrize(
    ("before_mask", "after_mask"),
    [
        (True, False),
        (False, True),
        ({"p": True}, {}),
        ({}, {"p": True}),
        ({"p": {"deep": [True]}}, {}),
        ({}, {"p": [False, True]}),
        ({}, [True]),
        ([False, {"x": True}], {}),
    ],
)
def test_a_mask_on_either_side_hides_both(before_mask: Any, after_mask: Any) -> None:
    """A value that was or becomes sensitive is shown on neither side, whatever shape the mask has."""
    change = {
        "before": {"p": {"deep": ["hunter2"]}},
        "after": {"p": ["hunter3", "hunter4"]},
        "before_sensitive": before_mask,
        "after_sensitive": after_mask,
    }
    found = shown(change)
    assert found.shown
    assert "hunter" not in repr(found)
    assert all(each.sensitive for each in found.shown)


def test_a_list_that_outgrows_its_mask_is_hidden() -> None:
    """Where a mask has no place for an element, the element counts as secret."""
    change = {"before": {"l": []}, "after": {"l": ["hunter1", "hunter2"]}, "after_sensitive": {"l": [True]}}
    assert "hunter" not in repr(shown(change))


def test_a_change_of_sensitivity_alone_is_shown() -> None:
    """Terraform plans an update for it."""
    (found,) = shown(
        {"before": {"p": 1, "q": 2}, "after": {"p": 1, "q": 2}, "after_sensitive": {"p": True}}
    ).shown
    assert (found.path, found.before, found.after, found.form) == (
        "p",
        "(sensitive)",
        "(sensitive)",
        "value unchanged",
    )


def test_what_only_differs_in_redacted_text_is_shown_as_changed() -> None:
    """Two secrets look the same when they are masked: that they differ is said."""
    (change,) = plan_of({"before": {"a": "hunter2"}, "after": {"a": "hunter3"}}).changes
    (found,) = differences(change, clean=Redactor(["hunter2", "hunter3"]).clean_field).shown
    assert (found.before, found.after) == ('"***"', "(sensitive, changed)")


def policy(*actions: str, effect: str = "Allow") -> str:
    statement = {"Sid": "one", "Effect": effect, "Action": actions}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement, {"Sid": "two"}]})


def test_a_json_document_is_compared_by_path() -> None:
    """Not as two long lines that look the same."""
    found = between(policy("s3:List", "s3:GetObject"), policy("s3:List", "s3:*"))
    assert (found.form, text_of(found)) == ("JSON", ['~ Statement[0].Action[1] "s3:GetObject" → "s3:*"'])


def test_an_element_put_first_is_the_only_difference() -> None:
    """What follows it did not change."""
    inserted = between(policy("s3:List", "s3:Get"), policy("s3:Delete", "s3:List", "s3:Get"))
    assert text_of(inserted) == ['+ Statement[0].Action[0] None → "s3:Delete"']
    before, after = [{"n": 1, "x": "q"}, {"n": 2, "x": "r"}], [{"n": 2, "x": "changed"}]
    found = shown({"before": {"l": before}, "after": {"l": after}}).shown
    assert [(each.sign, each.path, each.before, each.after) for each in found] == [
        ("-", "l[0].n", "1", None),
        ("-", "l[0].x", '"q"', None),
        ("~", "l[0].x", '"r"', '"changed"'),
    ]


def test_json_that_is_only_written_differently_says_so() -> None:
    """The content is the same, and the change is still visible."""
    found = between('{"a": 1}', '{"a":1}')
    assert found.form == "JSON, only its formatting differs"
    assert (found.before, found.after) == (r'"{\"a\": 1}"', r'"{\"a\":1}"')


def test_a_text_is_compared_by_line() -> None:
    """With the number of the line, and what is around it."""
    script = "\n".join(f"line {number}" for number in range(1, 42))
    found = between(script, script.replace("line 38", "shutdown"))
    assert found.form == "text, 41 lines"
    assert text_of(found) == [
        "@line 36",
        " line 36",
        " line 37",
        "-line 38",
        "+shutdown",
        " line 39",
        " line 40",
    ]
    several = between(script, "first\n" + script.replace("line 38", "shutdown"))
    assert [line.text for line in several.lines if line.sign == "@"] == ["line 1", "line 37"]
    assert several.form == "text, 41 → 42 lines"


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\nb", "a\nb\n", ["+(newline at the end)"]),
        ("a\nb", "a\nb ", ["@line 1", " a", "-b", "+b\\u0020"]),
        ("a\n\tb", "a\n\\tb", ["@line 1", ' "a"', '-"\\tb"', '+"\\\\tb"']),
        ("a\nb\u200b", "a\nb", ["@line 1", " a", "-b\\u200b", "+b"]),
        ("a\r\nb", "a\nb", ["@line 1", "-a\\r", "+a", " b"]),
    ],
)
def test_lines_that_look_alike_are_told_apart(before: str, after: str, lines: list[str]) -> None:
    """Blanks at the end, a newline at the end, invisible characters."""
    assert text_of(between(before, after)) == lines


def test_a_long_value_is_shown_around_its_first_difference() -> None:
    """Both halves differ, and the size is said."""
    found = between("x" * 500 + "A" + "y" * 500, "x" * 500 + "B" + "y" * 500, Limits(width=30))
    assert (found.before, found.after) == (
        "…" + "x" * 10 + "A" + "y" * 19 + "…",
        "…" + "x" * 10 + "B" + "y" * 19 + "…",
    )
    assert found.form == "1001 characters"
    assert between("x" * 500, "x" * 501, Limits(width=30)).form == "500 → 501 characters"
    assert between("x" * 500, "x" * 501).after == '"' + "x" * 501 + '"'


def test_long_values_are_cut_after_cleaning() -> None:
    """Half a secret at the end of a cut text is still a secret."""
    change = {"before": {"a": None}, "after": {"a": "x" * 70 + "hunter2-very-secret"}}
    (change_,) = plan_of(change).changes
    (found,) = differences(change_, clean=Redactor(["hunter2-very-secret"]).clean_field).shown
    assert found.after == '"' + "x" * 70 + '***"'


def test_the_number_of_differences_is_bounded() -> None:
    """A thousand changed attributes do not fill the screen, and their number is shown."""
    change = {"before": None, "after": {f"a{number}": number for number in range(1000)}}
    found = shown(change, Limits(attributes=5))
    assert len(found.shown) == 5
    assert found.hidden == 995
    lines = between(None, "\n".join(map(str, range(100))), Limits(lines=7))
    assert (len(lines.lines), lines.hidden) == (7, 93)
    paths = between(None, json.dumps(list(range(100))), Limits(lines=7))
    assert (len(paths.parts), paths.hidden) == (7, 93)


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        (None, "", (None, '""')),
        ("1", 1, ('"1"', "1")),
        (True, 1, ("true", "1")),
        ("a", "A", ('"a"', '"A"')),
        ("a", "a ", ('"a"', '"a "')),
        ("a", "a\n", ('"a"', r'"a\n"')),
        (1.10, 12345678901234567890123, ("1.1", "12345678901234567890123")),
        ("\x1b[31mred", "a\u202eb", (r'"\u001b[31mred"', r'"a\u202eb"')),
        ("(known after apply)", "(sensitive)", ('"(known after apply)"', '"(sensitive)"')),
        ("caf\u00e9", "cafe\u0301", (r'"caf\u00e9"', r'"cafe\u0301"')),
        ("admin", "\u0430dmin", ('"admin"', r'"\u0430dmin"')),
        ("a\u00a0b", "a b", (r'"a\u00a0b"', '"a b"')),
        ("M\u00fcnchen", "K\u00f6ln", ('"M\u00fcnchen"', '"K\u00f6ln"')),
        ({}, [], ("{}", "[]")),
        ([1], "[1]", ("[1]", '"[1]"')),
    ],
)
def test_values_are_written_so_that_they_cannot_mislead(before: Any, after: Any, texts: Any) -> None:
    """Strings are quoted; what is invisible, or looks like another letter, is an escape."""
    found = between(before, after)
    assert (found.before, found.after) == texts


def test_null_in_a_map_differs_from_nothing() -> None:
    """`{"a": null}` and `{}` are two values."""
    assert pairs({"before": {"m": {}}, "after": {"m": {"a": None}}}) == {"m.a": (None, "null")}


def test_what_changed_outside_terraform_is_marked() -> None:
    """The attributes of which the refresh found other values than the state had."""
    drift = {
        "address": "x.y",
        "change": {
            "actions": ["update"],
            "before": {"tags": {"o": "a"}, "n": 1},
            "after": {"tags": {"o": "b"}, "n": 1},
        },
    }
    plan = plan_of(
        {"before": {"tags": {"o": "b"}, "n": 1}, "after": {"tags": {"o": "a"}, "n": 2}},
        resource_drift=[drift],
    )
    found = differences(plan.changes[0], clean=keep, drift=plan.drift[0]).shown
    assert [(each.path, each.notes) for each in found] == [
        ("tags.o", ("changed outside Terraform",)),
        ("n", ()),
    ]


def test_outputs_are_compared_like_attributes() -> None:
    """Old and new value, by path; a sensitive one is masked."""
    plan = plan_of(
        {},
        output_changes={
            "o": {"actions": ["update"], "before": {"a": 1, "b": 2}, "after": {"a": 1, "b": 3}},
            "s": {
                "actions": ["update"],
                "before": "x",
                "after": "y",
                "before_sensitive": True,
                "after_sensitive": True,
            },
        },
    )
    found = {
        each.path: (each.before, each.after)
        for output in plan.outputs
        for each in value_differences(output.name, output.change, clean=keep, limits=EVERYTHING).shown
    }
    assert found == {"o.b": ("2", "3"), "s": ("(sensitive)", "(sensitive, changed)")}


def test_large_values_take_linear_time() -> None:
    """Texts and lists of a hundred thousand elements, none of which fits another or all of which do."""
    lines = [f"line {number % 7}" for number in range(100_000)]
    before, after = "\n".join(lines), "\n".join(reversed(lines[1:]))
    began = time.process_time()
    between(before, after, Limits())
    shown({"before": {"l": lines}, "after": {"l": [*lines[::-1], "x"]}}, Limits())
    between("x" * 5_000_000, "x" * 5_000_000 + "y", Limits())
    assert time.process_time() - began < 5
