"""Policies as regopy is given them: iteration in steps, order by functions, no name without a value."""

from __future__ import annotations

import re

import pytest

from holdfast.checks.tools.rego.policies import PolicyFile
from holdfast.checks.tools.rego.rewrite import lift_iterations, rewrite_comparisons
from holdfast.checks.tools.rego.syntax import name_problems, parse


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ('deny if startswith(a[i].n, "x")', 'deny if { @1 := a[i].n; startswith(@1, "x") }'),
        ("deny if f(a[i]) # said", "deny if { @1 := a[i]; f(@1) } # said"),
        ("deny if { f(a[_]); g(b) }", "deny if { @1 := a[_]; f(@1); g(b) }"),
        ("deny if {\n\tx := f(a[i]) # a[j]\n}", "deny if {\n\t@1 := a[i]; x := f(@1) # a[j]\n}"),
        (
            'x if { m := sprintf("%s", [a[i].n, b]) }',
            'x if { @1 := a[i].n; m := sprintf("%s", [@1, b]) }',
        ),
        ("x if { a[i].n == b[j] }", "x if { @1 := a[i].n; @2 := b[j]; @1 == @2 }"),
        ("x if { some y in a[_].b; f(y) }", "x if { @1 := a[_].b; some y in @1; f(y) }"),
        ("x if { 1 in a[_].p }", "x if { @1 := a[_].p; 1 in @1 }"),
        ("x if { c[a[i]] }", "x if { @1 := a[i]; @2 := c[@1]; @2 }"),
        ("x if { f(a)[_] == 1 }", "x if { @1 := f(a)[_]; @1 == 1 }"),
        ("x if { [p, v] := walk(a) }", "x if { @1 := walk(a)[_]; [p, v] := @1 }"),
        ("s := {f(a[i]) | b[i]}", "s := {f(@1) | b[i]; @1 := a[i]}"),
        ("s := [x | x := a[_]; g(b[x])]", "s := [x | x := a[_]; @1 := b[x]; g(@1)]"),
        ("x if { every r in a { f(r[_]) } }", "x if { every r in a { @1 := r[_]; f(@1) } }"),
        (
            "f(x) if g(x[i]) else := 2 if h(x[_])",
            "f(x) if { @1 := x[i]; g(@1) } else := 2 if { @2 := x[_]; h(@2) }",
        ),
        ("x if deny with input as made", "x if { @1 := made; deny with input as @1 }"),
        ("x if f(a[i]) with input as {}", 'x if { to_number("with") == 0; f(a[i]) with input as {} }'),
    ],
)
def test_an_iteration_becomes_a_step_of_its_own(text: str, steps: str) -> None:
    """Before the statement; in a comprehension's head, after its body."""
    found = lift_iterations(f"{text}\n").replace("holdfast_at_", "@").strip()
    assert re.sub(r" +", " ", found) == steps


@pytest.mark.parametrize(
    "text",
    [
        "deny contains msg if { msg := a[_] }",
        "deny if a[i]",
        'deny if { f(b.c["k"], [1, 2]) }',
        "deny if { not f(a[i]) }",
        'x := "f(a[i])" # f(a[i])',
        'x := {"a": 1, "b": [2]}',
        "x if deny with input as {1: 2}",
    ],
)
def test_everything_else_stays_as_it_is(text: str) -> None:
    """Steps already, constants, strings and comments; what is denied has no steps."""
    assert lift_iterations(f"{text}\n") == f"{text}\n"


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("deny if a.b[_].c >= 10 # a < b", "deny if data.p.at_least_(a.b[_].c, 10) # a < b"),
        ('not x["a<b"] < -3', 'not data.p.less_(x["a<b"], -3)'),
        ("[y | some y in l; y > 1]", "[y | some y in l; data.p.greater_(y, 1)]"),
        ("f(a, b > c) <= g(d)[0].e", "data.p.at_most_(f(a, data.p.greater_(b, c)), g(d)[0].e)"),
        ("null < x", "data.p.less_(null, x)"),
        ("count({a | a > 2}) > n", "data.p.greater_(count({a | data.p.greater_(a, 2)}), n)"),
        ("a < count({b | b > 3})", "data.p.less_(a, count({b | data.p.greater_(b, 3)}))"),
        ("a + 1 > 2", "a + 1 > 2"),
        ("data.p.count_(x) > 2", "data.p.count_(x) > 2"),
        ("x := `a > b`\ny >= ", "x := `a > b`\ny >= "),
    ],
)
def test_order_is_a_function(text: str, call: str) -> None:
    """Where both sides are single values; of sums everybody knows that they are numbers."""
    assert rewrite_comparisons(text, "p") == call


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("deny contains x if { y }", ["x", "y"]),
        ("deny contains msg if { mgs := 1 }", ["msg"]),
        ("deny contains 1 if inptu.resource", ["inptu"]),
        ("deny contains msg if { msg := mesage }", ["mesage"]),
        ("deny contains 1 if { some r in input.l; startswith(r, prefx) }", ["prefx"]),
        ("deny contains m if { m := helper(1); renamed.z; limit }\nlimit := 3", []),
        ("deny contains 1 if { walk(input, [p, v]); v == 1; input.l[i] }", []),
        ("deny contains 1 if { [_, v] := walk(input) }", []),
        ("f(x) := 1\ndeny contains 1 if f(2)", []),
        ("deny contains 1 if { every x in input.l { true } }", []),
        ('deny contains 1 if {\n  {"a": v} = input.x\n  some i, j\n}', []),
        ("default a := false\nwarn := a", []),
    ],
)
def test_a_name_without_a_value_is_found(text: str, names: list[str]) -> None:
    """To regopy it would be a rule that does not fire."""
    head = "package main\nimport rego.v1\nimport data.lib.helper\nimport data.x as renamed\n"
    found = name_problems([PolicyFile(path="policy/a.rego", text=f"{head}{text}\n")])
    assert [one.split("`")[1] for one in found] == names


def test_names_of_other_files_are_known() -> None:
    """Those of the same package; where a name is unknown, its line is told."""
    one = PolicyFile(path="policy/a.rego", text="package a\n\nlimit := 3\n")
    two = PolicyFile(path="policy/b.rego", text="package a\n\ndeny contains 1 if input.x > limit\n")
    assert list(name_problems([one, two])) == []
    assert list(name_problems([two])) == ["this name has no value: `limit` (policy/b.rego:3)"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("p := 7\ndeny contains 1 if { some p; input.l[p] == 2 }", ["p"]),
        ("p := 7\ndeny contains 1 if {\n  some i, p\n  input.l[p] == i\n}", ["p"]),
        ("p := 7\ndeny contains 1 if { some p in input.l; p == 2 }", []),
        ("deny contains 1 if { some p; input.l[p] == 2 }", []),
    ],
)
def test_a_local_name_that_hides_a_rule_is_found(text: str, names: list[str]) -> None:
    """Regopy takes it for the rule, and finds nothing; with `in` it does not."""
    found = name_problems([PolicyFile(path="policy/a.rego", text=f"package main\nimport rego.v1\n{text}\n")])
    assert [one.split("`")[1] for one in found] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deny if {\n  f(a\n}\n", "`}` on line 3 closes no bracket"),
        ("x := 1\ny := [1\n", "`[` on line 2 is not closed"),
        ("x := 1)\n", "`)` on line 1 closes no bracket"),
        ("x := " + "[" * 200 + "]" * 200, "line 1 is nested too deeply"),
    ],
)
def test_brackets_that_do_not_match_are_refused(text: str, message: str) -> None:
    """With the line, before regopy reads the policy."""
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(text)
