"""Finds names because of which a rule would never fire in regopy. Pure.

A mistyped name that has no value: only a name that occurs once in its rule is reported, because it is either
assigned and unused, or used and never assigned. And a name declared with `some p` that is also the name of a
rule: regopy uses the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.checks.tools.rego.policies import PolicyFile
from holdfast.checks.tools.rego.tokens import (
    closes,
    is_name,
    matching,
    rule_name,
    skip_blanks,
    split_rules,
    tokenize,
)

_BUILT_IN: Final = frozenset(("_", "input", "data", "rego"))


def name_problems(policies: Sequence[PolicyFile]) -> Iterator[str]:
    """One message for each, with its place."""
    tokens = {policy.path: tokenize(policy.text) for policy in policies}
    rules = {path: list(split_rules(tokens[path])) for path in tokens}
    names: dict[str | None, set[str]] = {}
    for policy in policies:
        names.setdefault(policy.package, set()).update(
            rule_name(tokens[policy.path][start:end]) for start, end in rules[policy.path]
        )
    for policy in policies:
        texts, heads = tokens[policy.path], names[policy.package]
        known = {*_BUILT_IN, *heads}
        for start, end in rules[policy.path]:
            rule = texts[start:end]
            if rule[0] == "import":
                # `import data.a.b` and `import data.a as b` both define `b`.
                known.add(next(token for token in reversed(rule) if token.isidentifier()))
        for start, end in rules[policy.path]:
            rule = texts[start:end]
            if rule[0] in ("package", "import"):
                continue
            for why, indexes in (
                ("this name has no value", _unassigned(rule, known)),
                ("regopy confuses this name with the rule of the same name", _shadowing(rule, heads)),
            ):
                for index in indexes:
                    line = "".join(texts[: start + index]).count("\n") + 1
                    yield f"{why}: `{rule[index]}` ({policy.path}:{line})"


def _unassigned(rule: Sequence[str], known: set[str]) -> Iterator[int]:
    uses: dict[str, list[int]] = {}
    for index, token in enumerate(rule):
        is_field = rule[index - 1 : index] == ["."]
        if is_name(token) and token not in known and not is_field and not _is_call(rule, index):
            uses.setdefault(token, []).append(index)
    assigned = _assigned(rule)
    for indexes in uses.values():
        if len(indexes) == 1 and indexes[0] not in assigned:
            yield indexes[0]


def _shadowing(rule: Sequence[str], heads: set[str]) -> Iterator[int]:
    """Names after `some` to the end of the line. regopy handles `some … in` correctly."""
    for index, text in enumerate(rule):
        if text == "some":
            end = _next(rule, index, ("in", ";", "\n", "}"))
            if end == len(rule) or rule[end] != "in":
                yield from (at for at in range(index + 1, end) if rule[at] in heads)


def _is_call(rule: Sequence[str], index: int) -> bool:
    while rule[index + 1 : index + 2] == ["."]:
        index += 2
    return rule[index + 1 : index + 2] == ["("]


def _assigned(rule: Sequence[str]) -> set[int]:
    """Where a name gets its value: beside `:=`, after `some`, as an index or parameter, in `walk(x, …)`."""
    places: set[int] = set()
    for index, text in enumerate(rule):
        if text in (":=", "="):
            left, right = skip_blanks(rule, index - 1, -1), skip_blanks(rule, index + 1)
            start = matching(rule, left, -1) if left >= 0 and closes(rule[left]) else left
            places.update(range(start if start is not None else left, left + 1), (right,))
        elif text in ("some", "every"):
            places.update(range(index, _next(rule, index, ("in", ";", "\n"))))
        elif text == "[" and index and (is_name(rule[index - 1]) or closes(rule[index - 1])):
            places.update(_brackets(rule, index))
        elif text == "walk" and _is_call(rule, index):
            places.update(_brackets(rule, index + 1))
    return places.union(_brackets(rule, 1) if rule[1:2] == ["("] else ())


def _next(rule: Sequence[str], index: int, ends: tuple[str, ...]) -> int:
    return next((at for at in range(index, len(rule)) if rule[at] in ends), len(rule))


def _brackets(rule: Sequence[str], index: int) -> range:
    return range(index, (matching(rule, index) or index) + 1)
