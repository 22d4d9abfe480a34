"""Names in a policy that keep a rule from ever firing in regopy, where the real evaluators see it. Pure.

A name that nothing gives a value, mistyped mostly: the others refuse such a policy. Only one that stands once
in its rule is looked at: it is either given a value there and not used, or used and given none. And a name
that `some p` makes local although a rule has it too: regopy takes it for the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.checks.tools.rego.policies import Policy
from holdfast.checks.tools.rego.tokens import (
    closes,
    is_blank,
    is_name,
    matching,
    opens,
    past_blanks,
    tokens_of,
)

_ALWAYS: Final = frozenset(("_", "input", "data", "rego"))


class _Token(NamedTuple):
    text: str
    line: int


def doubtful_names(policies: Sequence[Policy]) -> Iterator[str]:
    """What is wrong with each, and where it stands."""
    files = {policy.path: _lines(policy.text) for policy in policies if not policy.is_test}
    packages = {policy.path: policy.package for policy in policies}
    for path, tokens in files.items():
        rules = list(_rules(tokens))
        heads = {
            _head(rule)
            for other, there in files.items()
            if packages[other] == packages[path]
            for rule in _rules(there)
        }
        known = {*_ALWAYS, *_imported(rules), *heads}
        for rule in rules:
            if rule[0].text not in ("package", "import"):
                for one in _unknown(rule, known):
                    yield f"nothing gives this name a value: {path}:{one.line} (`{one.text}`)"
                for one in _taken_for_rules(rule, heads):
                    yield f"a rule has this name too, which regopy confuses: {path}:{one.line} (`{one.text}`)"


def _lines(text: str) -> list[_Token]:
    found: list[_Token] = []
    line = 1
    for token in tokens_of(text):
        found.append(_Token(token, line))
        line += token.count("\n")
    return found


def _rules(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """What begins with a word at the beginning of a line, outside all brackets."""
    rule: list[_Token] = []
    depth = 0
    for number, token in enumerate(tokens):
        fresh = depth == 0 and (number == 0 or tokens[number - 1].text == "\n")
        if fresh and token.text.isidentifier() and token.text != "else":
            if rule:
                yield rule
            rule = []
        depth += opens(token.text) - closes(token.text)
        if rule or token.text.isidentifier():
            rule.append(token)
    if rule:
        yield rule


def _head(rule: Sequence[_Token]) -> str:
    words = [token.text for token in rule if not is_blank(token.text)]
    return words[1] if words[0] == "default" and len(words) > 1 else words[0]


def _imported(rules: Sequence[Sequence[_Token]]) -> Iterator[str]:
    """The last word of an import is its name, or what it is called."""
    for rule in rules:
        if rule[0].text == "import":
            yield next(token.text for token in reversed(rule) if token.text.isidentifier())


def _unknown(rule: Sequence[_Token], known: set[str]) -> Iterator[_Token]:
    texts = [token.text for token in rule]
    used: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        if (
            is_name(text)
            and text not in known
            and texts[number - 1 : number] != ["."]
            and not _called(texts, number)
        ):
            used.setdefault(text, []).append(number)
    given = _given(texts)
    for places in used.values():
        if len(places) == 1 and places[0] not in given:
            yield rule[places[0]]


def _taken_for_rules(rule: Sequence[_Token], heads: set[str]) -> Iterator[_Token]:
    """After `some` up to the end of the line; with `in` regopy gets it right."""
    for number, token in enumerate(rule):
        if token.text == "some":
            rest = rule[number + 1 :]
            end = next((n for n, one in enumerate(rest) if one.text in ("in", ";", "\n", "}")), len(rest))
            if [one.text for one in rest[end : end + 1]] != ["in"]:
                yield from (one for one in rest[:end] if one.text in heads)


def _called(texts: Sequence[str], number: int) -> bool:
    while texts[number + 1 : number + 2] == ["."]:
        number += 2
    return texts[number + 1 : number + 2] == ["("]


def _given(texts: Sequence[str]) -> set[int]:
    """Places at which a name gets its value: before or after `:=`, in `some`, as an index, as an argument."""
    found: set[int] = set()
    for number, text in enumerate(texts):
        if text in (":=", "="):
            left, right = past_blanks(texts, number - 1, -1), past_blanks(texts, number + 1)
            start = matching(texts, left, -1) if left >= 0 and closes(texts[left]) else left
            found.update(range(start if start is not None else left, left + 1))
            found.add(right)
        elif text in ("some", "every"):
            end = next((n for n in range(number, len(texts)) if texts[n] in ("in", ";", "\n")), len(texts))
            found.update(range(number, end))
        elif text == "[" and number and (is_name(texts[number - 1]) or closes(texts[number - 1])):
            found.update(range(number, (matching(texts, number) or number) + 1))
    if len(texts) > 1 and texts[1] == "(":
        found.update(range(1, (matching(texts, 1) or 1) + 1))
    return found | _walked(texts)


def _walked(texts: Sequence[str]) -> set[int]:
    """`walk(x, [path, value])` gives both."""
    starts = [number + 1 for number, text in enumerate(texts) if text == "walk" and _called(texts, number)]
    return {place for start in starts for place in range(start, (matching(texts, start) or start) + 1)}
