"""Single values: choices, flags, numbers, durations, sizes. A wrong one is noted and becomes BAD."""

from __future__ import annotations

from typing import Final, assert_never

from holdfast.config import quantities
from holdfast.config.problems import Problems, did_you_mean, listed
from holdfast.config.shape import WRONG_VALUE, Choice, Duration, Flag, Number, Size, Version, Whole
from holdfast.config.yaml import BrokenNode, ListNode, MapNode, Node, ScalarNode


class Bad:
    """Stands for a value that was there and was wrong: what is missing and what is wrong are not the same."""

    def __repr__(self) -> str:
        return "BAD"


BAD: Final = Bad()

ScalarShape = Choice | Flag | Whole | Number | Version | Duration | Size


def read_scalar(
    shape: ScalarShape, node: Node, *, where: str, problems: Problems
) -> str | int | float | bool | Bad:
    if not isinstance(node, ScalarNode):
        return wrong(node, where, _expected(shape), problems=problems)
    match shape:
        case Choice():
            return _choice(shape, node, where, problems)
        case Flag():
            good = isinstance(node.value, bool)
            return bool(node.value) if good else wrong(node, where, _expected(shape), problems=problems)
        case Whole() | Number():
            return _number(shape, node, where, problems)
        case Version():
            return _version(shape, node, problems)
        case Duration() | Size():
            return _quantity(shape, node, where, problems)
        case _:
            assert_never(shape)


def _expected(shape: ScalarShape) -> str:  # noqa: PLR0911 - one row per kind
    match shape:
        case Choice():
            return listed(shape.values)
        case Flag():
            return "true or false"
        case Whole():
            return f"a whole number from {shape.least} to {shape.most}"
        case Number():
            return f"a number from {shape.least:g} to {shape.most:g}"
        case Version():
            return str(shape.known)
        case Duration():
            low, high = quantities.in_words(shape.least), quantities.in_words(shape.most)
            return f"a duration from {low} to {high}, such as `30m`"
        case Size():
            return "a size such as `5GB`"
        case _:
            assert_never(shape)


def _choice(shape: Choice, node: ScalarNode, where: str, problems: Problems) -> str | Bad:
    if not isinstance(node.value, str):
        return wrong(node, where, _expected(shape), problems=problems)
    if node.value in shape.values:
        return node.value
    hint = did_you_mean(node.value, shape.values) or f"It is {listed(shape.values)}."
    problems.add("HF-CONF-7", f"{where} cannot be `{node.value}`", place=node.place, hint=hint)
    return BAD


def _number(shape: Whole | Number, node: ScalarNode, where: str, problems: Problems) -> float | Bad:
    right = int if isinstance(shape, Whole) else (int, float)
    if not isinstance(node.value, right) or isinstance(node.value, bool):
        return wrong(node, where, _expected(shape), problems=problems)
    if shape.least <= node.value <= shape.most:
        return node.value
    message = f"{where} is {node.value}, and must be {_expected(shape)}"
    problems.add("HF-CONF-21", message, place=node.place)
    return BAD


def _version(shape: Version, node: ScalarNode, problems: Problems) -> int | Bad:
    if type(node.value) is int and node.value == shape.known:
        return shape.known
    problems.add(
        "HF-CONF-12",
        f"this Holdfast does not know version `{node.text}` of the format",
        place=node.place,
        hint=f"Write `version: {shape.known}`, or use the Holdfast that the file was written for.",
    )
    return BAD


def _quantity(shape: Duration | Size, node: ScalarNode, where: str, problems: Problems) -> int | float | Bad:
    if isinstance(node.value, bool) or node.value is None:
        return wrong(node, where, _expected(shape), problems=problems)
    if isinstance(shape, Duration):
        found: float | int | None = quantities.seconds(node.text)
        good = found is not None and shape.least <= found <= shape.most
        hint = "Write it as 90s, 30m, 24h, 1h30m, 90d, or in plain seconds."
    else:
        found = quantities.size_in_bytes(node.text)
        good = found is not None and found > 0
        hint = "Write it as 500MB, 5GB, 1GiB, or in plain bytes."
    if found is not None and good:
        return found
    message = f"{where} is `{node.text}`, and must be {_expected(shape)}"
    problems.add("HF-CONF-21", message, place=node.place, hint=hint)
    return BAD


def wrong(node: Node, where: str, expected: str, *, problems: Problems) -> Bad:
    """Another kind of value than the key takes."""
    hint: str | None = None
    if isinstance(node, ScalarNode) and node.value is None:
        message = f"{where} has no value"
        hint = f"Give {expected}, or take the key away."
    else:
        message = f"{where} must be {expected}, not {kind(node)}"
        if isinstance(node, MapNode) and (name := _bare_placeholder(node)):
            hint = f'Put text that starts with a placeholder in quotes: "{{{name}}}".'
        elif isinstance(node, ScalarNode) and not isinstance(node.value, str) and "text" in expected:
            hint = f'If text is meant, put it in quotes: "{node.text}".'
    problems.add(WRONG_VALUE, message, place=node.place, hint=hint)
    return BAD


def kind(node: Node) -> str:
    match node:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case ScalarNode(value=bool()):
            return node.text
        case ScalarNode(value=int() | float()):
            return f"the number {node.text}"
        case ScalarNode():
            return "text"
        case BrokenNode():
            return "this"
        case _:
            assert_never(node)


def _bare_placeholder(node: MapNode) -> str | None:
    """`{account}` without quotes is a mapping for YAML: a trap worth a hint."""
    if len(node.entries) != 1:
        return None
    value = node.entries[0].value
    return node.entries[0].key if isinstance(value, ScalarNode) and value.value is None else None
