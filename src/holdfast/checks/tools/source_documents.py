"""A file of Terraform's language as a document that policies are asked about: Conftest's shape. Pure.

    resource "aws_eip" "a" { domain = var.d }
    {"resource": {"aws_eip": {"a": [{"domain": "${var.d}"}]}}}

Blocks are lists under their labels. What is written out is its value; what is computed is its text in `${…}`.
"""

from __future__ import annotations

from typing import Any

from holdfast.hcl.nodes import (
    Access,
    Binary,
    Body,
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Template,
    Traversal,
    Tuple,
    Unary,
)

_UNREAD = "…"


def document(body: Body) -> dict[str, Any]:
    found: dict[str, Any] = {attribute.name: _value(attribute.expression) for attribute in body.attributes}
    for block in body.blocks:
        inside = found
        *labels, last = (block.type, *block.labels)
        for label in labels:
            step = inside.setdefault(label, {})
            inside = step if isinstance(step, dict) else {}
        rows = inside.setdefault(last, [])
        if isinstance(rows, list):
            rows.append(document(block.body))
    return found


def _value(expression: Expression) -> Any:
    match expression:
        case Literal():
            return expression.value
        case Tuple():
            return [_value(item) for item in expression.items]
        case Object():
            return {_key(key): _value(value) for key, value in expression.items}
        case Unary(operator="-", operand=Literal(value=int() | float() as number)):
            return -number
        case Template():
            return _template(expression)
        case _:
            return f"${{{_text(expression)}}}"


def _key(key: Expression) -> str:
    return str(key.value) if isinstance(key, Literal) else str(_value(key))


def _template(expression: Template) -> str:
    return "".join(
        str(piece.value) if isinstance(piece, Literal) else f"${{{_text(piece)}}}"
        for piece in expression.pieces
    )


def _text(expression: Expression) -> str:  # noqa: C901, PLR0911 - one row per kind
    match expression:
        case Literal():
            return _literal(expression)
        case Template():
            return f'"{_template(expression)}"'
        case Traversal():
            return f"{expression.root}{_steps(expression.steps)}"
        case Access():
            return f"{_text(expression.base)}{_steps(expression.steps)}"
        case Call():
            dots = "..." if expression.expand_final else ""
            return f"{expression.name}({', '.join(map(_text, expression.arguments))}{dots})"
        case Conditional():
            return f"{_text(expression.condition)} ? {_text(expression.yes)} : {_text(expression.no)}"
        case Unary():
            return f"{expression.operator}{_text(expression.operand)}"
        case Binary():
            return f"{_text(expression.left)} {expression.operator} {_text(expression.right)}"
        case Tuple():
            return f"[{', '.join(map(_text, expression.items))}]"
        case Object():
            return "{" + ", ".join(f"{_key(key)} = {_text(value)}" for key, value in expression.items) + "}"
        case For():
            return _for(expression)
        case _:
            return _UNREAD


def _literal(expression: Literal) -> str:
    match expression.value:
        case None:
            return "null"
        case bool():
            return "true" if expression.value else "false"
        case str():
            return f'"{expression.value}"'
        case _:
            return str(expression.value)


def _steps(steps: tuple[str | Expression, ...]) -> str:
    return "".join(f".{step}" if isinstance(step, str) else f"[{_text(step)}]" for step in steps)


def _for(expression: For) -> str:
    names = ", ".join(name for name in (expression.key_name, expression.value_name) if name)
    key = f"{_text(expression.key)} => " if expression.key is not None else ""
    dots = "..." if expression.grouped else ""
    only = f" if {_text(expression.condition)}" if expression.condition is not None else ""
    text = f"for {names} in {_text(expression.collection)} : {key}{_text(expression.value)}{dots}{only}"
    return f"{{{text}}}" if expression.key is not None else f"[{text}]"
