"""Moves iteration out of expressions into statements of their own, for regopy. Pure.

    startswith(input.names[i], "x")        at := input.names[i]; startswith(at, "x")

In Rego both mean the same. regopy only iterates in the second: in the first it treats `i` as undefined and
silently finds nothing, and with `_` it cannot read the policy at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.checks.tools.rego.tokens import is_blank, is_name, matching, skip_blanks, tokenize

_NAME: Final = "holdfast_at_"
_CONTINUES: Final = frozenset(
    (":=", "=", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", ",")
)
"""A line that ends with one of these continues on the next."""
_BREAKS: Final = 'to_number("with") == 0'
"""An iteration under `with` cannot be moved out of its statement: the rule becomes an error instead."""


def lift_iterations(text: str) -> str:
    return _Rewriter().rewrite_file(tokenize(text))


class _Rewriter:
    def __init__(self) -> None:
        self._count = 0

    def rewrite_file(self, tokens: Sequence[str]) -> str:
        output: list[str] = []
        index = 0
        while index < len(tokens):
            end = matching(tokens, index)
            if tokens[index] == "if":
                text, index = self._if(tokens, index + 1)
                output.append(f"if{text}")
                continue
            if tokens[index] in ("{", "[", "(") and end is not None:
                output += self._groups(tokens[index : end + 1])
                index = end
            else:
                output.append(tokens[index])
            index += 1
        return "".join(output)

    def _if(self, tokens: Sequence[str], start: int) -> tuple[str, int]:
        """The text after `if`, which is one statement or a body in braces, and the index after it."""
        first = start
        while first < len(tokens) and (is_blank(tokens[first]) or tokens[first] == "\n"):
            first += 1
        before = "".join(tokens[start:first])
        end = matching(tokens, first) if first < len(tokens) and tokens[first] == "{" else None
        if end is not None and _ends_statement(tokens, end + 1):
            return f"{before}{{{self._body(tokens[first + 1 : end])}}}", end + 1
        # A comment stays behind the statement.
        end = max(first, skip_blanks(tokens, _statement_end(tokens, first) - 1, -1) + 1)
        steps, text = self._statement(tokens[first:end])
        return before + (f"{{ {'; '.join((*steps, text))} }} " if steps else text), end

    def _body(self, tokens: Sequence[str]) -> str:
        output: list[str] = []
        start = 0
        while start < len(tokens):
            if is_blank(tokens[start]) or tokens[start] in ("\n", ";", "else"):
                output.append(tokens[start])
                start += 1
                continue
            end = _statement_end(tokens, start)
            steps, text = self._statement(tokens[start:end])
            output.append("; ".join((*steps, text)))
            start = end
        return "".join(output)

    def _statement(self, tokens: Sequence[str]) -> tuple[list[str], str]:
        """The steps that come before it, and the statement."""
        parts = list(self._groups(tokens))
        if "with" in parts:
            return self._with(parts)
        if parts[:1] == ["not"] or _is_step(parts):
            return [], "".join(parts)
        domain = 0
        if parts[:1] in (["some"], ["every"]) and "in" in parts:
            domain = skip_blanks(parts, parts.index("in") + 1)
        steps, text = self._lift(parts[domain:])
        return steps, "".join(parts[:domain]) + text

    def _with(self, parts: list[str]) -> tuple[list[str], str]:
        """`with input as bucket`: regopy crashes on the name of a rule, and accepts a local variable."""
        first = parts.index("with")
        steps: list[str] = []
        output = parts[:first]
        starts = [index for index, part in _outermost(parts).items() if part == "with"]
        for start, end in itertools.pairwise([*starts, len(parts)]):
            part = parts[start:end]
            value_at = skip_blanks(part, part.index("as") + 1) if "as" in part else len(part)
            value = "".join(part[value_at:])
            if any(map(is_name, part[value_at:])):
                name = self._name()
                steps.append(f"{name} := {value.rstrip()}")
                value = f"{name} "
            output += [*part[:value_at], value]
        inside, _ = self._lift(parts[:first])
        return [*steps, *([_BREAKS] if inside and not _is_step(parts[:first]) else [])], "".join(output)

    def _name(self) -> str:
        self._count += 1
        return f"{_NAME}{self._count}"

    def _groups(self, tokens: Sequence[str]) -> Iterator[str]:
        """The tokens, with each comprehension and the body of an `every` rewritten and as one part."""
        index = 0
        while index < len(tokens):
            end = matching(tokens, index) if tokens[index] in ("{", "[") else None
            inside = tokens[index + 1 : end] if end is not None else ()
            bar = next((at for at, part in _outermost(inside).items() if part == "|"), None)
            if bar is not None and end is not None:
                yield self._comprehension(tokens[index], inside[:bar], inside[bar + 1 :], tokens[end])
                index = end
            elif tokens[index] == "{" and end is not None and tokens[0] == "every":
                yield f"{{{self._body(inside)}}}"
                index = end
            else:
                yield tokens[index]
            index += 1

    def _comprehension(self, opener: str, head: Sequence[str], body: Sequence[str], closer: str) -> str:
        """The steps of the head follow the body, which binds the variables of the head."""
        steps, text = self._lift(list(self._groups(head)))
        after = "".join(f"; {step}" for step in steps)
        return f"{opener}{text}|{self._body(body)}{after}{closer}"

    def _lift(self, parts: list[str]) -> tuple[list[str], str]:
        steps: list[str] = []
        text = "".join(self._values(parts, steps))
        return steps, text

    def _values(self, parts: Sequence[str], steps: list[str]) -> Iterator[str]:
        index = 0
        while index < len(parts):
            if not is_name(parts[index]) or (index and parts[index - 1] == "."):
                yield parts[index]
                index += 1
                continue
            end, indexed = _reference(parts, index)
            text = "".join(self._arguments(parts[index:end], steps))
            if _is_walk(parts[index:end]):
                text, indexed = f"{text}[_]", True
            if indexed:
                name = self._name()
                steps.append(f"{name} := {text}")
                text = name
            yield text
            index = end

    def _arguments(self, parts: Sequence[str], steps: list[str]) -> Iterator[str]:
        """A reference or a call, with its arguments and indexes lifted."""
        index = 0
        while index < len(parts):
            end = matching(parts, index) if parts[index] in ("(", "[") else None
            yield parts[index]
            if end is not None:
                yield from self._values(parts[index + 1 : end], steps)
                yield parts[end]
                index = end
            index += 1


def _reference(parts: Sequence[str], start: int) -> tuple[int, bool]:
    """The end of `a.b[i].c` or `f(x)[_]`, and whether a name is used as an index in it."""
    end, indexed = start + 1, False
    while end < len(parts):
        if parts[end] == "." and end + 1 < len(parts) and is_name(parts[end + 1]):
            end += 2
            continue
        closed = matching(parts, end) if parts[end] in ("(", "[") else None
        if closed is None:
            break
        indexed = indexed or (parts[end] == "[" and any(map(is_name, parts[end:closed])))
        end = closed + 1
    return end, indexed


def _is_walk(parts: Sequence[str]) -> bool:
    """`walk(x)` iterates over pairs; regopy returns all of them at once."""
    return (
        parts[0] == "walk"
        and matching(parts, 1) == len(parts) - 1
        and "," not in _outermost(parts[2:-1]).values()
    )


def _is_step(parts: Sequence[str]) -> bool:
    """`a.b[i]`, or `x := a.b[i]`: a statement that needs no rewriting."""
    words = [part for part in parts if not is_blank(part)]
    if len(words) > 2 and is_name(words[0]) and words[1] in (":=", "="):  # noqa: PLR2004 - a name and a sign
        words = words[2:]
    if not words or not is_name(words[0]) or "(" in words:
        return False
    deepest = max(itertools.accumulate((word == "[") - (word == "]") for word in words))
    return deepest <= 1 and _reference(words, 0)[0] == len(words)


def _ends_statement(tokens: Sequence[str], index: int) -> bool:
    index = skip_blanks(tokens, index)
    return index >= len(tokens) or tokens[index] in ("\n", "else", ";", "}")


def _statement_end(tokens: Sequence[str], index: int) -> int:
    """A statement ends with its line, at a semicolon or before an `else`, outside all brackets."""
    while index < len(tokens) and tokens[index] != "else":
        if tokens[index] in ("\n", ";"):
            before = skip_blanks(tokens, index - 1, -1)
            if tokens[index] == ";" or before < 0 or tokens[before] not in _CONTINUES:
                return index
        closed = matching(tokens, index) if tokens[index] in ("(", "[", "{") else None
        index = (closed if closed is not None else index) + 1
    return index


def _outermost(parts: Sequence[str]) -> dict[int, str]:
    """The parts that are in no brackets, by index."""
    outermost: dict[int, str] = {}
    index = 0
    while index < len(parts):
        closed = matching(parts, index) if parts[index] in ("(", "[", "{") else None
        if closed is None:
            outermost[index] = parts[index]
        index = (closed if closed is not None else index) + 1
    return outermost
