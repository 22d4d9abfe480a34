"""Rewrites policies for regopy so that a call or an iteration it would get wrong is right, or an error. Pure.

regopy keeps strings with their escapes: `count` of a string with one quote is one too many, `regex.match`
sees backslashes that are not there, and a rule that depends on it silently does not fire. Such calls go to
helper functions that fail if the string contains an escaped character; the failure is reported as an error.
The same holds for patterns over non-ASCII letters, which are several characters to regopy, and for `sprintf`
of values it cannot format. Calls that regopy gets right (`contains`, `==`, `split`, `replace`, `startswith`,
`json.unmarshal`) stay.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from holdfast.checks.tools.rego.syntax import Tree, is_blank, is_group, is_name, join, leaves, parse

PACKAGE: Final = "holdfast_exact"
_CHECKED: Final = {
    "x": "count strings.reverse base64.encode base64url.encode base64url.encode_no_pad "
    "crypto.md5 crypto.sha1 crypto.sha256",
    "xx": "indexof indexof_n trim trim_left trim_right crypto.hmac.sha256 crypto.hmac.sha512",
    "xxx": "substring",
    "a": "upper lower hex.encode",
    "aa": "regex.globs_match",
    "-a": "regex.match regex.split",
    "-a-": "regex.find_n regex.find_all_string_submatch_n",
    "a--": "regex.replace",
    "--a": "glob.match",
    "-a--": "regex.template_match",
}
"""Functions by what each argument must be: `x` without escapes, `a` also ASCII, `-` anything."""
_ARGUMENTS: Final = {name: kinds for kinds, names in _CHECKED.items() for name in names.split()}
_UNSUPPORTED: Final = (
    *("base64.decode", "base64url.decode", "hex.decode", "urlquery.decode", "urlquery.decode_object"),
    *("urlquery.encode", "urlquery.encode_object"),
)
"""regopy's results are wrong, or not escaped like all other strings."""
_CHECKS: Final = {"x": "exact", "a": "ascii"}
_BREAK: Final = 'to_number("inexact")'
_OTHERS: Final = {
    "sprintf": f"(f, a) := sprintf(f, a) if {{ formats(f, a) }} else := {_BREAK}",
    # opa sorts the members of a set; regopy returns them in any order.
    "concat": "(d, x) := concat(d, x) if { not is_set(x) } else := concat(d, sort(x))",
}
_VERBS: Final = r"^([^%]|%%|%[svdxXfeEgGo]|%[0-9]+d|%[0-9]*\.[0-9]+[feEgG])*$"
_FORMATS: Final = (
    f"formats(f, a) if {{ regex.match(`{_VERBS}`, f); lists(a) <= count(split(f, `%v`)) - 1 }}",
    "lists(a) := count([x | some x in a; composite(x)])",
    "composite(x) if is_array(x)",
    "composite(x) if is_object(x)",
    "composite(x) if is_set(x)",
    "composite(x) if is_null(x)",
)
"""regopy formats other verbs, and lists for `%s`, differently from opa."""
_RANKS: Final = ("is_null", "is_boolean", "is_number", "is_string", "is_array", "is_object", "is_set")
_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*|(?<![\w.])('
    + "|".join(
        re.escape(name) for name in sorted((*_ARGUMENTS, *_UNSUPPORTED, *_OTHERS), key=len, reverse=True)
    )
    + r")(?=[ \t]*\()"
)
_INPUT: Final = "holdfast_input"
_INPUT_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|#[^\n]*|(?<![\w.])(input)(?!\w)')
_ESCAPED: Final = (r"\\", r"\"", r"\n", r"\r", r"\t")
_CONTROL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[bfu]")


def rewrite_policy(text: str) -> str:
    """The policy with every call that regopy may get wrong replaced by one of `helper_module`."""

    def replacement(token: re.Match[str]) -> str:
        return f"data.{PACKAGE}.{_function(token[1])}" if token[1] else token[0]

    return rewrite_comparisons(_TOKEN.sub(replacement, lift_iterations(text)), PACKAGE)


def rewrite_tests(text: str) -> str:
    """The same without `input`: regopy can crash on `with input as` around a built-in function."""

    def replacement(token: re.Match[str]) -> str:
        return f"data.{_INPUT}" if token[1] else token[0]

    return _INPUT_TOKEN.sub(replacement, rewrite_policy(text))


def _function(name: str) -> str:
    return f"{name.replace('.', '_')}_"


def inspects_strings(text: str) -> bool:
    """Whether a rewritten policy calls a function that depends on the characters of a string."""
    return any(f"data.{PACKAGE}.{_function(name)}" in text for name in (*_ARGUMENTS, *_UNSUPPORTED))


def has_control_characters(document: str) -> bool:
    """Whether the JSON contains control characters, which the helper functions cannot detect."""
    return _CONTROL.search(document) is not None


def helper_module() -> str:
    """The helper functions. They fail with `to_number` of a non-number, which strict errors report."""
    no_escapes = "; ".join(f'not contains(x, "{escaped}")' for escaped in _ESCAPED)
    lines = [
        f"package {PACKAGE}",
        "import rego.v1",
        "exact(x) if not is_string(x)",
        f"exact(x) if {{ is_string(x); {no_escapes} }}",
        "ascii(x) if { exact(x); regex.match(`^[ -~]*$`, x) }",
    ]
    for name, kinds in _ARGUMENTS.items():
        arguments = ", ".join(f"a{number}" for number in range(len(kinds)))
        holds = "; ".join(f"{_CHECKS[kind]}(a{n})" for n, kind in enumerate(kinds) if kind in _CHECKS)
        lines.append(
            f"{_function(name)}({arguments}) := {name}({arguments}) if {{ {holds} }} else := {_BREAK}"
        )
    lines += [f"{_function(name)}{rest}" for name, rest in _OTHERS.items()]
    lines += [*_FORMATS, *_order()]
    lines += [f"{_function(name)}(_) := {_BREAK}" for name in _UNSUPPORTED]
    return "\n".join(lines) + "\n"


def _order() -> Iterator[str]:
    """Values of two types are ordered by type; strings with escapes are an error."""
    for rank, is_type in enumerate(_RANKS):
        yield f"rank(x) := {rank} if {is_type}(x)"
    for sign, name in ORDER.items():
        yield (
            f"{name}(a, b) := a {sign} b if {{ is_number(a); is_number(b) }}"
            f" else := rank(a) {sign} rank(b) if {{ rank(a) != rank(b) }}"
            f" else := a {sign} b if {{ exact(a); exact(b) }} else := {_BREAK}"
        )


# Iteration inside an expression becomes a statement of its own:
#
#     startswith(input.names[i], "x")        at := input.names[i]; startswith(at, "x")
#
# In Rego both mean the same. regopy only iterates in the second: in the first it treats `i` as undefined and
# silently finds nothing, and with `_` it cannot read the policy at all.
#
# Order comparisons become calls: in Rego a string is greater than any number, so `port > 1024` holds where
# the port is `"${var.port}"`. regopy never orders values of two types: the rule would silently not fire.


ORDER: Final = {"<": "less_", "<=": "at_most_", ">": "greater_", ">=": "at_least_"}
_ARITHMETIC: Final = tuple("+-*/%&")
_SIGNS: Final = tuple(ORDER)
_BETWEEN: Final = (":=", "=", "==", "!=", "|", ",")
_CONTINUES: Final = (*_BETWEEN, *_SIGNS, *_ARITHMETIC)
"""A line that ends with one of these continues on the next."""
_BOUNDS: Final = (*_BETWEEN, *":;\n()[]{}", "not", "if", "else", "with", "as", "in", "contains")
"""Between two of these is one operand or one comparison."""
_NAME: Final = "holdfast_at_"
_BREAKS: Final = 'to_number("with") == 0'
"""An iteration under `with` cannot be moved out of its statement: the rule becomes an error instead."""


def lift_iterations(text: str) -> str:
    return _Rewriter().rewrite_file(parse(text))


def rewrite_comparisons(text: str, package: str) -> str:
    """The policy with `a < b` as a call of a function of `package`.

    A comparison with arithmetic (`a + 1 > 2`) stays: both sides are numbers.
    """
    return join(_compare(parse(text), f"data.{package}."))


def _compare(items: Tree, package: str) -> Tree:
    output: Tree = []
    for is_bound, part in itertools.groupby(items, lambda item: item in _BOUNDS):
        operands: Tree = [_compare(item, package) if isinstance(item, list) else item for item in part]
        signs = [index for index, item in enumerate(operands) if item in _SIGNS]
        if not is_bound and len(signs) == 1:
            operands = _call(operands, signs[0], package)
        output += operands
    return output


def _call(operands: Tree, sign: int, package: str) -> Tree:
    left, right = _strip(operands[:sign]), _strip(operands[sign + 1 :])
    is_count = join(left).startswith(f"{package}count_(") and join(right).isdigit()
    numbers = any(item in _ARITHMETIC for item in (*left, *(right[1:] if right[:1] == ["-"] else right)))
    if not left or not right or is_count or numbers:
        return operands
    start, end = operands.index(left[0]), len(operands)
    while is_blank(operands[end - 1]):
        end -= 1
    call: Tree = [f"{package}{ORDER[str(operands[sign])]}", ["(", *left, ", ", *right, ")"]]
    return [*operands[:start], *call, *operands[end:]]


def _strip(items: Tree) -> Tree:
    words = [index for index, item in enumerate(items) if not is_blank(item)]
    return items[words[0] : words[-1] + 1] if words else []


class _Rewriter:
    def __init__(self) -> None:
        self._count = 0

    def rewrite_file(self, items: Tree) -> str:
        output: list[str] = []
        index = 0
        while index < len(items):
            if items[index] == "if":
                text, index = self._if(items, index + 1)
                output.append(f"if{text}")
            else:
                output += leaves(self._groups(items[index : index + 1]))
                index += 1
        return "".join(output)

    def _if(self, items: Tree, start: int) -> tuple[str, int]:
        """The text after `if`, which is one statement or a body in braces, and the index after it."""
        first = start
        while first < len(items) and (is_blank(items[first]) or items[first] == "\n"):
            first += 1
        before = join(items[start:first])
        end = _statement_end(items, first)
        statement = _strip(items[first:end])
        if len(statement) == 1 and is_group(statement[0], "{"):
            return f"{before}{{{self._body(list(statement[0][1:-1]))}}}", first + 1
        steps, text = self._statement(statement)
        # regopy reads `every` only in braces. A comment stays behind the statement.
        if steps or statement[:1] == ["every"]:
            text = f"{{ {'; '.join((*steps, text))} }} "
        return before + text, first + len(statement)

    def _body(self, items: Tree) -> str:
        output: list[str] = []
        start = 0
        while start < len(items):
            end = start + 1
            if is_blank(items[start]) or items[start] in ("\n", ";", "else"):
                output.append(str(items[start]))
            else:
                end = _statement_end(items, start)
                steps, text = self._statement(items[start:end])
                output.append("; ".join((*steps, text)))
            start = end
        return "".join(output)

    def _statement(self, items: Tree) -> tuple[list[str], str]:
        """The steps that come before it, and the statement."""
        parts = self._groups(items)
        if "with" in parts:
            return self._with(parts)
        if parts[:1] == ["not"] or _is_step(parts):
            return [], join(parts)
        domain = parts.index("in") + 1 if parts[:1] in (["some"], ["every"]) and "in" in parts else 0
        steps: list[str] = []
        return steps, join([*parts[:domain], *self._lift(parts[domain:], steps)])

    def _with(self, parts: Tree) -> tuple[list[str], str]:
        """`with input as bucket`: regopy crashes on the name of a rule, and accepts a local variable."""
        starts = [index for index, part in enumerate(parts) if part == "with"]
        steps: list[str] = []
        output = parts[: starts[0]]
        for start, end in itertools.pairwise([*starts, len(parts)]):
            part = parts[start:end]
            value_at = part.index("as") + 1 if "as" in part else len(part)
            value: Tree = part[value_at:]
            if any(map(is_name, leaves(value))):
                name = self._name()
                steps.append(f"{name} := {join(value).strip()}")
                value = [f" {name} "]
            output += [*part[:value_at], *value]
        inside: list[str] = []
        self._lift(parts[: starts[0]], inside)
        return [*steps, *([_BREAKS] if inside and not _is_step(parts[: starts[0]]) else [])], join(output)

    def _name(self) -> str:
        self._count += 1
        return f"{_NAME}{self._count}"

    def _groups(self, items: Tree) -> Tree:
        """The items, with each comprehension and the body of an `every` rewritten as one token."""
        output: Tree = []
        for item in items:
            if not isinstance(item, list):
                output.append(item)
            elif item[0] in ("{", "[") and "|" in item:
                output.append(self._comprehension(item))
            elif item[0] == "{" and items[0] == "every":
                output.append(f"{{{self._body(item[1:-1])}}}")
            else:
                output.append(self._groups(item))
        return output

    def _comprehension(self, items: Tree) -> str:
        """The steps of the head follow the body, which binds the variables of the head."""
        bar = items.index("|")
        steps: list[str] = []
        head = join(self._lift(self._groups(items[1:bar]), steps))
        after = "".join(f"; {step}" for step in steps)
        return f"{items[0]}{head}|{self._body(items[bar + 1 : -1])}{after}{items[-1]}"

    def _lift(self, parts: Tree, steps: list[str]) -> Tree:
        """The parts with a name for each iteration in them; the steps define the names."""
        output: Tree = []
        index = 0
        while index < len(parts):
            part = parts[index]
            end = index + 1
            if isinstance(part, list):
                output.append(self._lift(part, steps))
            elif not is_name(part) or parts[max(index - 1, 0)] == ".":
                output.append(part)
            else:
                end = _reference_end(parts, index)
                reference = parts[index:end]
                indexed = any(is_group(item, "[") and any(map(is_name, leaves(item))) for item in reference)
                lifted = [self._lift(item, steps) if isinstance(item, list) else item for item in reference]
                if _is_walk(reference):
                    lifted, indexed = [*lifted, "[_]"], True
                if indexed:
                    steps.append(f"{(name := self._name())} := {join(lifted)}")
                    lifted = [name]
                output += lifted
            index = end
        return output


def _reference_end(parts: Tree, start: int) -> int:
    """The end of `a.b[i].c` or `f(x)[_]`."""
    end = start + 1
    while end < len(parts):
        if parts[end] == "." and end + 1 < len(parts) and is_name(parts[end + 1]):
            end += 2
        elif is_group(parts[end], "(["):
            end += 1
        else:
            break
    return end


def _is_walk(parts: Tree) -> bool:
    """`walk(x)` iterates over pairs; regopy returns all of them at once."""
    return parts[0] == "walk" and len(parts) == 2 and "," not in parts[1]  # noqa: PLR2004 - name and arguments


def _is_step(parts: Tree) -> bool:
    """`a.b[i]`, or `x := a.b[i]`: a statement that needs no rewriting."""
    words = [part for part in parts if not is_blank(part)]
    if len(words) > 2 and is_name(words[0]) and words[1] in (":=", "="):  # noqa: PLR2004 - a name and a sign
        words = words[2:]
    return (
        bool(words)
        and is_name(words[0])
        and all(isinstance(part, str) or (part[0] == "[" and not _nests(part)) for part in words)
        and _reference_end(words, 0) == len(words)
    )


def _nests(items: Tree) -> bool:
    return any(isinstance(item, list) for item in items)


def _statement_end(items: Tree, index: int) -> int:
    """A statement ends with its line, at a semicolon or before an `else`."""
    last: str | Tree = ""
    while index < len(items) and items[index] not in ("else", ";"):
        if items[index] == "\n" and last not in _CONTINUES:
            break
        if not is_blank(items[index]):
            last = items[index]
        index += 1
    return index
