"""Values that a policy goes through by an index, each in a step of its own. Pure.

    startswith(input.names[i], "x")        at := input.names[i]; startswith(at, "x")

To Rego both are the same. regopy goes through all names in the second alone: in the first it does not know
`i` and silently finds nothing, and with `_` it cannot read the policy at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.checks.tools.rego.tokens import is_blank, is_name, matching, past_blanks, tokens_of

_NAME: Final = "holdfast_at_"
_GOES_ON: Final = frozenset(
    (":=", "=", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", ",")
)
"""A line that ends with one of these goes on in the next."""
_BREAKS: Final = 'to_number("with") == 0'
"""What is evaluated with another input cannot be taken out of its line: then the rule is an error."""


def stepped(text: str) -> str:
    return _Steps().rules(tokens_of(text))


class _Steps:
    def __init__(self) -> None:
        self._made = 0

    def rules(self, tokens: Sequence[str]) -> str:
        """A whole file."""
        done: list[str] = []
        number = 0
        while number < len(tokens):
            here = tokens[number]
            end = matching(tokens, number)
            if here == "if":
                text, number = self._if(tokens, number + 1)
                done.append(f"if{text}")
                continue
            if here in ("{", "[", "(") and end is not None:
                done += self._groups(tokens[number : end + 1])
                number = end
            else:
                done.append(here)
            number += 1
        return "".join(done)

    def _if(self, tokens: Sequence[str], start: int) -> tuple[str, int]:
        """What follows the word, and where the rule goes on: one statement, or a body in braces."""
        first = start
        while first < len(tokens) and (is_blank(tokens[first]) or tokens[first] == "\n"):
            first += 1
        before = "".join(tokens[start:first])
        end = matching(tokens, first) if first < len(tokens) and tokens[first] == "{" else None
        if end is not None and self._is_body(tokens, end):
            return f"{before}{{{self._body(tokens[first + 1 : end])}}}", end + 1
        # What is said about it in a comment stays behind it.
        end = max(first, past_blanks(tokens, _line_end(tokens, first) - 1, -1) + 1)
        steps, text = self._statement(tokens[first:end])
        return before + (f"{{ {'; '.join((*steps, text))} }} " if steps else text), end

    def _is_body(self, tokens: Sequence[str], end: int) -> bool:
        following = past_blanks(tokens, end + 1)
        return following >= len(tokens) or tokens[following] in ("\n", "else", ";", "}")

    def _body(self, tokens: Sequence[str]) -> str:
        done: list[str] = []
        start = 0
        while start < len(tokens):
            if is_blank(tokens[start]) or tokens[start] in ("\n", ";", "else"):
                done.append(tokens[start])
                start += 1
                continue
            end = _line_end(tokens, start)
            steps, text = self._statement(tokens[start:end])
            done.append("; ".join((*steps, text)))
            start = end
        return "".join(done)

    def _statement(self, tokens: Sequence[str]) -> tuple[list[str], str]:
        """Steps that come before it, and the statement."""
        parts = list(self._groups(tokens))
        if "with" in parts:
            return self._with(parts)
        if parts[:1] == ["not"] or _is_step(parts):
            return [], "".join(parts)
        domain = 0
        if parts[:1] in (["some"], ["every"]) and "in" in parts:
            domain = past_blanks(parts, parts.index("in") + 1)
        steps, text = self._taken_out(parts[domain:])
        return steps, "".join(parts[:domain]) + text

    def _with(self, parts: list[str]) -> tuple[list[str], str]:
        """`with input as made`: regopy finds what has a name in this body, and not what a rule makes."""
        first = parts.index("with")
        steps: list[str] = []
        done = parts[:first]
        for part in _split(parts[first:], "with"):
            number = past_blanks(part, part.index("as") + 1) if "as" in part else len(part)
            value = "".join(part[number:])
            if any(map(is_name, part[number:])):
                steps.append(f"{self._name()} := {value.rstrip()}")
                value = f"{_NAME}{self._made} "
            done += [*part[:number], value]
        inside, _ = self._taken_out(parts[:first])
        return [*steps, *([_BREAKS] if inside and not _is_step(parts[:first]) else [])], "".join(done)

    def _name(self) -> str:
        self._made += 1
        return f"{_NAME}{self._made}"

    def _groups(self, tokens: Sequence[str]) -> Iterator[str]:
        """The tokens, a comprehension or the body of an `every` as one of them: it has its own steps."""
        number = 0
        while number < len(tokens):
            end = matching(tokens, number) if tokens[number] in ("{", "[") else None
            inside = tokens[number + 1 : end] if end is not None else ()
            bar = _bar(inside)
            if bar is not None and end is not None:
                yield self._comprehension(tokens[number], inside[:bar], inside[bar + 1 :], tokens[end])
                number = end
            elif tokens[number] == "{" and end is not None and tokens[0] == "every":
                yield f"{{{self._body(inside)}}}"
                number = end
            else:
                yield tokens[number]
            number += 1

    def _comprehension(self, opener: str, head: Sequence[str], body: Sequence[str], closer: str) -> str:
        """What the head goes through is known once the body has been gone through."""
        steps, text = self._taken_out(list(self._groups(head)))
        after = "".join(f"; {step}" for step in steps)
        return f"{opener}{text}|{self._body(body)}{after}{closer}"

    def _taken_out(self, parts: list[str]) -> tuple[list[str], str]:
        steps: list[str] = []
        text = "".join(self._values(parts, steps))
        return steps, text

    def _values(self, parts: Sequence[str], steps: list[str]) -> Iterator[str]:
        number = 0
        while number < len(parts):
            if not is_name(parts[number]) or (number and parts[number - 1] == "."):
                yield parts[number]
                number += 1
                continue
            end, indexed = _reference(parts, number)
            text = "".join(self._inside(parts[number:end], steps))
            if _is_walk(parts[number:end]):
                text, indexed = f"{text}[_]", True
            if indexed:
                name = self._name()
                steps.append(f"{name} := {text}")
                text = name
            yield text
            number = end

    def _inside(self, parts: Sequence[str], steps: list[str]) -> Iterator[str]:
        """A reference or a call, whose arguments and indexes have their own values."""
        number = 0
        while number < len(parts):
            end = matching(parts, number) if parts[number] in ("(", "[") else None
            if end is None:
                yield parts[number]
            else:
                yield parts[number]
                yield from self._values(parts[number + 1 : end], steps)
                yield parts[end]
                number = end
            number += 1


def _reference(parts: Sequence[str], start: int) -> tuple[int, bool]:
    """Where `a.b[i].c` or `f(x)[_]` ends, and whether it goes through anything by a name."""
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
    """`walk(x)` goes through pairs; regopy gives them all at once."""
    return (
        parts[0] == "walk"
        and matching(parts, 1) == len(parts) - 1
        and "," not in _outermost(parts[2:-1]).values()
    )


def _is_step(parts: Sequence[str]) -> bool:
    """`a.b[i]`, or `x := a.b[i]`: what a step looks like."""
    words = [part for part in parts if not is_blank(part)]
    if len(words) > 2 and is_name(words[0]) and words[1] in (":=", "="):  # noqa: PLR2004 - a name and a sign
        words = words[2:]
    if not words or not is_name(words[0]) or "(" in words:
        return False
    deepest = max(itertools.accumulate((word == "[") - (word == "]") for word in words))
    return deepest <= 1 and _reference(words, 0)[0] == len(words)


def _line_end(tokens: Sequence[str], number: int) -> int:
    """Where a statement ends: with its line, at a semicolon, before an `else`; outside all brackets."""
    while number < len(tokens) and tokens[number] != "else":
        if tokens[number] in ("\n", ";"):
            before = past_blanks(tokens, number - 1, -1)
            if tokens[number] == ";" or before < 0 or tokens[before] not in _GOES_ON:
                return number
        closed = matching(tokens, number) if tokens[number] in ("(", "[", "{") else None
        number = (closed if closed is not None else number) + 1
    return number


def _split(parts: Sequence[str], word: str) -> Iterator[list[str]]:
    """Pieces that each begin with the word."""
    starts = [number for number, part in _outermost(parts).items() if part == word]
    for start, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        yield list(parts[start:end])


def _bar(inside: Sequence[str]) -> int | None:
    return next((number for number, part in _outermost(inside).items() if part == "|"), None)


def _outermost(parts: Sequence[str]) -> dict[int, str]:
    """What stands in no brackets, by its place."""
    found: dict[int, str] = {}
    number = 0
    while number < len(parts):
        closed = matching(parts, number) if parts[number] in ("(", "[", "{") else None
        if closed is None:
            found[number] = parts[number]
        number = (closed if closed is not None else number) + 1
    return found
