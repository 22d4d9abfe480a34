from __future__ import annotations

import pytest

from holdfast.hcl.nodes import (
    Access,
    Binary,
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Opaque,
    Template,
    Traversal,
    Tuple,
    Unary,
    calls,
    references,
)
from holdfast.hcl.reader import UNKNOWN, read, values


def expression(text: str) -> Expression:
    file = read(f"x = {text}\n", "main.tf")
    assert file.problems == ()
    return file.body.attributes[0].expression


def literal(text: str) -> object:
    found = expression(text)
    assert isinstance(found, Literal)
    return found.value


def test_blocks_keep_their_labels_and_places() -> None:
    """A block says its type, its labels, and where it begins and ends."""
    file = read('locals {}\n\nresource "aws_vpc" main {\n  cidr = "x"\n\n  tags {\n  }\n}\n', "net/main.tf")
    block = file.body.blocks[1]
    assert (block.type, block.labels) == ("resource", ("aws_vpc", "main"))
    assert (str(block.place), str(block.end)) == ("net/main.tf:3:1", "net/main.tf:8:1")
    assert [str(attribute.place) for attribute in block.body.attributes] == ["net/main.tf:4:3"]
    assert [inner.type for inner in block.body.blocks] == ["tags"]


def test_columns_count_characters() -> None:
    """A column is what an editor shows, not a number of bytes."""
    found = expression('"ééé" == var.größe')
    assert isinstance(found, Binary)
    assert (found.right.line, found.right.column) == (1, 14)
    assert isinstance(found.right, Traversal)
    assert found.right.names == ("var", "größe")


def test_a_byte_order_mark_does_not_count() -> None:
    """A byte order mark is no mistake and moves nothing."""
    file = read(b"\xef\xbb\xbfx = 1\r\ny = 2\r\n", "main.tf")
    assert file.problems == ()
    assert [(a.name, a.place.line, a.place.column) for a in file.body.attributes] == [
        ("x", 1, 1),
        ("y", 2, 1),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"plain"', "plain"),
        ('""', ""),
        ('"  spaces  "', "  spaces  "),
        (r'"a\tb\n\"q\" \\ é"', 'a\tb\n"q" \\ é'),
        (r'"\u00e9 \U0001F600"', "é 😀"),
        ('"$${x} %%{y} $x %y $$z"', "${x} %{y} $x %y $$z"),
        ('"$$${x#/} a$$$${var.y} $$$$${z} %%%{if #}"', "$${x#/} a$$${var.y} $$$${z} %%{if #}"),
        ("12", 12),
        ("1.50", 1.5),
        ("2.0", 2),
        ("1e3", 1000),
        ("25E-1", 2.5),
        ("(1e+2)", 100),
        ('"1e3"', "1e3"),
        ("true", True),
        ("null", None),
        ("(7)", 7),
    ],
)
def test_literals_are_what_terraform_makes_of_them(text: str, value: object) -> None:
    """A literal has the value that Terraform gives it."""
    assert literal(text) == value
    assert type(literal(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<<EOT\na\n  b\nEOT", "a\n  b\n"),
        ("<<EOT\nEOT", ""),
        ("<<EOT\n\\n stays, $${x} does not\nEOT", "\\n stays, ${x} does not\n"),
        ("<<EOT\n$$${B#release/} $$${var.x} %%%{if}\nEOT", "$${B#release/} $${var.x} %%{if}\n"),
        ("<<-EOT\n    a\n      b\n\n    c\n  EOT", "a\n  b\n\nc\n"),
        ("<<-EOT\n    hi\n   \n\tx\n  EOT", "   hi\n   \nx\n"),
        ("<<EOT\r\na\r\n  b\r\nEOT", "a\r\n  b\r\n"),
    ],
)
def test_heredocs(text: str, value: str) -> None:
    """A heredoc keeps its lines as they are; `<<-` takes the shared indentation away. As Terraform does."""
    assert literal(text) == value


def test_a_template_keeps_text_and_interpolation_apart() -> None:
    """White space around an interpolation belongs to the text."""
    found = expression('"a  ${var.b}  ${1} c"')
    assert isinstance(found, Template)
    texts = [piece.value if isinstance(piece, Literal) else "·" for piece in found.pieces]
    assert texts == ["a  ", "·", "  ", 1, " c"]


def test_indentation_is_counted_across_interpolations() -> None:
    """In `<<-` a line that begins with an interpolation has an indentation too."""
    found = expression("<<-EOT\n    hi\n    ${2} x\n      y\n  EOT")
    assert isinstance(found, Template)
    assert [piece.value for piece in found.pieces if isinstance(piece, Literal)] == ["hi\n", 2, " x\n  y\n"]


def test_collections_and_accesses() -> None:
    """Tuples, objects and every way to reach into a value are read."""
    found = expression('{ a = 1, "b" : [x, 2], (var.k) = f(y).z[0], "${t}" = u["k"].v }')
    assert isinstance(found, Object)
    keys = [key for key, _ in found.items]
    assert isinstance(keys[0], Literal)
    assert keys[0].value == "a"
    assert isinstance(keys[2], Traversal)
    items = [value for _, value in found.items]
    assert isinstance(items[1], Tuple)
    access = items[2]
    assert isinstance(access, Access)
    assert isinstance(access.base, Call)
    assert access.steps[0] == "z"
    last = items[3]
    assert isinstance(last, Traversal)
    assert last.names == ("u",)
    assert last.steps[1] == "v"


def test_operations_keep_their_precedence() -> None:
    """`!a && b || c == 1 + 2 * 3` is read as Terraform reads it."""
    found = expression("!a.b && c || d.e[0] == 1 + 2 * -3")
    assert isinstance(found, Binary)
    assert found.operator == "||"
    assert isinstance(found.left, Binary)
    assert isinstance(found.left.left, Unary)
    assert isinstance(found.right, Binary)
    assert found.right.operator == "=="
    sum_ = found.right.right
    assert isinstance(sum_, Binary)
    assert (sum_.operator, isinstance(sum_.right, Binary)) == ("+", True)


def test_calls_conditionals_and_for() -> None:
    """Calls with an expanded last argument, conditionals and both forms of `for` are read."""
    call = expression("provider::x::f(1, # why\n  a...)")
    assert isinstance(call, Call)
    assert (call.name, len(call.arguments), call.expand_final) == ("provider::x::f", 2, True)
    assert isinstance(expression("a ? b : c"), Conditional)
    loop = expression("{for k, v in x : k => v... if v != null}")
    assert isinstance(loop, For)
    assert (loop.key_name, loop.value_name, loop.grouped) == ("k", "v", True)
    assert loop.condition is not None
    plain = expression("[for v in x : v]")
    assert isinstance(plain, For)
    assert (plain.key_name, plain.key) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "var.list[*].name[file(local.x)]",
        '"%{ if var.list }${file(local.x)}%{ endif }"',
        '"a ${~ file(local.x) ~} ${var.list}"',
    ],
)
def test_an_opaque_expression_keeps_the_expressions_inside(text: str) -> None:
    """An opaque expression hides no reference and no call."""
    found = expression(text)
    assert isinstance(found, Opaque)
    assert {reference.names for reference in references(found)} == {("var", "list"), ("local", "x")}
    assert [call.name for call in calls(found)] == ["file"]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a = 1\nb = = 2\n", 2, 1),
        ('a = 1\nresource "x" "y" {\n  b = 1\n', 2, 18),
        ("a = 1\nb = [1,\n", 2, 5),
        ('a = 1\nb = "never closed\n', 2, 5),
    ],
)
def test_a_mistake_has_a_place_and_the_rest_is_read(text: str, line: int, column: int) -> None:
    """A mistake is a problem with line and column, never an exception, and what precedes it is read."""
    file = read(text, "main.tf")
    assert {problem.code for problem in file.problems} == {"HF-HCL-1"}
    places = [problem.place for problem in file.problems if problem.place is not None]
    assert (line, column) in [(place.line, place.column) for place in places]
    assert file.body.attributes[0].name == "a"
    assert [attribute.expression for attribute in file.body.attributes]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a "b" {\n  tags {\n    "X" = "y"\n  }\n}\n', 3),
        ('a "b" {\n  tags {\n    # note\n\n    "X" = "${y}"\n    "Z" = 1\n  }\n}\nb "c" {\n}\n', 5),
        ('a "b" {\n  tags {\n    a = 1\n    "X" = "y"\n  }\n}\n', 4),
        ('a "b" {\n  "statement" = {\n    "effect" = "Allow",\n  }\n}\n', 2),
        ('a = {\n  "X" = 1\n', None),
        ('a "b" {\n  tags = {\n    a = 1 b\n    "X" = "y"\n  }\n}\n', None),
        ('a "b" {\n  tags = {\n    a = [1,\n    "X" = "y"\n  }\n}\n', None),
    ],
)
def test_quoted_argument_names_are_one_problem(text: str, line: int | None) -> None:
    """Terraform 0.11 read them; keys of maps may be quoted, whatever else is wrong."""
    problems = read(text, "main.tf").problems
    if line is None:
        assert {problem.code for problem in problems} == {"HF-HCL-1"}
    else:
        assert [(problem.code, str(problem.place)) for problem in problems] == [
            ("HF-HCL-7", f"main.tf:{line}")
        ]


def test_text_that_is_not_utf8_is_a_problem_with_its_place() -> None:
    """Bytes that are not UTF-8 are reported with their place."""
    file = read(b'a = 1\nb = "\xff"\n', "main.tf")
    assert [(p.code, str(p.place)) for p in file.problems] == [("HF-HCL-2", "main.tf:2:6")]


def test_invalid_bytes_in_comments_are_ignored() -> None:
    """Terraform reads on, so nothing is wrong, and nothing behind them is missed."""
    file = read('# caf\xe9 "\xe9\n/* \xe9 */ a = 1 // \xe9\n'.encode("latin-1"), "main.tf")
    assert (file.problems, [one.name for one in file.body.attributes]) == ((), ["a"])


def test_invalid_bytes_elsewhere_hide_no_other_problem() -> None:
    """They are reported once per line, and the rest of the file is read; UTF-16 is not decoded."""
    file = read('# \xe9\na = "\xe9"\nb = "\xe9\xe9"\nc = 3\n'.encode("latin-1"), "main.tf")
    assert [(one.code, str(one.place)) for one in file.problems] == [("HF-HCL-2", "main.tf:2:6")]
    assert [one.name for one in file.body.attributes] == ["a", "b", "c"]
    for odd, path in (("a = 1\n".encode("utf-16"), "main.tf"), (b'{"a": "\xe9"}', "main.tf.json")):
        file = read(odd, path)
        assert ([one.code for one in file.problems], file.body.attributes) == (["HF-HCL-2"], ())


def test_deep_nesting_is_no_exception() -> None:
    """Code that nests deeper than Python can follow is marked as unread, not a crash."""
    deep = "(" * 3000 + "var.x" + ")" * 3000
    file = read(f"x = {deep}\n", "main.tf")
    found = file.body.attributes[0].expression
    assert file.problems or (isinstance(found, Opaque) and found.unread)


@pytest.mark.parametrize(("text", "path"), [("a = %s\n", "x.tfvars"), ('{"a": %s}', "x.tfvars.json")])
def test_a_number_without_end_is_no_exception(text: str, path: str) -> None:
    """Python refuses to convert so many digits."""
    file = read(text % ("1" * 6000), path)
    assert values(file)["a"] in (UNKNOWN, float("inf"))


def test_exponents_are_numbers_and_nothing_else() -> None:
    """Texts, comments and names with the same letters stay as they are."""
    text = 'a = [1e3, "1e3", 2e0]\nb1e3 = 5 # 1e3\nc = <<E\n1e3\nE\nd = { x-1e3 = -1e2 }\n'
    file = read(text, "x.tfvars")
    assert not file.problems
    assert values(file) == {"a": (1000, "1e3", 2), "b1e3": 5, "c": "1e3\n", "d": {"x-1e3": -100}}
    (inside,) = read('a = "1e3 ${1e2 + 1}"\n', "main.tf").body.attributes
    assert isinstance(inside.expression, Template)


def test_values_of_a_variables_file() -> None:
    """A variables file gives plain values, and says what it does not give."""
    file = read('a = "x"\nb = [1, -2, { c = null }]\nd = upper("x")\ne = { f = var.g, 1 = 2 }\n', "x.tfvars")
    assert values(file) == {
        "a": "x",
        "b": (1, -2, {"c": None}),
        "d": UNKNOWN,
        "e": {"f": UNKNOWN, "1": 2},
    }
