"""Moves iteration out of expressions into statements of their own, for regopy. Pure.

    startswith(input.names[i], "x")        at := input.names[i]; startswith(at, "x")

In Rego both mean the same. regopy only iterates in the second: in the first it treats `i` as undefined and
silently finds nothing, and with `_` it cannot read the policy at all. Order comparisons become calls: in Rego
a string is greater than any number, so `port > 1024` holds where the port is `"${var.port}"`. regopy never
orders values of two types, and such a rule would silently not fire.
"""

from __future__ import annotations

import itertools
from typing import Final

from holdfast.checks.tools.rego.syntax import Tree, is_blank, is_group, is_name, join, leaves, parse

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
        # A comment stays behind the statement.
        return before + (f"{{ {'; '.join((*steps, text))} }} " if steps else text), first + len(statement)

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
