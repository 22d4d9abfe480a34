from __future__ import annotations

import pytest

from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import SetOf, convert, known
from holdfast.hcl.nodes import Expression
from holdfast.hcl.reader import COMPUTED, UNKNOWN, Unknown, read
from holdfast.stacks.reads.inputs import Fileset, fileset_pattern


def expression(text: str) -> Expression:
    file = read(f"x = {text}\n", "main.tf")
    assert file.problems == ()
    return file.body.attributes[0].expression


SCOPE = Scope(
    variables={
        "name": "db",
        "list": ("b", "a"),
        "map": {"b": 1, "a": "x"},
        "set": SetOf(("x", "y")),
        "on": True,
        "hole": {"known": "k", "not": UNKNOWN},
        "nothing": None,
        "unset": UNKNOWN,
    },
    locals={
        "file": expression('"${path.module}/${var.name}.json"'),
        "loop": expression("local.loop"),
        "made": expression("aws_x.y.id"),
    },
    path_module="../modules/x",
    cwd="/src/repo/live/dev",
    tree="/src/repo",
    workspace="blue",
    names={"each": {"key": "k", "value": {"f": "v.json"}}, "count": {"index": 2}},
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"${var.name}-${1.50}-${true}"', "db-1.5-true"),
        ('"${var.list}"', ("b", "a")),
        ("local.file", "../modules/x/db.json"),
        ("path.root", "."),
        ("path.cwd", "/src/repo/live/dev"),
        ('"${path.cwd}/x"', "/src/repo/live/dev/x"),
        ('abspath("../x")', "/src/repo/live/x"),
        ("terraform.workspace", "blue"),
        ("each.key", "k"),
        ('"${each.value.f}-${count.index}"', "v.json-2"),
        ("var.list[1]", "a"),
        ('var.map["a"]', "x"),
        ("var.map.b + 2 * 3", 7),
        ("10 / 5", 2),
        ("var.on ? var.name : var.unset", "db"),
        ('var.name == "db" && !(1 > 2)', True),
        ("var.on || var.unset", True),
        ('1 == "a"', False),
        ("var.nothing == null", True),
        ('format("%s-%03d-%v%%", var.name, 5, true)', "db-005-true%"),
        ('join(",", concat(var.list, [1]))', "b,a,1"),
        ('split("/", "a/b")', ("a", "b")),
        ('merge(var.map, { a = "y" })', {"b": 1, "a": "y"}),
        ('lookup(var.map, "zz", "d")', "d"),
        ("keys(var.map)", ("a", "b")),
        ("values(var.map)", ("x", 1)),
        ("toset(var.list)", SetOf(("a", "b"))),
        ('coalesce("", null, "c")', "c"),
        ('try(var.map.zz.q, var.nothing.x, "d")', "d"),
        ("length(try([var.map.zz], []))", 0),
        ('replace("a.b", ".", "-")', "a-b"),
        ('basename("a/b/")', "b"),
        ('dirname("a/b/")', "a/b"),
        ('dirname("a")', "."),
        ('trimsuffix("abc", "c")', "ab"),
        ("length(var.hole)", 2),
        ("var.hole.known", "k"),
        ('[for k, v in var.map : "${k}=${v}" if k != "b"]', ("a=x",)),
        ("{for v in var.set : v => upper(v)}", {"x": "X", "y": "Y"}),
        ("[for k, v in var.set : k]", ("x", "y")),
        ("{for v in var.list : 1 => v...}", {"1": ("b", "a")}),
        ("max(var.list...)", UNKNOWN),
        ("concat([[1], [2]]...)", (1, 2)),
    ],
)
def test_a_certain_result_is_the_one_of_terraform(text: str, value: object) -> None:
    """An expression made of known values has the value that Terraform gives it."""
    found = evaluate(expression(text), SCOPE)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "var.unset",
        "var.missing",
        '"a-${var.unset}"',
        "var.unset ? 1 : 1",
        "local.loop",
        "local.missing",
        'file("x")',
        'jsondecode(file("x"))',
        'pathexpand("~/x")',
        "timestamp()",
        "var.hole.missing",
        'var.hole["not"]',
        'join(",", [var.unset])',
        "upper(var.unset)",
        "[for v in var.unset : v]",
        '"%{ if true }a%{ endif }"',
        "var.list[*]",
        "1 / 3",
        "element([], 0)",
        '1 == "1"',
        '{ for v in ["a", "a"] : v => 1 }',
        "0.1 + 0.2",
        'upper("ß")',
        'format("%q", "a")',
        'format("%s %s", "a")',
        'replace("a", "/b/", "c")',
        'try(var.unset, "d")',
        'coalesce(var.unset, "d")',
        "basename(path.cwd)",
        'path.cwd == "/x"',
        'abspath("../../../../x")',
        'fileset(path.module, "*")',
        "{ (var.unset) = 1 }",
        "!var.unset",
        "flatten([var.unset])",
        "toset([var.unset])",
    ],
)
def test_an_uncertain_result_is_unknown(text: str) -> None:
    """Unknown spreads through everything and is never guessed away."""
    assert evaluate(expression(text), SCOPE) is UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "aws_x.y.id",
        "local.made",
        '"a-${aws_x.y.id}"',
        "data.a.b[0].c",
        'join(",", [aws_x.y.id])',
        "one(data.a.b[*].c)",
    ],
)
def test_what_only_resources_decide_is_computed(text: str) -> None:
    """What depends on resources alone is distinguished from what is unknown for another reason."""
    assert evaluate(expression(text), SCOPE) is COMPUTED


def test_a_mixture_is_not_merely_computed() -> None:
    """An unknown variable in a mixture makes the whole of it unknown."""
    assert evaluate(expression('"${aws_x.y.id}-${var.unset}"'), SCOPE) is UNKNOWN


def test_an_endless_expression_is_unknown() -> None:
    """An expression that nests beyond measure is unknown, not a crash."""
    assert evaluate(expression("!" * 300 + "true"), SCOPE) in (True, UNKNOWN)
    assert evaluate(expression(" + ".join(["1"] * 3000)), SCOPE) in (3000, UNKNOWN)


@pytest.mark.parametrize(
    ("constraint", "given", "value"),
    [
        ("string", 5, "5"),
        ("number", "5", 5),
        ("bool", "true", True),
        ("any", (1,), (1,)),
        ("set(string)", ("b", "a", "b"), SetOf(("a", "b"))),
        ("list(string)", (1, "a"), ("1", "a")),
        ("map(string)", {"a": True}, {"a": "true"}),
        (
            'list(object({ a = string, b = optional(string, "d"), c = optional(number) }))',
            ({"a": "x", "extra": 1},),
            ({"a": "x", "b": "d", "c": None},),
        ),
        ('object({ b = optional(string, "d") })', {"b": None}, {"b": "d"}),
        ('"set(string)"', ("b", "a"), SetOf(("a", "b"))),
        ("tuple([string])", ("a",), UNKNOWN),
        ("string", UNKNOWN, UNKNOWN),
        ("string", None, None),
        ("number", "x", UNKNOWN),
    ],
)
def test_a_variable_holds_what_its_type_makes_of_the_value(
    constraint: str, given: object, value: object
) -> None:
    """A type fills in optional attributes, makes sets of lists and converts; else the value is unknown."""
    found = convert(expression(constraint), given)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.json", ["a.json", ".json"], ["a/b.json", "a.jso"]),
        ("**", ["a", "a/b/c"], []),
        ("**/*.json", ["a.json", "a/b/c.json"], ["a.yaml"]),
        ("a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("*.{json,yaml}", ["a.json", "a.yaml"], ["a.yml"]),
        ("./a?.txt", ["ab.txt"], ["a/.txt"]),
        ("a,b", ["a,b"], ["a", "b"]),
    ],
)
def test_patterns_of_fileset(glob: str, yes: list[str], no: list[str]) -> None:
    """A pattern of `fileset` holds the files that Terraform would find."""
    fileset = Fileset(folder="f", pattern=fileset_pattern(glob))
    assert fileset.pattern is not None
    assert [path for path in (*yes, *no) if fileset.holds(f"f/{path}")] == yes
    assert not fileset.holds("g/a.json")


@pytest.mark.parametrize("glob", ["[a-z]*", "a\\*", "../*", "**.json", "{a", "/x"])
def test_patterns_that_are_not_followed(glob: str) -> None:
    """A pattern beyond the simple ones is not guessed at: every file of the folder counts."""
    assert fileset_pattern(glob) is None
    assert Fileset(folder="f", pattern=None).holds("f/anything/at/all")


GROWING = {
    "texts": ('"${local.%s}${local.%s}"', '"ab"'),
    "lists": ("[local.%s, local.%s]", '"ab"'),
    "objects": ("{ a = local.%s, b = local.%s }", '"ab"'),
    "numbers": ("local.%s * local.%s", "7"),
}


@pytest.mark.parametrize("kind", GROWING)
def test_what_grows_without_end_is_unknown(kind: str) -> None:
    """Sixty lines can require more work than any machine can do: evaluation stops early."""
    doubled, first = GROWING[kind]
    chain = {f"a{step}": expression(doubled % (f"a{step + 1}", f"a{step + 1}")) for step in range(60)}
    scope = Scope(locals={**chain, "a60": expression(first)})
    assert not known(evaluate(expression("local.a0"), scope))
    assert known(evaluate(expression("local.a59"), scope))


def test_loops_in_loops_in_loops_are_unknown() -> None:
    """Each is short, and together they never end; the next question starts afresh."""
    many = tuple(str(number) for number in range(1500))
    scope = Scope(variables={"l": many})
    assert (
        evaluate(expression("[for a in var.l : [for b in var.l : [for c in var.l : c]]]"), scope) is not many
    )
    assert evaluate(expression("[for a in var.l : a]"), scope) == many


@pytest.mark.parametrize(
    "passed_on",
    ["out", '"${out}"', "try(out, 1)", "var.on ? out : 1", "merge({}, { a = out }).a", "[out][0]"],
)
def test_a_bound_unknown_is_passed_on_whole(passed_on: str) -> None:
    """A translator recognises where a value is used as it is."""
    out = Unknown("out")
    assert evaluate(expression(passed_on), SCOPE.bind({"out": out})) is out


@pytest.mark.parametrize(
    "operation",
    [
        *("out[0]", "out.a", "!out", "-out", '"${out}x"', "[for x in out : x]", "{ (out) = 1 }"),
        *("flatten([out])", "flatten([out, out])", "f(out...)", "upper(out)", "out ? 1 : 2", "out == 1"),
        *("merge(out, {})", "{ for k in [1] : out => k }", "[for x in [1] : x if out]", "length(out)"),
        "coalesce(out, 1)",
    ],
)
def test_an_operation_on_a_bound_unknown_is_not_that_value(operation: str) -> None:
    out = Unknown("out")
    assert evaluate(expression(operation), SCOPE.bind({"out": out})) is COMPUTED


def test_a_scope_may_have_functions_of_its_own() -> None:
    scope = Scope(functions={"twice": lambda value: (value, value), "upper": lambda _value: "mine"})
    assert evaluate(expression('twice(upper("a"))'), scope) == ("mine", "mine")
    assert evaluate(expression("twice(1, 2)"), scope) is UNKNOWN
