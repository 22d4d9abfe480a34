"""A JSON Schema (draft 2020-12) of the payload, derived from the `variable` blocks of a module. Pure.

It is stricter than Terraform, which turns `"5"` into a number and ignores unknown attributes of an object.
Conditions that have no counterpart in JSON Schema are left to Terraform; `$comment` says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from msgspec import Struct, field

from holdfast.hcl.eval.code import ModuleCode
from holdfast.hcl.nodes import Binary, Block, Call, Expression, Literal, Object, Template, Traversal, Tuple
from holdfast.hcl.reader import Unknown, constant, read
from holdfast.kernel.patterns import pattern

JsonSchema = dict[str, Any]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
MESSAGE: Final = "x-error"
"""A keyword of our own: what to say if the keywords beside it are not satisfied."""
TERRAFORM_CHECKS: Final = "Checked by Terraform only: "
_PRIMITIVES: Final = {"string": "string", "number": "number", "bool": "boolean"}
_FLIPPED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}
_LIMITS: Final = {
    ">=": "minimum",
    ">": "exclusiveMinimum",
    "<=": "maximum",
    "<": "exclusiveMaximum",
    "==": "const",
}
_LENGTHS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_ONLY_RE2: Final = pattern(r"\[\[:|\\[pPQzCAZGbBk]|\(\?[^:]")
"""Syntax that means something else, or nothing, in other languages: classes, flags, anchors."""
_PIECE: Final = pattern(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[0-9]+(?:,[0-9]*)?\}|.", re.DOTALL)
"""An escape, a class, a number of repetitions, or a character."""


class _Declared(Struct, kw_only=True):
    """The blocks of one variable: those in override files change single attributes."""

    attributes: dict[str, Expression] = field(default_factory=dict)
    validations: tuple[Block, ...] = ()

    def text(self, name: str) -> str | None:
        value = self.constant(name)
        return value if isinstance(value, str) else None

    def constant(self, name: str) -> object:
        expression = self.attributes.get(name)
        return None if expression is None else constant(expression)


def schema_of_variables(module: ModuleCode, *, fixed: Collection[str] = ()) -> JsonSchema:
    """`fixed` variables get their value elsewhere: the payload cannot set them."""
    declared: dict[str, _Declared] = {}
    for block in module.blocks("variable"):
        if block.labels and (name := block.labels[0]) not in fixed:
            variable = declared.setdefault(name, _Declared())
            variable.attributes.update({item.name: item.expression for item in block.body.attributes})
            variable.validations = tuple(block.body.blocks_of("validation")) or variable.validations
    required = sorted(name for name, variable in declared.items() if "default" not in variable.attributes)
    return {
        "$schema": DRAFT,
        "type": "object",
        "properties": {name: _variable(name, variable) for name, variable in sorted(declared.items())},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _variable(name: str, variable: _Declared) -> JsonSchema:
    schema = _type(variable.attributes.get("type"))
    kind = schema.get("type")
    has_default = "default" in variable.attributes
    if has_default or variable.constant("nullable") is True:
        schema = _or_null(schema)
    description = variable.text("description")
    if description:
        schema = {"description": description, **schema}
    if variable.constant("sensitive") is True:
        schema["writeOnly"] = True
    elif has_default and (default := _plain(variable.constant("default"))) is not Unknown:
        schema["default"] = default
    rules: list[JsonSchema] = []
    left: list[str] = []
    for block in variable.validations:
        known, complete, message = _validation(block, name, kind if isinstance(kind, str) else "")
        rules += [{**rule, **({MESSAGE: message} if message else {})} for rule in known]
        if not complete:
            left.append(message or f"the condition in {block.place}")
    if rules:
        schema["allOf"] = rules
    if left:
        schema["$comment"] = TERRAFORM_CHECKS + " ".join(left)
    return schema


def _plain(value: object) -> Any:
    """As JSON has it; `Unknown` for what is known only to Terraform."""
    match value:
        case Unknown():
            return Unknown
        case tuple():
            items = [_plain(item) for item in value]
            return Unknown if Unknown in items else items
        case dict():
            members = {key: _plain(item) for key, item in value.items()}
            return Unknown if Unknown in members.values() else members
        case _:
            return value


# Types


def _type(expression: Expression | None) -> JsonSchema:  # noqa: PLR0911 - a row per kind
    match expression:
        case Traversal(root=name, steps=()) if name in _PRIMITIVES:
            return {"type": _PRIMITIVES[name]}
        case Literal(value=str() as text):  # JSON syntax, and code from before Terraform 0.12.
            inner = read(f"type = {text}", "type.tf").body.attribute("type")
            return {} if inner is None or isinstance(inner.expression, Literal) else _type(inner.expression)
        case Traversal(root="list" | "set", steps=()):
            return {"type": "array"}
        case Traversal(root="map", steps=()):
            return {"type": "object"}
        case Call(name="list" | "set", arguments=(item,)):
            return {"type": "array", "items": _type(item)}
        case Call(name="map", arguments=(item,)):
            return {"type": "object", "additionalProperties": _type(item)}
        case Call(name="tuple", arguments=(Tuple(items=items),)):
            most = len(items)
            schema: JsonSchema = {"type": "array", "minItems": most, "maxItems": most, "items": False}
            return {**schema, "prefixItems": [_type(item) for item in items]} if items else schema
        case Call(name="object", arguments=(Object(items=members),)):
            return _object(members)
        case _:
            return {}


def _object(members: tuple[tuple[Expression, Expression], ...]) -> JsonSchema:
    properties: JsonSchema = {}
    required: list[str] = []
    for key, value in members:
        name = str(constant(key))
        match value:
            case Call(name="optional", arguments=(item, *default)):
                properties[name] = _or_null(_type(item))
                if default and (known := _plain(constant(default[0]))) is not Unknown:
                    properties[name]["default"] = known
            case _:
                properties[name] = _type(value)
                required.append(name)
    schema: JsonSchema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _or_null(schema: JsonSchema) -> JsonSchema:
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else schema


# Conditions


def _validation(block: Block, name: str, kind: str) -> tuple[list[JsonSchema], bool, str | None]:
    """The rules, whether they say everything that the condition says, and its message."""
    condition = block.body.attribute("condition")
    message = block.body.attribute("error_message")
    text = constant(message.expression) if message is not None else None
    shown = text if isinstance(text, str) else None
    if condition is None:
        return [], False, shown
    rules: list[JsonSchema] = []
    complete = True
    for part in _conjunction(condition.expression):
        rule = _rule(part, name, kind)
        if rule is None:
            complete = False
        elif rules and rules[-1].keys().isdisjoint(rule):
            rules[-1].update(rule)
        else:
            rules.append(rule)
    return rules, complete, shown


def _conjunction(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Binary) and expression.operator == "&&":
        yield from _conjunction(expression.left)
        yield from _conjunction(expression.right)
    else:
        yield expression


def _rule(expression: Expression, name: str, kind: str) -> JsonSchema | None:  # noqa: PLR0911 - as above
    """None: JSON Schema cannot express it."""

    def is_it(part: Expression) -> bool:
        part = part.pieces[0] if isinstance(part, Template) and len(part.pieces) == 1 else part
        return isinstance(part, Traversal) and (part.root, *part.steps) == ("var", name)

    match expression:
        case Template(pieces=(single,)):  # A condition in JSON syntax.
            return _rule(single, name, kind)
        case Binary(operator="||", left=Binary(operator="==", left=left, right=right), right=other) if (
            is_it(left) and constant(right) is None
        ):
            rule = _rule(other, name, kind)
            return rule if rule is None or "enum" not in rule else {"enum": [*rule["enum"], None]}
        case Call(
            name="can", arguments=(Call(name="regex", arguments=(Literal(value=str() as text), part)),)
        ):
            return {"pattern": text} if is_it(part) and kind == "string" and _translates(text) else None
        case Call(name="contains", arguments=(Tuple() as choices, part)) if is_it(part):
            values = _plain(constant(choices))
            return None if values is Unknown else {"enum": values}
        case Binary(operator="==", left=Call(name="floor", arguments=(inner,)), right=right) if (
            is_it(inner) and is_it(right) and kind == "number"
        ):
            return {"multipleOf": 1}
        case Binary(operator=operator, left=left, right=right) if operator in _FLIPPED:
            value = constant(right)
            if isinstance(value, Unknown):
                operator, left, value = _FLIPPED[operator], right, constant(left)
            return _comparison(left, operator, value, kind, is_it)
        case _:
            return None


def _comparison(left: Expression, operator: str, value: object, kind: str, is_it: Any) -> JsonSchema | None:
    match left, value:
        case _, bool():
            return None
        case Call(name="length", arguments=(part,)), int() if is_it(part) and kind in _LENGTHS:
            return _length(operator, value, _LENGTHS[kind])
        case _, int() | float() if is_it(left) and kind == "number" and operator in _LIMITS:
            return {_LIMITS[operator]: value} if math.isfinite(value) else None
        case _, "" if is_it(left) and kind == "string" and operator == "!=":
            return {"minLength": 1}
        case _:
            return None


def _length(operator: str, value: int, what: str) -> JsonSchema | None:
    least = {">=": value, ">": value + 1, "==": value}.get(operator)
    most = {"<=": value, "<": value - 1, "==": value}.get(operator)
    if operator == "!=" and value == 0:
        least = 1
    if (least is None and most is None) or (most is not None and most < 0):
        return None
    limits = {f"min{what}": None if least is None else max(least, 0), f"max{what}": most}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _translates(text: str) -> bool:
    """Whether a pattern of Terraform means the same here, and is quick for every text."""
    if _ONLY_RE2.search(text) or _repeats_repetitions(text):
        return False
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _repeats_repetitions(text: str) -> bool:
    """`(a+)+` can take Python very long, though not Terraform."""
    groups = [False]
    closed = False
    for piece in _PIECE.findall(text):
        if piece in {"*", "+"} or (piece.startswith("{") and piece.endswith(",}")):
            if closed:
                return True
            groups[-1] = True
        closed = False
        if piece == "(":
            groups.append(False)
        elif piece == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1] = groups[-1] or closed
    return False
