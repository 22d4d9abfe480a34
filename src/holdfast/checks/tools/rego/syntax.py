"""The syntax of Rego as a tree of tokens, and mistakes in names that regopy does not report. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from holdfast.checks.tools.rego.policies import PolicyFile

Tree: TypeAlias = "list[str | Tree]"
"""Tokens; a pair of brackets with what is between them is a tree of its own. Joined, it is the text."""

_TOKEN: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`[^`]*`|\d[\w.]*|[A-Za-z_]\w*|#[^\n]*|[ \t\r]+|[:=!<>]=|.', re.DOTALL
)
_CLOSERS: Final = {")": "(", "]": "[", "}": "{"}
_KEYWORDS: Final = frozenset(
    [
        "if",
        "not",
        "some",
        "every",
        "in",
        "contains",
        "else",
        "default",
        "with",
        "as",
        "import",
        "true",
        "false",
        "null",
    ]
)
_BUILT_IN: Final = frozenset(("_", "input", "data", "rego"))
_TEST: Final = re.compile(r"(?:todo_)?test_\w+")
_MAX_DEPTH: Final = 100


def parse(text: str) -> Tree:
    """Raises `ValueError` if the brackets do not match."""
    open_: list[Tree] = [[]]
    lines = [1]
    line = 1
    for token in _TOKEN.findall(text):
        line += token.count("\n")
        if token in _CLOSERS.values():
            open_.append([token])
            lines.append(line)
            if len(open_) > _MAX_DEPTH:
                raise ValueError(f"line {line} is nested too deeply")
            continue
        open_[-1].append(token)
        if token in _CLOSERS:
            closed = open_.pop()
            lines.pop()
            if not open_ or closed[0] != _CLOSERS[token]:
                raise ValueError(f"`{token}` on line {line} closes no bracket")
            open_[-1].append(closed)
    if len(open_) > 1:
        raise ValueError(f"`{open_[-1][0]}` on line {lines[-1]} is not closed")
    return open_[0]


def join(items: Iterable[str | Tree]) -> str:
    return "".join(leaves(items))


def leaves(items: Iterable[str | Tree]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            yield from leaves(item)


def is_name(item: str | Tree) -> bool:
    return isinstance(item, str) and item.isidentifier() and item not in _KEYWORDS


def is_group(item: str | Tree, openers: str) -> bool:
    return isinstance(item, list) and item[0] in tuple(openers)


def is_blank(item: str | Tree) -> bool:
    """White space inside a line, or a comment."""
    return isinstance(item, str) and (item.startswith("#") or not item.strip(" \t\r"))


def split_rules(tree: Tree) -> Iterator[tuple[int, int]]:
    """Start and end of each rule, import and package clause: each starts a line, outside brackets."""
    starts = [
        index
        for index, item in enumerate(tree)
        if isinstance(item, str)
        and item.isidentifier()
        and item != "else"
        and (index == 0 or tree[index - 1] == "\n")
    ]
    yield from itertools.pairwise([*starts, len(tree)])


def without_tests(text: str) -> str:
    """The policy without its `test_` rules; every other rule stays on its line."""
    tree = parse(text)
    for start, end in reversed(list(split_rules(tree))):
        if _TEST.fullmatch(_rule_name(tree[start:end])):
            tree[start:end] = ["\n" * join(tree[start:end]).count("\n")]
    return join(tree)


def _rule_name(rule: Tree) -> str:
    words = [item for item in rule if isinstance(item, str) and not is_blank(item)]
    return words[1] if words[0] == "default" and len(words) > 1 else words[0]


# Names because of which a rule would never fire in regopy.


def name_problems(policies: Sequence[PolicyFile]) -> Iterator[str]:
    """One message with its place for each name without a value, and for each that hides a rule.

    Only a name that occurs once in its rule is reported as having no value: it is either assigned and unused,
    or used and never assigned. A name declared with `some p` may also be the name of a rule: regopy uses the
    rule.
    """
    trees = {policy.path: parse(policy.text) for policy in policies}
    heads: dict[str | None, set[str]] = {}
    for policy in policies:
        tree = trees[policy.path]
        names = (_rule_name(tree[start:end]) for start, end in split_rules(tree))
        heads.setdefault(policy.package, set()).update(names)
    for policy in policies:
        tree, own = trees[policy.path], heads[policy.package]
        rules = [(tree[start:end], join(tree[:start]).count("\n") + 1) for start, end in split_rules(tree)]
        # `import data.a.b` and `import data.a as b` both define `b`.
        imports = (leaves(reversed(rule)) for rule, _ in rules if rule[0] == "import")
        known = {*_BUILT_IN, *own, *(next(filter(str.isidentifier, words)) for words in imports)}
        for rule, line in rules:
            if rule[0] in ("package", "import"):
                continue
            tokens = list(leaves(rule))
            for why, indexes in (
                ("this name has no value", _unassigned(rule, tokens, known)),
                ("regopy confuses this name with the rule of the same name", _shadowing(tokens, own)),
            ):
                for index in indexes:
                    at = line + "".join(tokens[:index]).count("\n")
                    yield f"{why}: `{tokens[index]}` ({policy.path}:{at})"


def _unassigned(rule: Tree, tokens: Sequence[str], known: set[str]) -> Iterator[int]:
    known = known.union(_assigned(rule))
    uses: dict[str, list[int]] = {}
    for index, token in enumerate(tokens):
        is_field = tokens[index - 1 : index] == ["."]
        if is_name(token) and token not in known and not is_field and not _is_call(tokens, index):
            uses.setdefault(token, []).append(index)
    yield from (index for index, *others in uses.values() if not others)


def _is_call(tokens: Sequence[str], index: int) -> bool:
    while tokens[index + 1 : index + 2] == ["."]:
        index += 2
    return tokens[index + 1 : index + 2] == ["("]


def _assigned(items: Tree, *, is_rule: bool = True) -> Iterator[str]:
    """Names with a value: beside `:=`, after `some`, as an index or parameter, in `walk(x, …)`."""
    words = [item for item in items if not is_blank(item)]
    for index, item in enumerate(words):
        before = words[index - 1] if index else ""
        if item in (":=", "="):
            yield from leaves([before, *(words[index + 1 : index + 2] if item == "=" else ())])
        elif item in ("some", "every"):
            end = next((at for at in range(index, len(words)) if words[at] in ("in", ";", "\n")), len(words))
            yield from leaves(words[index:end])
        elif isinstance(item, list):
            is_index = item[0] == "[" and (is_name(before) or isinstance(before, list))
            if is_index or before == "walk" or (is_rule and index == 1):
                yield from leaves(item)
            yield from _assigned(item, is_rule=False)


def _shadowing(tokens: Sequence[str], heads: set[str]) -> Iterator[int]:
    """Names after `some` to the end of the line. regopy handles `some … in` correctly."""
    for index, word in enumerate(tokens):
        if word == "some":
            ends = (at for at in range(index, len(tokens)) if tokens[at] in ("in", ";", "\n", "}"))
            end = next(ends, len(tokens))
            if tokens[end : end + 1] != ["in"]:
                yield from (at for at in range(index + 1, end) if tokens[at] in heads)
